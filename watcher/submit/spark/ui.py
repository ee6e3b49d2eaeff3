"""A running application's progress, read from the REST API of its own Spark UI on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from watcher.submit.base import Progress

_TIMEOUT: Final = 30.0
"""Seconds. A busy driver answers late, and if its client has gone by then, it writes a trace into the job's log."""
_GOING_ON: Final = ("ACTIVE", "PENDING")


async def ask_spark_ui(log: Path, since: datetime | None = None) -> Progress | None:
    """Ask the application's UI for its progress; None if none answers on this machine's loopback.

    The UI takes any free port. Spark logs which, and `command.LOG4J2` directs that line into `log`, in the scratch folder
    of the try. `since` is when the try began: what a warm driver did before is not counted.
    """
    port = ui_port(log)
    if port is None:
        return None
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        # The UI speaks no TLS, and reading the authorities' certificates would take each follower of a try 20 ms.
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=False) as client:  # noqa: S501
            applications = (await client.get(address)).raise_for_status().json()
            stages = await client.get(f"{address}/{applications[0]['id']}/stages", params={"withSummaries": "false"})
            progress = progress_of(stages.raise_for_status().json(), since)
            return progress and replace(progress, application_id=applications[0]["id"])
    except (httpx.HTTPError, ValueError, LookupError):
        return None


def ui_port(log: Path) -> int | None:
    try:
        ports = re.findall(r"'SparkUI' on port (\d+)", log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(ports[-1]) if ports else None


def progress_of(stages: Iterable[Mapping[str, Any]], since: datetime | None = None) -> Progress | None:
    """Count the newest attempt of each stage. A stage that has ended has no more tasks than it completed."""
    attempts = _newest_attempts(stages, since)
    counted = [stage for stage in attempts if stage["status"] != "SKIPPED"]
    if not counted:
        return None
    return Progress(
        stages=len(counted),
        tasks=sum(stage["numTasks" if stage["status"] in _GOING_ON else "numCompleteTasks"] for stage in counted),
        tasks_done=sum(stage["numCompleteTasks"] for stage in counted),
        first_action_at=min(filter(None, map(_submitted_at, attempts)), default=None),
        rows_read=_sum(counted, "inputRecords"),
        bytes_read=_sum(counted, "inputBytes"),
        rows_written=_sum(counted, "outputRecords"),
        bytes_written=_sum(counted, "outputBytes"),
    )


def _newest_attempts(stages: Iterable[Mapping[str, Any]], since: datetime | None) -> Sequence[Mapping[str, Any]]:
    newest: dict[int, Mapping[str, Any]] = {}
    for stage in sorted(stages, key=lambda attempt: int(attempt["attemptId"])):
        submitted_at = _submitted_at(stage)
        if since is None or submitted_at is None or submitted_at >= since:
            newest[stage["stageId"]] = stage
    return list(newest.values())


def _submitted_at(stage: Mapping[str, Any]) -> datetime | None:
    """When Spark submitted the stage, which it writes as `2026-11-20T09:00:00.123GMT`; None if it has not yet."""
    text: str | None = stage.get("submissionTime")
    return datetime.fromisoformat(text.removesuffix("GMT")).replace(tzinfo=UTC) if text else None


def _sum(stages: Iterable[Mapping[str, Any]], count: str) -> int:
    return sum(stage.get(count, 0) for stage in stages)
