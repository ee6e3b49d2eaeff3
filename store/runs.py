"""Runs and their task instances: made from queued events, moved from state to state.

Which state follows which is decided by the daemon's pure cores; here a move is a conditional write that nobody can make
twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import chunks
from store.errors import NotFound
from store.schema import (
    asset,
    database_now,
    job,
    job_schedule_asset,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_try,
)

ACTIVE = ("queued", "running")


@dataclass(frozen=True, kw_only=True)
class QueuedEvent:
    """An event that waits for the rest of a job's schedule."""

    event_id: int
    asset: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class JobQueue:
    """A job's queue as the scheduler decides on it, read under the job's lock; `now` is the database's clock."""

    dag_id: str
    task_id: str
    definition: str
    cron: str | None
    clock: str | None
    """The cron that `next_tick` was reckoned by."""
    next_tick: datetime | None
    active_runs: int
    events: Sequence[QueuedEvent]
    now: datetime


async def jobs_to_look_at(session: AsyncSession) -> Sequence[str]:
    """Jobs that are configured, not paused, and have queued events or a tick that is due; the oldest queue first."""
    q, j = queued_event.c, job.c
    oldest = select(func.min(q.event_id)).where(q.dag_id == j.dag_id).scalar_subquery()
    ticks = and_(j.cron.is_not(None), or_(j.clock.is_distinct_from(j.cron), j.next_tick <= database_now()))
    waiting = select(j.dag_id).where(j.active, ~j.paused, or_(oldest.is_not(None), ticks))
    return (await session.execute(waiting.order_by(oldest.nulls_last(), j.dag_id))).scalars().all()


async def next_tick_in(session: AsyncSession) -> timedelta | None:
    """How long until the next tick of any job that is not paused; None when none has any."""
    ticking = select(func.min(job.c.next_tick), database_now()).where(
        job.c.active, ~job.c.paused, job.c.cron.is_not(None)
    )
    tick, now = (await session.execute(ticking)).one()
    return None if tick is None else max(tick - now, timedelta(0))


async def set_clock(session: AsyncSession, queue: JobQueue, next_tick: datetime | None) -> None:
    """Keep which tick is next. In the transaction that read the queue."""
    this = update(job).where(job.c.dag_id == queue.dag_id)
    await session.execute(this.values(clock=queue.cron, next_tick=next_tick))


async def lock_queue(session: AsyncSession, dag_id: str) -> JobQueue | None:
    """Lock a job's queue against other schedulers and read it, oldest event first; None when the job was removed or paused.

    Whoever adds events to the queue is not kept waiting: the lock leaves the job's key alone.
    """
    of_job = (job.c.task_id, job.c.definition, job.c.cron, job.c.clock, job.c.next_tick)
    locked = select(*of_job).where(job.c.dag_id == dag_id, job.c.active, ~job.c.paused)
    row = (await session.execute(locked.with_for_update(key_share=True))).mappings().one_or_none()
    if row is None:
        return None
    q = queued_event.c
    waiting = (
        select(q.event_id, asset.c.name.label("asset"), q.created_at)
        .join(asset, asset.c.id == q.asset_id)
        .where(q.dag_id == dag_id)
        .order_by(q.event_id)
    )
    events = [QueuedEvent(**event) for event in (await session.execute(waiting)).mappings()]
    # The clock last: a lock waited for may be older than the events, and an event from the future would count as due.
    active = select(func.count(run.c.id).label("runs"), database_now().label("now"))
    counted = (await session.execute(active.where(run.c.dag_id == dag_id, run.c.state.in_(ACTIVE)))).one()
    return JobQueue(
        dag_id=dag_id,
        **row,
        active_runs=counted.runs,
        events=events,
        now=counted.now,
    )


async def has_run(session: AsyncSession, dag_id: str, run_id: str) -> bool:
    """Whether the job has a run of this id."""
    found = await session.execute(select(run.c.id).where(run.c.dag_id == dag_id, run.c.run_id == run_id))
    return found.one_or_none() is not None


async def create_triggered_run(
    session: AsyncSession,
    queue: JobQueue,
    run_id: str,
    event_ids: Sequence[int],
    completed_by: int | None,
    trace_id: str,
    tick: datetime | None = None,
) -> None:
    """Make one queued run of exactly these events and take exactly these rows off the queue, by primary key.

    In the transaction that read the queue. That no event is consumed twice is also the primary key of `run_asset_event`.
    With a `tick` it is a scheduled run, whose logical date and data interval are the tick, as in Airflow 3.
    """
    timed: dict[str, Any] = dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end"), tick)
    await _insert_run(
        session,
        queue.dag_id,
        run_id,
        queue.task_id,
        run_type="asset_triggered" if tick is None else "scheduled",
        triggered_by="asset" if tick is None else "timetable",
        trace_id=trace_id,
        run_after=database_now() if tick is None else tick,
        **timed,
    )
    consumed = [
        {"dag_id": queue.dag_id, "event_id": event_id, "run_id": run_id, "completed": event_id == completed_by}
        for event_id in event_ids
    ]
    if consumed:
        await session.execute(insert(run_asset_event), consumed)
    q = queued_event.c
    for some in chunks(event_ids):
        await session.execute(delete(queued_event).where(q.dag_id == queue.dag_id, q.event_id.in_(some)))


