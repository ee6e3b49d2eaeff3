"""Runs and their task instances: made from queued events, moved from state to state.

The daemon's pure cores decide which state follows which. Here a move is a conditional write that nobody can make twice.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import one_of
from store.database.schema import (
    asset_event,
    database_now,
    job,
    queued_event,
    run,
    run_asset_event,
    task_instance,
)
from store.errors import no_run
from store.fates import Fate, Move

_e, _r = asset_event.c, run.c
DELETED: Final = "deleted"
"""The state of a run that a person deleted: its row stays, so that neither its id nor its events are given again."""
IS_THERE: Final = _r.state != DELETED
OVER: Final = ("success", "failed")
MOVES_OF_RUNS: Final[Sequence[Move]] = (
    Move(None, "queued", "planned, or started by a person"),
    Move("queued", "running", "its first try starts"),
    Move("running", "success", "a try succeeds"),
    Move("running", "failed", "its last retry fails, or it is cancelled"),
    Move("queued", "failed", "it is cancelled"),
    Move("success", "queued", "it is cleared"),
    Move("failed", "queued", "it is cleared"),
    Move("failed", "success", "a person marks it"),
    Move("success", DELETED, "a person deletes it"),
    Move("failed", DELETED, "a person deletes it"),
)
"""The life of a run, until the clean-up removes it."""


def this_run(dag_id: str | ColumnElement[str], run_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    return and_(_r.dag_id == dag_id, _r.run_id == run_id)


async def is_there(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job has a run of this id that nobody has deleted."""
    rows = await connection.execute(select(run.c.id).where(this_run(dag_id, run_id), IS_THERE))
    return rows.one_or_none() is not None


async def was_deleted(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Whether the job had a run of this id, which a person has deleted."""
    rows = await connection.execute(select(run.c.id).where(this_run(dag_id, run_id), ~IS_THERE))
    return rows.one_or_none() is not None


async def existing(connection: AsyncConnection, pairs: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return which of these (dag_id, run_id) belong to runs that are there, or that were deleted."""
    if not pairs:
        return frozenset()
    these = tuple_(_r.dag_id, _r.run_id).in_(sorted(pairs))
    return frozenset(
        (row.dag_id, row.run_id) for row in await connection.execute(select(_r.dag_id, _r.run_id).where(these))
    )


@dataclass(frozen=True, kw_only=True)
class TriggeredRun:
    """A run of exactly these events of a job's queue. With a `tick` it is a scheduled run, as in Airflow 3."""

    dag_id: str
    task_id: str
    run_id: str
    event_ids: Sequence[int] = ()
    completed_by: int | None = None
    """The event that completed the condition: the run has its trace, or else a new one."""
    tick: datetime | None = None
    """The logical date and the data interval of a scheduled run."""
    partition_key: str | None = None
    """The one that all its events have."""
    of_feature: Mapping[str, Any] = field(default_factory=dict)
    """What the planner that made it says of it: JSON values by the names that jobs read."""


async def create_triggered_runs(connection: AsyncConnection, new: Sequence[TriggeredRun]) -> Sequence[str]:
    """Make queued runs, and take their events off the queues by primary key; return the trace of each, in order.

    It is called in the transaction that read the queues. The primary key of `run_asset_event` ensures as well that no
    event is consumed twice by a job.
    """
    if not new:
        return []
    inserted = await connection.execute(_INSERT_TRIGGERED, [_columns_of(each) for each in new])
    traces = {(row.dag_id, row.run_id): str(row.trace_id) for row in inserted}
    tasks = [
        {"id": str(uuid.uuid4()), "dag_id": each.dag_id, "run_id": each.run_id, "task_id": each.task_id} for each in new
    ]
    await connection.execute(_INSERT_TASKS, tasks)
    consumed = [
        {"dag_id": of.dag_id, "event_id": event_id, "run_id": of.run_id, "completed": event_id == of.completed_by}
        for of in new
        for event_id in of.event_ids
    ]
    if consumed:
        await connection.execute(insert(run_asset_event), consumed)
    taken = defaultdict[str, list[int]](list)
    for of in new:
        taken[of.dag_id] += of.event_ids
    q = queued_event.c
    for dag_id, event_ids in taken.items():
        for some in chunks(event_ids):
            await connection.execute(delete(queued_event).where(q.dag_id == dag_id, q.event_id.in_(some)))
    return [traces[each.dag_id, each.run_id] for each in new]


def _columns_of(new: TriggeredRun) -> Mapping[str, Any]:
    return {
        "dag_id": new.dag_id,
        "run_id": new.run_id,
        "run_type": "asset_triggered" if new.tick is None else "scheduled",
        "triggered_by": "asset" if new.tick is None else "timetable",
        "b_completed_by": new.completed_by,
        "b_trace_id": uuid.uuid4().hex,
        "b_tick": new.tick,
        "partition_key": new.partition_key,
        "of_feature": json.dumps(new.of_feature) if new.of_feature else None,
        **dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end"), new.tick),
    }


_OF_EVENT: Final = select(_e.trace_id).where(_e.id == bindparam("b_completed_by", type_=_e.id.type)).scalar_subquery()
_INSERT_TRIGGERED: Final = (
    insert(run)
    .values(
        state="queued",
        queued_at=database_now(),
        run_after=func.coalesce(bindparam("b_tick", type_=_r.run_after.type), database_now()),
        trace_id=func.coalesce(_OF_EVENT, bindparam("b_trace_id", type_=_r.trace_id.type)),
    )
    .returning(_r.dag_id, _r.run_id, _r.trace_id)
)
_INSERT_TASKS: Final = insert(task_instance).values(map_index=-1, state="queued")


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
    names = {"dag_id": dag_id, "run_id": run_id, "run_type": run_type, "triggered_by": triggered_by, "state": "queued"}
    times = {"queued_at": database_now(), "run_after": database_now()}
    trace = uuid.uuid4().hex if trace_id is None else trace_id
    new = insert(run).values({**names, "trace_id": trace, **times, **values}).returning(run.c.trace_id)
    trace_of_run: str = (await connection.execute(new)).scalar_one()
    task = {"id": str(uuid.uuid4()), "dag_id": dag_id, "run_id": run_id, "task_id": task_id}
    await connection.execute(_INSERT_TASKS, [task])
    return trace_of_run


_t = task_instance.c
_NEXT_RETRY: Final = select(func.min(_t.not_before), database_now()).where(
    _t.state == "up_for_retry", _t.not_before > database_now()
)


async def next_retry_in(connection: AsyncConnection) -> timedelta | None:
    """Return how long until the next retry that is not due yet; None if there is none."""
    due, now = (await connection.execute(_NEXT_RETRY)).one()
    return None if due is None else max(due - now, timedelta(0))


async def running_runs(connection: AsyncConnection) -> dict[str, int]:
    """Return how many runs of each job are running."""
    counted = select(run.c.dag_id, func.count().label("runs")).where(run.c.state == "running").group_by(run.c.dag_id)
    return {row.dag_id: row.runs for row in await connection.execute(counted)}


QUEUED: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("reason", "warning", "start_date", "end_date")),
    "state": "queued",
    "queued_at": database_now(),
}
"""The columns of a run that was cleared: it has not started, and has no end."""


