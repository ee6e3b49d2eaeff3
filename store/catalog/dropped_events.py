"""Events that a job shall not get by itself: those taken off its queue, and those that a forgotten run consumed.

The record is kept as long as the event, so that a replay can leave them out, and every answer can say what became of them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, open_steps
from store.database.schema import (
    asset,
    database_now,
    dropped_event,
    job,
    open_step,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_try,
)
from store.fates import LEFT_OUT, RUN_STATES, Fate
from store.references import is_awaited, keys

DELETED, JOB_REMOVED = "deleted", "job removed"
"""The reasons of events that a person took off a queue, and of those whose job was removed."""
PAST_RETENTION: Final = "run past its retention"
MARKED_PAST_RETENTION: Final = "marked run past its retention"
"""The reasons of events that a run consumed which the clean-up has removed; of the second a person had decided how it ended."""
OF_RUNS: Final = frozenset({PAST_RETENTION, MARKED_PAST_RETENTION})
"""The reasons of events that a run consumed. With any other reason, a person or a removal decided, and `outcome` says what."""
MARK: Final = "marked as"
"""A run's reason begins with it if a person decided how the run ended."""
FATE_BY_RUN: Final[ColumnElement[str]] = case(
    {state: fate.value for state, fate in RUN_STATES.items()}, value=run.c.state
)
"""The fate that a run means for its events, by the run's state."""
_q = queued_event.c
_RECORD: Final = insert(dropped_event).values(dropped_at=database_now())


async def take_off(
    connection: AsyncConnection, which: ColumnElement[bool], *, reason: str, actor: str | None = None
) -> int:
    """Take events off queues, so that no run will consume them, and record it; return how many.

    Whoever calls it has locked the jobs against the scheduler.
    """
    gone = await connection.execute(delete(queued_event).where(which).returning(_q.dag_id, _q.event_id))
    values = {"reason": reason, "actor": actor, "outcome": Fate.DROPPED.value}
    rows = [{"dag_id": row.dag_id, "event_id": row.event_id, **values} for row in gone]
    if rows:
        await connection.execute(_RECORD, rows)
    return len(rows)


async def record_of_runs(connection: AsyncConnection, ids: Sequence[int]) -> None:
    """Record what runs made of what they consumed, before the clean-up removes these runs, which have ended."""
    r = run_asset_event.c
    reason = case((run.c.reason.startswith(MARK), MARKED_PAST_RETENTION), else_=PAST_RETENTION)
    consumed = select(r.dag_id, r.event_id, reason, database_now(), FATE_BY_RUN, r.run_id, run.c.end_date)
    consumed = consumed.join(run, (run.c.dag_id == r.dag_id) & (run.c.run_id == r.run_id)).where(run.c.id.in_(ids))
    names = ["dag_id", "event_id", "reason", "dropped_at", "outcome", "run_id", "ended_at"]
    await connection.execute(insert(dropped_event).from_select(names, consumed))
    if rows := [*await _left_out_by_tries(connection, ids), *await _of_skipped_runs(connection, ids)]:
        await connection.execute(_LEAVE_OUT, rows)


async def _left_out_by_tries(connection: AsyncConnection, ids: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Return the items that the last tries of runs did not get, by event."""
    rows = (await connection.execute(_CHANGED_BY_TRIES.where(run.c.id.in_(ids)))).all()
    left_out = defaultdict[tuple[str, int], dict[int, str]](dict)
    for row in rows:
        for item in json.loads(row.changed_items):
            if item["fate"] in LEFT_OUT:
                left_out[row.dag_id, item["event"]][item["number"]] = item["fate"]
    return (
        {"b_dag_id": dag_id, "b_event": event_id, "b_left_out": json.dumps(fates)}
        for (dag_id, event_id), fates in left_out.items()
    )


async def _of_skipped_runs(connection: AsyncConnection, ids: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Return the events of runs that were skipped because nothing was left of them, with the reason."""
    rows = (await connection.execute(_SKIPPED.where(run.c.id.in_(ids)))).all()
    return ({"b_dag_id": row.dag_id, "b_event": row.event_id, "b_left_out": json.dumps(row.reason)} for row in rows)


_d, _r, _t, _y = dropped_event.c, run_asset_event.c, task_instance.c, task_try.c
_LEAVE_OUT: Final = (
    update(dropped_event)
    .where(_d.dag_id == bindparam("b_dag_id"), _d.event_id == bindparam("b_event"))
    .values(left_out=bindparam("b_left_out"))
)
_CHANGED_BY_TRIES: Final = (
    select(run.c.dag_id, _y.changed_items)
    .join_from(run, task_instance, (_t.dag_id == run.c.dag_id) & (_t.run_id == run.c.run_id))
    .join(task_try, (_y.task_instance_id == _t.id) & (_y.try_number == _t.try_number))
    .where(_y.changed_items.is_not(None))
)
_SKIPPED: Final = (
    select(_r.dag_id, _r.event_id, run.c.reason)
    .join_from(run, run_asset_event, (_r.dag_id == run.c.dag_id) & (_r.run_id == run.c.run_id))
    .where(run.c.state == "success", run.c.reason.in_([fate.value for fate in LEFT_OUT]))
)


async def record_of_deleted_runs(connection: AsyncConnection, consumed: Sequence[Row[str, int, str]]) -> None:
    """Record that these events (job, event, run) were consumed by runs that people deleted: another job may still keep the events."""
    values = {"reason": DELETED, "actor": None, "outcome": Fate.DROPPED.value}
    rows = [{"dag_id": row.dag_id, "event_id": row.event_id, "run_id": row.run_id, **values} for row in consumed]
    if rows:
        await connection.execute(_RECORD, rows)


async def drop_queues_of_removed_jobs(connection: AsyncConnection) -> int:
    """Drop the queues of jobs that are not configured any more, and close their steps; return how many events were queued."""
    removed = select(job.c.dag_id).where(~job.c.active)
    await open_steps.close_all(connection, open_step.c.dag_id.in_(removed))
    return await take_off(connection, _q.dag_id.in_(removed), reason=JOB_REMOVED)


_GROUP: Final = (_q.dag_id, _q.asset_id, _q.satisfies)
_GROUPS: Final = select(*_GROUP, func.count().label("events")).group_by(*_GROUP).subquery()
_QUEUED: Final = (
    select(_GROUPS.c.dag_id, job.c.definition, asset.c.name, _GROUPS.c.satisfies, _GROUPS.c.events)
    .join_from(_GROUPS, job, job.c.dag_id == _GROUPS.c.dag_id)
    .join(asset, asset.c.id == _GROUPS.c.asset_id)
    .order_by(_GROUPS.c.dag_id)
)


async def kept(connection: AsyncConnection) -> Mapping[str, int]:
    """Return how many queued events each job's schedule does not wait for, without jobs that have none."""
    resolved = await aliases.all_resolved_names(connection)
    counted: Counter[str] = Counter()
    for row in await connection.execute(_QUEUED):
        if not is_awaited(row.definition.schedule, keys(row.name, row.satisfies), resolved):
            counted[row.dag_id] += row.events
    return counted
