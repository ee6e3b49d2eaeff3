"""People and tools pause jobs and trigger runs."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import HTTPException
from sqlalchemy.exc import IntegrityError

from store import audit, run_listings, runs
from store.errors import Conflict, NotFound
from store.values import to_json
from watcher.api.auth import Actor
from watcher.api.context import ApiContext
from watcher.api.writes import new_write_id

_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~:+-]{0,249}")
_RESERVED: Final = ("scheduled__", "asset_triggered__", "asset_materialization__", "backfill__")


@dataclass(frozen=True, kw_only=True)
class ManualRun:
    """A run as somebody asks for it; without an id it gets one."""

    run_id: str | None
    conf: dict[str, Any]
    note: str | None
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None


async def pause(context: ApiContext, actor: Actor, dag_id: str, *, paused: bool) -> None:
    """Pause a job or let it go on; what was queued meanwhile is looked at at once. Raises `NotFound`."""
    async with context.database.transaction() as session:
        await runs.set_paused(session, dag_id, paused=paused)
        action = "job.pause" if paused else "job.resume"
        await audit.record(session, actor=actor.name, action=action, target=dag_id, write_id=new_write_id())
    context.wake()


async def trigger(context: ApiContext, actor: Actor, dag_id: str, wanted: ManualRun) -> str:
    """Make a queued run; returns its id. Raises `NotFound`, `Conflict`, `InvalidValue`, or 400 for a bad id."""
    run_id = _checked(wanted.run_id) or f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
    conf = to_json(wanted.conf)
    try:
        async with context.database.transaction() as session:
            job = await run_listings.job_by(session, dag_id)
            if not job["active"]:
                raise NotFound(f"the job {dag_id!r} is not configured any more")
            await runs.create_manual_run(
                session,
                dag_id,
                run_id,
                job["task_id"],
                triggered_by="rest_api",
                conf=conf,
                note=wanted.note,
                logical_date=wanted.logical_date,
                data_interval_start=wanted.data_interval_start,
                data_interval_end=wanted.data_interval_end,
            )
            await audit.record(
                session,
                actor=actor.name,
                action="run.trigger",
                target=dag_id,
                detail={"run_id": run_id},
                write_id=new_write_id(),
            )
    except IntegrityError:
        raise Conflict(f"the job {dag_id!r} has a run {run_id!r} already; give another dag_run_id, or none") from None
    context.wake()
    return run_id


def _checked(run_id: str | None) -> str | None:
    if run_id is None:
        return None
    if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} has other characters than A-Z a-z 0-9 _ . ~ : + -, or `..`"
        )
    if run_id.startswith(_RESERVED):
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} begins like those that the scheduler gives; choose another"
        )
    return run_id
