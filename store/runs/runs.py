"""Runs and their task instances: made from queued events, moved from state to state.

The daemon's pure cores decide which state follows which. Here a move is a conditional write that nobody can make twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, ScalarSelect, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import among, equal, newest, one_of
from store.database.schema import (
    asset_event,
    database_now,
    queued_event,
    run,
    run_asset_event,
    task_instance,
)
from store.errors import no_run
from store.runs.queues import JobQueue

_e, _r = asset_event.c, run.c
DELETED: Final = "deleted"
"""The state of a run that a person deleted: its row stays, so that neither its id nor its events are given again."""
IS_THERE: Final = _r.state != DELETED


def this_run(dag_id: str | ColumnElement[str], run_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    return and_(_r.dag_id == dag_id, _r.run_id == run_id)


async def has_run(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job has a run of this id, or had one that was deleted."""
    rows = await connection.execute(select(run.c.id).where(this_run(dag_id, run_id)))
    return rows.one_or_none() is not None


async def is_there(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job has a run of this id that nobody has deleted."""
    rows = await connection.execute(select(run.c.id).where(this_run(dag_id, run_id), IS_THERE))
    return rows.one_or_none() is not None


async def was_deleted(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job had a run of this id, which a person has deleted."""
    rows = await connection.execute(select(run.c.id).where(this_run(dag_id, run_id), ~IS_THERE))
    return rows.one_or_none() is not None


async def create_triggered_run(
    connection: AsyncConnection,
    queue: JobQueue,
    run_id: str,
    event_ids: Sequence[int],
    completed_by: int | None,
    tick: datetime | None = None,
) -> str:
    """Make one queued run of exactly these events, and take these rows off the queue by primary key.

    It is called in the transaction that read the queue. The primary key of `run_asset_event` ensures as well that no
    event is consumed twice. With a `tick` it is a scheduled run, whose logical date and data interval are the tick, as
    in Airflow 3. Return its trace: that of the event which completed the condition, or a new one.
    """
    of_event = None if completed_by is None else select(_e.trace_id).where(_e.id == completed_by).scalar_subquery()
    triggered_by, run_type = ("asset", "asset_triggered") if tick is None else ("timetable", "scheduled")
    times = ("logical_date", "data_interval_start", "data_interval_end", "run_after")
    columns = {} if tick is None else dict.fromkeys(times, tick)
    trace_id = await _insert_run(
        connection,
        queue.dag_id,
        run_id,
        queue.task_id,
        of_event,
        triggered_by=triggered_by,
        run_type=run_type,
        columns=columns,
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
    return trace_id


async def create_run(
    connection: AsyncConnection,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    triggered_by: str,
    run_type: str = "manual",
    trace_id: str | ScalarSelect[str] | None = None,
    **values: Any,
) -> str:
    """Make one queued run without events; `values` are further columns. An existing run_id raises `IntegrityError`.

    Return its trace: a new one, unless `trace_id` is given, or selects it.
    """
    return await _insert_run(
        connection, dag_id, run_id, task_id, trace_id, triggered_by=triggered_by, run_type=run_type, columns=values
    )


async def _insert_run(
    connection: AsyncConnection,
    dag_id: str,
    run_id: str,
    task_id: str,
    trace_id: str | ScalarSelect[str] | None,
    *,
    triggered_by: str,
    run_type: str,
    columns: Mapping[str, Any],
) -> str:
    names = {"dag_id": dag_id, "run_id": run_id, "run_type": run_type, "triggered_by": triggered_by}
    times = {"queued_at": database_now(), "run_after": database_now()}
    trace = uuid.uuid4().hex if trace_id is None else trace_id
    new = (
        insert(run)
        .values({**names, "state": "queued", "trace_id": trace, **times, **columns})
        .returning(run.c.trace_id)
    )
    trace_of_run: str = (await connection.execute(new)).scalar_one()
    task = {"id": str(uuid.uuid4()), "dag_id": dag_id, "run_id": run_id, "task_id": task_id}
    await connection.execute(insert(task_instance).values(**task, map_index=-1, state="queued"))
    return trace_of_run


async def next_retry_in(connection: AsyncConnection) -> timedelta | None:
    """Return how long until the next retry that is not due yet; None if there is none."""
    t = task_instance.c
    later = and_(t.state == "up_for_retry", t.not_before > database_now())
    due, now = (await connection.execute(select(func.min(t.not_before), database_now()).where(later))).one()
    return None if due is None else max(due - now, timedelta(0))


async def running_runs(connection: AsyncConnection) -> dict[str, int]:
    """Return how many runs of each job are running."""
    counted = select(run.c.dag_id, func.count().label("runs")).where(run.c.state == "running").group_by(run.c.dag_id)
    return {row.dag_id: row.runs for row in await connection.execute(counted)}


async def move_run(
    connection: AsyncConnection, dag_id: str, run_id: str, state: str, *, reason: str | None = None
) -> RunRow:
    """Write a run's state with the times that belong to it. Raises `NotFound`.

    A run that starts again has no end.
    """
    times: dict[str, dict[str, Any]] = {
        "queued": {"queued_at": database_now(), "start_date": None, "end_date": None},
        "running": {"start_date": func.coalesce(run.c.start_date, database_now()), "end_date": None},
    }
    values = times.get(state, {"end_date": database_now()})
    moved = update(run).where(this_run(dag_id, run_id)).values(state=state, reason=reason, **values).returning(run)
    return await one_of(connection, moved, RunRow, no_run(dag_id, run_id))


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run; `conf` is a JSON object's text, `id` counts the runs of all jobs."""

    id: int
    dag_id: str
    run_id: str
    run_type: str
    triggered_by: str
    state: str
    reason: str | None
    warning: str | None
    conf: str
    note: str | None
    trace_id: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    queued_at: datetime
    start_date: datetime | None
    end_date: datetime | None
    bad_records: int | None
    """The bad records of the last success; None: no success of this run has reported any."""
    bad_records_resolved_at: datetime | None

    @property
    def has_unresolved_records(self) -> bool:
        """Whether it succeeded without some bad records, and nobody has resolved them."""
        return self.state == "success" and bool(self.bad_records) and self.bad_records_resolved_at is None


async def latest(
    connection: AsyncConnection,
    *,
    limit: int,
    before: int | None = None,
    dag_id: str | None = None,
    states: Collection[str] | None = None,
) -> Sequence[RunRow]:
    """Return the newest runs with ids below `before`; None and an empty collection mean all."""
    query = select(run).where(IS_THERE, equal(_r.dag_id, dag_id), among(_r.state, states))
    return await newest(connection, query, _r.id, RunRow, limit=limit, before=before)


async def get(connection: AsyncConnection, dag_id: str, run_id: str) -> RunRow:
    """Return one run. Raises `NotFound`."""
    this = select(run).where(this_run(dag_id, run_id), IS_THERE)
    return await one_of(connection, this, RunRow, no_run(dag_id, run_id))
