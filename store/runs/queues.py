"""Queued events: what the scheduler decides on under a job's lock, and what people see and delete, as in Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, and_, bindparam, delete, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of, equal
from store.database.schema import asset, database_now, job, queued_event, run
from store.keys import JobDefinition, QueuedEvent

ACTIVE = ("queued", "running")


@dataclass(frozen=True, kw_only=True)
class JobQueue:
    """A job's queue as the scheduler decides on it, read under the job's lock; `now` is the database's clock."""

    dag_id: str
    task_id: str
    definition: JobDefinition
    cron: str | None
    clock: str | None
    """The cron that `next_tick` was reckoned by."""
    next_tick: datetime | None
    active_runs: int
    events: Sequence[QueuedEvent]
    now: datetime


async def jobs_to_look_at(connection: AsyncConnection) -> Sequence[str]:
    """Jobs that are configured, not paused, and have queued events or a tick that is due; the oldest queue first."""
    q, j = queued_event.c, job.c
    oldest = select(func.min(q.event_id)).where(q.dag_id == j.dag_id).scalar_subquery()
    ticks = and_(j.cron.is_not(None), or_(j.clock.is_distinct_from(j.cron), j.next_tick <= database_now()))
    waiting = select(j.dag_id).where(j.active, ~j.paused, or_(oldest.is_not(None), ticks))
    return (await connection.execute(waiting.order_by(oldest.nulls_last(), j.dag_id))).scalars().all()


async def next_tick_in(connection: AsyncConnection) -> timedelta | None:
    """How long until the next tick of any job that is not paused; None when none has any."""
    ticking = select(func.min(job.c.next_tick), database_now())
    ticking = ticking.where(job.c.active, ~job.c.paused, job.c.cron.is_not(None))
    tick, now = (await connection.execute(ticking)).one()
    return None if tick is None else max(tick - now, timedelta(0))


async def set_clock(connection: AsyncConnection, queue: JobQueue, next_tick: datetime | None) -> None:
    """Keep which tick is next. In the transaction that read the queue."""
    this = update(job).where(job.c.dag_id == queue.dag_id)
    await connection.execute(this.values(clock=queue.cron, next_tick=next_tick))


async def lock_queue(connection: AsyncConnection, dag_id: str) -> JobQueue | None:
    """Lock a job's queue against other schedulers and read it, oldest event first; None when the job was removed or paused.

    Whoever adds events to the queue is not kept waiting: the lock leaves the job's key alone.
    """
    row = (await connection.execute(_LOCK_JOB, {"b_dag_id": dag_id})).mappings().one_or_none()
    if row is None:
        return None
    rows = (await connection.execute(_QUEUE, {"b_dag_id": dag_id})).all()
    events = [QueuedEvent(event_id=r.event_id, asset=r.asset, created_at=r.created_at) for r in rows if r.event_id]
    return JobQueue(dag_id=dag_id, **row, active_runs=rows[0].runs, events=events, now=rows[0].now)


_q = queued_event.c
_DAG_ID: Final = bindparam("b_dag_id", type_=job.c.dag_id.type)
_LOCK_JOB: Final = (
    select(job.c.task_id, job.c.definition, job.c.cron, job.c.clock, job.c.next_tick)
    .where(job.c.dag_id == _DAG_ID, job.c.active, ~job.c.paused)
    .with_for_update(key_share=True)
)


_RUNS: Final = select(func.count(run.c.id)).where(run.c.dag_id == _DAG_ID, run.c.state.in_(ACTIVE)).scalar_subquery()
_QUEUE: Final = (
    select(_q.event_id, asset.c.name.label("asset"), _q.created_at, _RUNS.label("runs"), database_now().label("now"))
    .select_from(job)
    .outerjoin(queued_event, _q.dag_id == job.c.dag_id)
    .outerjoin(asset, asset.c.id == _q.asset_id)
    .where(job.c.dag_id == _DAG_ID)
    .order_by(_q.event_id)
)
"""A row for each event, or one without; the clock is read after the events are known, so none is from the future."""


@dataclass(frozen=True, kw_only=True)
class QueueFilter:
    """Which queued events; None means all. `before` is exclusive."""

    dag_id: str | None = None
    asset_id: int | None = None
    before: datetime | None = None

    @property
    def condition(self) -> ColumnElement[bool]:
        earlier = true() if self.before is None else _q.created_at < self.before
        return and_(equal(_q.dag_id, self.dag_id), equal(_q.asset_id, self.asset_id), earlier)


@dataclass(frozen=True, kw_only=True)
class QueuedAsset:
    """A job and an asset with events in the job's queue; `created_at` is the oldest one's."""

    dag_id: str
    asset_id: int
    created_at: datetime


async def listed(connection: AsyncConnection, which: QueueFilter) -> Sequence[QueuedAsset]:
    """What waits, by job and asset."""
    oldest = func.min(_q.created_at, type_=_q.created_at.type).label("created_at")
    query = select(_q.dag_id, _q.asset_id, oldest).where(which.condition).group_by(_q.dag_id, _q.asset_id)
    return await all_of(connection, query.order_by(_q.dag_id, _q.asset_id), QueuedAsset)


async def remove(connection: AsyncConnection, which: QueueFilter) -> int:
    """Take events off the queue, so that no run will consume them; returns how many.

    The jobs are locked like a scheduler locks them: what it is deciding on now is not taken from under it.
    """
    waiting = select(_q.dag_id).where(which.condition)
    jobs = select(job.c.dag_id).where(job.c.dag_id.in_(waiting)).order_by(job.c.dag_id)
    await connection.execute(jobs.with_for_update(key_share=True))
    gone = await connection.execute(delete(queued_event).where(which.condition).returning(_q.event_id))
    return len(gone.all())
