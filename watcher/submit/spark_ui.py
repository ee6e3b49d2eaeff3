"""How far a Spark application is, asked of its own UI: for jobs that do not report it themselves.

The UI takes any free port. Spark logs which, and `command.LOG4J2` has that line written into the try's scratch folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from watcher.submit.base import Progress

ADDRESS_FILE: Final = "spark-ui.txt"
_TIMEOUT: Final = 5.0


async def ask_spark_ui(log: Path) -> Progress | None:
    """None when there is no UI, or none that answers from this machine's loopback."""
    port = ui_port(log)
    if port is None:
        return None
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False) as client:
            applications = (await client.get(address)).raise_for_status().json()
            stages = await client.get(f"{address}/{applications[0]['id']}/stages", params={"withSummaries": "false"})
            return progress_of(stages.raise_for_status().json())
    except (httpx.HTTPError, ValueError, LookupError):
        return None


def ui_port(log: Path) -> int | None:
    try:
        found = re.findall(r"'SparkUI' on port (\d+)", log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(found[-1]) if found else None


def progress_of(stages: Iterable[Mapping[str, Any]]) -> Progress | None:
    """Of the newest attempt of each stage; what a stage that has ended did not do never will be done."""
    newest: dict[int, Mapping[str, Any]] = {}
    for stage in sorted(stages, key=lambda one: int(one["attemptId"])):
        newest[stage["stageId"]] = stage
    counted = [stage for stage in newest.values() if stage["status"] != "SKIPPED"]
    if not counted:
        return None
    going_on = ("ACTIVE", "PENDING")
    return Progress(
        stages=len(counted),
        tasks=sum(one["numTasks" if one["status"] in going_on else "numCompleteTasks"] for one in counted),
        tasks_done=sum(one["numCompleteTasks"] for one in counted),
    )