async def create_manual_run(
    session: AsyncSession,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    triggered_by: str,
    conf: str,
    note: str | None,
    run_type: str = "manual",
    logical_date: datetime | None = None,
    data_interval_start: datetime | None = None,
    data_interval_end: datetime | None = None,
) -> None:
    """Make one queued run without events. An existing run_id raises SQLAlchemy's `IntegrityError`."""
    await _insert_run(
        session,
        dag_id,
        run_id,
        task_id,
        run_type=run_type,
        triggered_by=triggered_by,
        trace_id=uuid.uuid4().hex,
        conf=conf,
        note=note,
        logical_date=logical_date,
        data_interval_start=data_interval_start,
        data_interval_end=data_interval_end,
    )


async def _insert_run(
    session: AsyncSession,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    run_type: str,
    triggered_by: str,
    **values: Any,
) -> None:
    always = {"run_type": run_type, "triggered_by": triggered_by, "state": "queued", "queued_at": database_now()}
    await session.execute(
        insert(run).values(**{"dag_id": dag_id, "run_id": run_id, **always, "run_after": database_now(), **values})
    )
    await session.execute(
        insert(task_instance).values(
            id=str(uuid.uuid4()), dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=-1, state="queued"
        )
    )


@dataclass(frozen=True, kw_only=True)
class Startable:
    """A task instance that waits to be started as try `try_number` + 1."""

    task_instance_id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    run_state: str
    definition: str


async def startable(session: AsyncSession) -> Sequence[Startable]:
    """Task instances that may start now, of configured and unpaused jobs, oldest run first.

    `max_active_runs` is the caller's to judge.
    """
    t = task_instance.c
    names = (t.id.label("task_instance_id"), t.dag_id, t.run_id, t.task_id, t.map_index, t.try_number)
    wanted = (
        select(*names, run.c.state.label("run_state"), job.c.definition)
        .join(run, and_(run.c.dag_id == t.dag_id, run.c.run_id == t.run_id))
        .join(job, job.c.dag_id == t.dag_id)
        .where(t.origin == "own", run.c.state.in_(ACTIVE), job.c.active, ~job.c.paused, may_start())
        .order_by(run.c.id)
    )
    return [Startable(**row) for row in (await session.execute(wanted)).mappings()]


async def next_retry_in(session: AsyncSession) -> timedelta | None:
    """How long until the next retry that is not due yet; None when there is none."""
    t = task_instance.c
    later = and_(t.state == "up_for_retry", t.not_before > database_now())
    due, now = (await session.execute(select(func.min(t.not_before), database_now()).where(later))).one()
    return None if due is None else max(due - now, timedelta(0))


async def say_why_waiting(session: AsyncSession, task_instance_ids: Sequence[str], reason: str) -> None:
    """Show people why queued task instances have not started; the start takes it away again."""
    t = task_instance.c
    for some in chunks(task_instance_ids):
        waiting = update(task_instance).where(t.id.in_(some), t.state == "queued", may_start())
        await session.execute(waiting.values(detail=reason))


def may_start() -> ColumnElement[bool]:
    """Of a task instance: it is queued or its retry is due, and nothing of its current try is alive."""
    t, a = task_instance.c, task_try.c
    due = or_(t.state == "queued", and_(t.state == "up_for_retry", t.not_before <= database_now()))
    being_tried = exists().where(a.task_instance_id == t.id, a.try_number == t.try_number, a.ended_at.is_(None))
    return and_(due, ~being_tried)


async def set_paused(session: AsyncSession, dag_id: str, *, paused: bool) -> None:
    """Pause a configured job or let it go on; survives restarts. Raises `NotFound`."""
    row = update(job).where(job.c.dag_id == dag_id, job.c.active).values(paused=paused).returning(job.c.dag_id)
    if (await session.execute(row)).one_or_none() is None:
        raise NotFound(f"no job {dag_id!r}; GET /api/v2/dags lists the ones there are")


async def running_runs(session: AsyncSession) -> dict[str, int]:
    """How many runs of each job are running."""
    counted = select(run.c.dag_id, func.count().label("runs")).where(run.c.state == "running").group_by(run.c.dag_id)
    return {row.dag_id: row.runs for row in await session.execute(counted)}


async def move_run(session: AsyncSession, dag_id: str, run_id: str, state: str, *, reason: str | None = None) -> None:
    """Write a run's state with the times that belong to it: a run that goes on again has not ended."""
    times: dict[str, dict[str, Any]] = {
        "queued": {"queued_at": database_now(), "start_date": None, "end_date": None},
        "running": {"start_date": func.coalesce(run.c.start_date, database_now()), "end_date": None},
    }
    values = times.get(state, {"end_date": database_now()})
    here = and_(run.c.dag_id == dag_id, run.c.run_id == run_id)
    await session.execute(update(run).where(here).values(state=state, reason=reason, **values))


async def scheduled_on(session: AsyncSession, asset_id: int) -> Sequence[tuple[str, str]]:
    """Configured jobs whose schedule names the asset, with their definitions."""
    s = job_schedule_asset.c
    wanted = select(job.c.dag_id, job.c.definition).join(job_schedule_asset, s.dag_id == job.c.dag_id)
    found = await session.execute(wanted.where(s.asset_id == asset_id, job.c.active).order_by(job.c.dag_id))
    return [(row.dag_id, row.definition) for row in found]