async def move_run(
    connection: AsyncConnection, dag_id: str, run_id: str, state: str, *, reason: str | None = None, **more: Any
) -> RunRow:
    """Write the state of a run that starts or ends, with the times that belong to it. Raises `NotFound`.

    `more` are further columns.
    """
    begins = {"start_date": func.coalesce(run.c.start_date, database_now()), "end_date": None}
    values = begins if state == "running" else {"end_date": database_now()}
    moved = (
        update(run).where(this_run(dag_id, run_id)).values(state=state, reason=reason, **values, **more).returning(run)
    )
    return await one_of(connection, moved, RunRow, no_run(dag_id, run_id))


WAITS_FOR_RESUMING: Final = "waits: the job is paused; resume it"
"""What a queued run, or its task instance, waits for while its job is paused."""


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
    partition_key: str | None
    """The one that all events of the run have, or as it was requested; None: they have none, or several."""
    of_feature: str | None
    """What the planner that made it says of it, as a JSON object's text; None: nothing."""
    changed_items: str | None
    """How many items were not as their events say when its last try started, by fate, as a JSON object's text; None: none.

    Of a run that was cleared after a success, and has not started: a list of the items without which it runs.
    """

    @property
    def cleaned(self) -> int:
        """How many files of its events its last try did not get, because `clean_source` has deleted them."""
        return self._items_that_are(Fate.CLEANED)

    @property
    def superseded(self) -> int:
        """How many files of its events its last try left out, because newer versions of their paths count."""
        return self._items_that_are(Fate.SUPERSEDED)

    def _items_that_are(self, fate: Fate) -> int:
        changed: Mapping[str, int] | Sequence[Mapping[str, Any]] = json.loads(self.changed_items or "{}")
        return changed.get(fate, 0) if isinstance(changed, Mapping) else sum(item["fate"] == fate for item in changed)

    @property
    def partition_complete(self) -> bool | None:
        """Whether the partition was complete; None: the job does not ask for it."""
        complete: bool | None = self._said.get("partition_complete")
        return complete

    @property
    def late(self) -> bool:
        """Whether its events came after a run of their partition."""
        return bool(self._said.get("late"))

    @property
    def redelivered(self) -> bool:
        """Whether its events are of a delivery of their partition after the first."""
        return bool(self._said.get("redelivered"))

    @property
    def _said(self) -> Mapping[str, Any]:
        statements: Mapping[str, Any] = json.loads(self.of_feature or "{}")
        return statements

    @property
    def has_unresolved_records(self) -> bool:
        """Whether it succeeded without some bad records, and nobody has resolved them."""
        return self.state == "success" and bool(self.bad_records) and self.bad_records_resolved_at is None


def shown() -> Select[Any]:
    """Select runs as people see them, as `RunRow`: one that waits for its paused job says so in place of its reason."""
    its_job = job.alias("its_job")
    is_paused = select(its_job.c.paused).where(its_job.c.dag_id == run.c.dag_id).scalar_subquery()
    reason = case((run.c.state != "queued", run.c.reason), (is_paused, WAITS_FOR_RESUMING), else_=run.c.reason)
    return select(*(reason.label("reason") if each.name == "reason" else each for each in run.c))


async def get(connection: AsyncConnection, dag_id: str, run_id: str) -> RunRow:
    """Return one run. Raises `NotFound`."""
    this = shown().where(this_run(dag_id, run_id), IS_THERE)
    return await one_of(connection, this, RunRow, no_run(dag_id, run_id))
