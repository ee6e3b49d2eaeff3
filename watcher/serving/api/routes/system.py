"""The audit and the health of the system: `/api/v2/audit`, `/api/v2/monitor/health`, `/api/v2/version` and the probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter

from store.processes import audit, triggerers
from store.processes.triggerers import Heartbeat
from watcher.host.health import PROBE_DEADLINE, Health
from watcher.host.machine import program_version
from watcher.scheduling.problems.problem import Level, ProblemGroup
from watcher.serving.api.context import Context
from watcher.serving.api.errors import UNAVAILABLE
from watcher.serving.api.parameters import UnorderedWindow
from watcher.serving.api.problems import not_ready, problems_now
from watcher.serving.api.routes.logs import WriteId
from watcher.serving.api.shapes.base import JsonObject, Shape
from watcher.serving.api.sign_in.auth import Viewer

router = APIRouter(prefix="/api/v2", tags=["Monitor"])


class AuditRecord(Shape):
    id: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: JsonObject
    write_id: str | None


class AuditCollection(Shape):
    audit: Sequence[AuditRecord]
    total_entries: int


@router.get("/audit")
async def list_audit(context: Context, _: Viewer, window: UnorderedWindow, write_id: WriteId = None) -> AuditCollection:
    """List the audit, newest first, or the entries of one write."""
    async with context.database.reading() as connection:
        entries = await audit.listed(connection, write_id, window)
    return AuditCollection(audit=[AuditRecord.of(entry) for entry in entries.rows], total_entries=entries.total)


class BaseInfoResponse(Shape):
    status: Literal["healthy", "unhealthy"] | None


class SchedulerInfoResponse(BaseInfoResponse):
    latest_scheduler_heartbeat: datetime | None


class TriggererInfoResponse(BaseInfoResponse):
    latest_triggerer_heartbeat: datetime | None


class HealthInfoResponse(Shape):
    metadatabase: BaseInfoResponse
    scheduler: SchedulerInfoResponse
    triggerer: TriggererInfoResponse
    dag_processor: None = None


@router.get("/monitor/health", response_model=HealthInfoResponse)
async def health(context: Context) -> dict[str, Any]:
    """Return the health in Airflow's shape. `scheduler` stands for scheduler and dispatcher, by the dispatcher's heartbeat.

    If the database does not answer soon, only the parts of this process are reported.
    """
    outage: Exception | None = context.database.outage
    try:
        async with context.database.reading(PROBE_DEADLINE) as connection:
            newest = await triggerers.heartbeats(connection)
    except UNAVAILABLE as error:
        outage, newest = error, _own_heartbeats(context.process.health)
    of_database = {"metadatabase": {"status": "healthy" if outage is None else "unhealthy"}}
    return {**of_database, **_health(newest)}


def _own_heartbeats(health: Health) -> Mapping[str, Heartbeat | None]:
    parts = {"scheduler": health.beat_of("dispatcher"), "triggerer": health.beat_of("triggerer")}
    return {
        kind: None if beat is None else Heartbeat(at=beat.at, lives=not beat.is_late) for kind, beat in parts.items()
    }


def _health(newest: Mapping[str, Heartbeat | None]) -> dict[str, Any]:
    return {
        kind: {"status": _status(beat), f"latest_{kind}_heartbeat": beat and beat.at} for kind, beat in newest.items()
    }


def _status(beat: Heartbeat | None) -> str | None:
    return None if beat is None else "healthy" if beat.lives else "unhealthy"


class ProblemResponse(Shape):
    """Problems of one cause. `kind` and `subject` identify them: the subject is that of the oldest, and `count` their number."""

    kind: str
    level: Level
    subject: Mapping[str, str]
    since: datetime | None
    message: str
    remedy: str
    next_try_at: datetime | None
    count: int
    url: str


@router.get("/problems")
async def list_problems(context: Context, _: Viewer) -> Sequence[ProblemResponse]:
    """List what is wrong now, each cause once, the worst first. `since` is null when nobody knows since when."""
    prefix = (context.links.base_url or "").rstrip("/")
    return [_problem(group, prefix) for group in await problems_now(context, await not_ready(context))]


def _problem(group: ProblemGroup, prefix: str) -> ProblemResponse:
    oldest = group.oldest
    return ProblemResponse(
        kind=oldest.kind,
        level=oldest.level,
        subject=oldest.subject,
        since=oldest.since,
        message=group.message,
        remedy=group.remedy,
        next_try_at=group.next_try_at,
        count=group.count,
        url=f"{prefix}/{group.page}",
    )


class VersionInfo(Shape):
    version: str
    git_version: None = None


@router.get("/version")
async def get_version() -> VersionInfo:
    """Return the version of the server."""
    return VersionInfo(version=program_version())
