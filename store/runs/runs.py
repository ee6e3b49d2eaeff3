"""Runs and their task instances: made from queued events, moved from state to state.

Which state follows which is decided by the daemon's pure cores; here a move is a conditional write that nobody can make
twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import TaskScope
from store.database.dialects import chunks
from store.database.paging import Page, Rows, Window, begins, like, page, row_of, rows_of
from store.database.schema import (
    asset_event,
    database_now,
    job,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_try,
)
from store.detection.events import with_assets
from store.errors import NotFound
from store.keys import JobDefinition, TaskInstanceKey, TryKey
from store.runs.queues import ACTIVE, JobQueue

_e, _j, _r, _t = asset_event.c, job.c, run.c, task_instance.c


async def has_run(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job has a run of this id."""
    found = await connection.execute(select(run.c.id).where(run.c.dag_id == dag_id, run.c.run_id == run_id))
    return found.one_or_none() is not None


async def create_triggered_run(
    connection: AsyncConnection,
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
        connection,
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
        await connection.execute(insert(run_asset_event), consumed)
    q = queued_event.c
    for some in chunks(event_ids):
        await connection.execute(delete(queued_event).where(q.dag_id == queue.dag_id, q.event_id.in_(some)))


async def create_manual_run(
    connection: AsyncConnection,
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
        connection,
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
    connection: AsyncConnection,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    run_type: str,
    triggered_by: str,
    **values: Any,
) -> None:
    always = {"run_type": run_type, "triggered_by": triggered_by, "state": "queued", "queued_at": database_now()}
    await connection.execute(
        insert(run).values(**{"dag_id": dag_id, "run_id": run_id, **always, "run_after": database_now(), **values})
    )
    await connection.execute(
        insert(task_instance).values(
            id=str(uuid.uuid4()), dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=-1, state="queued"
        )
    )


@dataclass(frozen=True, kw_only=True)
class Startable:
    """A task instance that waits to be started, as the try of this `key`."""

    key: TryKey
    run_state: str
    definition: JobDefinition


async def startable(connection: AsyncConnection) -> Sequence[Startable]:
    """Task instances that may start now, of configured and unpaused jobs, oldest run first.

    `max_active_runs` is the caller's to judge.
    """
    t = task_instance.c
    statement = (
        select(t.id, t.dag_id, t.run_id, t.task_id, t.map_index, t.try_number)
        .add_columns(run.c.state.label("run_state"), job.c.definition)
        .join(run, and_(run.c.dag_id == t.dag_id, run.c.run_id == t.run_id))
        .join(job, job.c.dag_id == t.dag_id)
        .where(t.origin == "own", run.c.state.in_(ACTIVE), job.c.active, ~job.c.paused, may_start())
        .order_by(run.c.id)
    )
    return [
        Startable(
            key=TryKey(instance=TaskInstanceKey.of(row), task_instance_id=row.id, try_number=row.try_number + 1),
            run_state=row.run_state,
            definition=JobDefinition.from_json(row.definition),
        )
        for row in await connection.execute(statement)
    ]


async def next_retry_in(connection: AsyncConnection) -> timedelta | None:
    """How long until the next retry that is not due yet; None when there is none."""
    t = task_instance.c
    later = and_(t.state == "up_for_retry", t.not_before > database_now())
    due, now = (await connection.execute(select(func.min(t.not_before), database_now()).where(later))).one()
    return None if due is None else max(due - now, timedelta(0))


async def note_waiting(connection: AsyncConnection, task_instance_ids: Sequence[str], reason: str) -> None:
    """Show people why queued task instances have not started; the start takes it away again."""
    t = task_instance.c
    for some in chunks(task_instance_ids):
        waiting = update(task_instance).where(t.id.in_(some), t.state == "queued", may_start())
        await connection.execute(waiting.values(detail=reason))


def may_start() -> ColumnElement[bool]:
    """Of a task instance: it is queued or its retry is due, and nothing of its current try is alive."""
    t, a = task_instance.c, task_try.c
    due = or_(t.state == "queued", and_(t.state == "up_for_retry", t.not_before <= database_now()))
    being_tried = exists().where(a.task_instance_id == t.id, a.try_number == t.try_number, a.ended_at.is_(None))
    return and_(due, ~being_tried)


async def running_runs(connection: AsyncConnection) -> dict[str, int]:
    """How many runs of each job are running."""
    counted = select(run.c.dag_id, func.count().label("runs")).where(run.c.state == "running").group_by(run.c.dag_id)
    return {row.dag_id: row.runs for row in await connection.execute(counted)}


async def move_run(
    connection: AsyncConnection, dag_id: str, run_id: str, state: str, *, reason: str | None = None
) -> None:
    """Write a run's state with the times that belong to it: a run that goes on again has not ended."""
    times: dict[str, dict[str, Any]] = {
        "queued": {"queued_at": database_now(), "start_date": None, "end_date": None},
        "running": {"start_date": func.coalesce(run.c.start_date, database_now()), "end_date": None},
    }
    values = times.get(state, {"end_date": database_now()})
    here = and_(run.c.dag_id == dag_id, run.c.run_id == run_id)
    await connection.execute(update(run).where(here).values(state=state, reason=reason, **values))


RUN_ORDERS: Final = {
    "id": _r.id,
    "dag_id": _r.dag_id,
    "run_id": _r.run_id,
    "dag_run_id": _r.run_id,
    "state": _r.state,
    "run_type": _r.run_type,
    "logical_date": _r.logical_date,
    "run_after": _r.run_after,
    "queued_at": _r.queued_at,
    "start_date": _r.start_date,
    "end_date": _r.end_date,
}


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs; None and nothing mean all."""

    dag_id: str | None = None
    states: Sequence[str] = ()
    types: Sequence[str] = ()
    id_pattern: str | None = None
    id_prefix: str | None = None


async def runs(connection: AsyncConnection, which: RunFilter, window: Window) -> Page:
    """Runs."""
    wanted = select(run).where(like(_r.run_id, which.id_pattern), begins(_r.run_id, which.id_prefix))
    if which.dag_id is not None:
        wanted = wanted.where(_r.dag_id == which.dag_id)
    if which.states:
        wanted = wanted.where(_r.state.in_(which.states))
    if which.types:
        wanted = wanted.where(_r.run_type.in_(which.types))
    return await page(connection, wanted, window, RUN_ORDERS)


async def run_by(connection: AsyncConnection, dag_id: str, run_id: str) -> RowMapping:
    """One run. Raises `NotFound`."""
    wanted = select(run).where(_r.dag_id == dag_id, _r.run_id == run_id)
    row = await row_of(connection, wanted)
    if row is None:
        raise NotFound(f"the job {dag_id!r} has no run {run_id!r}; `watcher runs list` shows the newest")
    return row


def _task_instances() -> Select[Any]:
    this_try = and_(task_try.c.task_instance_id == _t.id, task_try.c.try_number == _t.try_number)
    of_try = (task_try.c.progress, task_try.c.message, task_try.c.exit_code)
    return (
        select(task_instance, *of_try, _r.run_after, _r.queued_at, _r.logical_date, job.c.definition)
        .select_from(task_instance)
        .join(run, and_(_r.dag_id == _t.dag_id, _r.run_id == _t.run_id))
        .join(job, _j.dag_id == _t.dag_id)
        .outerjoin(task_try, this_try)
    )


async def task_instances(connection: AsyncConnection, dag_id: str, run_id: str) -> Rows:
    """A run's task instances, each with its current try's progress, message and exit code."""
    wanted = _task_instances().where(_t.dag_id == dag_id, _t.run_id == run_id)
    return await rows_of(connection, wanted.order_by(_t.task_id, _t.map_index))


async def task_instance_by(
    connection: AsyncConnection, dag_id: str, run_id: str, task_id: str, map_index: int = -1
) -> RowMapping:
    """One task instance, like in `task_instances`. Raises `NotFound`."""
    this = (_t.dag_id == dag_id, _t.run_id == run_id, _t.task_id == task_id, _t.map_index == map_index)
    row = await row_of(connection, _task_instances().where(*this))
    if row is None:
        raise _no_task_instance(dag_id, run_id, task_id, map_index)
    return row


async def check_task_instance(connection: AsyncConnection, scope: TaskScope, *, any_map_index: bool = False) -> None:
    """Raise `NotFound` unless there is this task instance, or any sibling of it."""
    mapped = true() if any_map_index else _t.map_index == scope.map_index
    this = (_t.dag_id == scope.dag_id, _t.run_id == scope.run_id, _t.task_id == scope.task_id, mapped)
    if await row_of(connection, select(_t.id).where(*this).limit(1)) is None:
        raise _no_task_instance(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)


def _no_task_instance(dag_id: str, run_id: str, task_id: str, map_index: int) -> NotFound:
    return NotFound(f"no task instance {task_id!r} (map index {map_index}) in the run {run_id!r} of {dag_id!r}")


async def own_task_instance(connection: AsyncConnection, task_instance_id: str) -> RowMapping:
    """The task instance a try's token speaks for. Raises `NotFound`."""
    row = await row_of(connection, select(task_instance).where(_t.id == task_instance_id))
    if row is None:
        raise NotFound("this task instance does not exist any more; end this process")
    return row


async def events_of_run(connection: AsyncConnection, dag_id: str, run_id: str) -> Rows:
    """The events that a run consumes, oldest first."""
    r = run_asset_event.c
    consumed = with_assets().join(run_asset_event, r.event_id == _e.id).where(r.dag_id == dag_id, r.run_id == run_id)
    return await rows_of(connection, consumed.order_by(_e.id))


async def source_runs(connection: AsyncConnection, event_ids: Sequence[int]) -> Mapping[int, RowMapping]:
    """By event id, the runs of ours whose tasks made the events."""
    source = and_(run.c.dag_id == _e.source_dag_id, run.c.run_id == _e.source_run_id)
    found: dict[int, RowMapping] = {}
    for some in chunks(event_ids):
        wanted = select(_e.id.label("event_id"), run).select_from(asset_event).join(run, source).where(_e.id.in_(some))
        found |= {row["event_id"]: row for row in await rows_of(connection, wanted)}
    return found


async def runs_of_events(connection: AsyncConnection, event_ids: Collection[int]) -> Rows:
    """The runs that consumed events: `event_id`, `triggering` (this event completed the condition), and the run."""
    r = run_asset_event.c
    wanted = (
        select(r.event_id, r.completed.label("triggering"), run)
        .select_from(run_asset_event)
        .join(run, and_(run.c.dag_id == r.dag_id, run.c.run_id == r.run_id))
        .where(r.event_id.in_(event_ids))
    )
    return await rows_of(connection, wanted.order_by(run.c.id))
