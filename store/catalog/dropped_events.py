"""Events that a job shall not get by itself: those taken off its queue, and those that a forgotten run consumed.

The record is kept as long as the event, so that a replay can leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, delete, func, insert, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import (
    asset_alias_asset,
    database_now,
    dropped_event,
    job,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
    replay,
    run,
    run_asset_event,
)

_q = queued_event.c
_RECORD: Final = insert(dropped_event).values(dropped_at=database_now())


async def take_off(
    connection: AsyncConnection, which: ColumnElement[bool], *, reason: str, actor: str | None = None
) -> int:
    """Take events off queues, so that no run will consume them, and record it; return how many.

    Whoever calls it has locked the jobs against the scheduler.
    """
    gone = await connection.execute(delete(queued_event).where(which).returning(_q.dag_id, _q.event_id))
    rows = [{"dag_id": row.dag_id, "event_id": row.event_id, "reason": reason, "actor": actor} for row in gone]
    if rows:
        await connection.execute(_RECORD, rows)
    return len(rows)


async def record_of_runs(connection: AsyncConnection, ids: Sequence[int]) -> None:
    """Record what runs consumed, before the clean-up removes these runs."""
    r = run_asset_event.c
    consumed = select(r.dag_id, r.event_id, literal("run past its retention"), database_now())
    consumed = consumed.join(run, (run.c.dag_id == r.dag_id) & (run.c.run_id == r.run_id)).where(run.c.id.in_(ids))
    names = ["dag_id", "event_id", "reason", "dropped_at"]
    await connection.execute(insert(dropped_event).from_select(names, consumed))


async def drop_queues_of_removed_jobs(connection: AsyncConnection) -> int:
    """Drop the queues of jobs that are not configured any more, and end their replays; return how many events were queued."""
    removed = select(job.c.dag_id).where(~job.c.active)
    over = update(replay).where(replay.c.dag_id.in_(removed), replay.c.finished_at.is_(None))
    await connection.execute(over.values(finished_at=database_now()))
    await connection.execute(update(job).where(~job.c.active, job.c.replay_id.is_not(None)).values(replay_id=None))
    return await take_off(connection, _q.dag_id.in_(removed), reason="job removed")


def is_kept() -> ColumnElement[bool]:
    """Return the condition that the schedule of a queued event's job does not wait for it; an earlier schedule did."""
    q, s, a, r = queued_event.c, job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    edge = select(s.dag_id).where(s.dag_id == q.dag_id, s.asset_id == q.asset_id)
    through_alias = select(a.dag_id).join(asset_alias_asset, r.alias_id == a.alias_id)
    through_alias = through_alias.where(a.dag_id == q.dag_id, r.asset_id == q.asset_id)
    return ~or_(*(edges.correlate(queued_event).exists() for edges in (edge, through_alias)))


_COUNT_KEPT: Final[Select[Any]] = (
    select(_q.dag_id, func.count().label("events")).where(is_kept()).group_by(_q.dag_id).order_by(_q.dag_id)
)


async def kept(connection: AsyncConnection) -> Mapping[str, int]:
    """Return how many queued events each job's schedule does not wait for, without jobs that have none."""
    return {row.dag_id: row.events for row in await connection.execute(_COUNT_KEPT)}
