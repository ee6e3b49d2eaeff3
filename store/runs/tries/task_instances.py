"""Task instances as people, tools and jobs see them. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Select, String, and_, case, false, func, literal, null, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.cursors import CursorPage, cursor_page
from store.database.paging import PageRequest, Range, all_of, among, begins, like, one_of, within
from store.database.schema import job, leader, run, seconds_between, task_instance, task_try
from store.errors import NotFound, no_task_instance
from store.keys import JobDefinition, TaskInstanceKey
from store.runs.runs import WAITS_FOR_RESUMING
from store.runs.tries.start_reasons import StartReasons
from store.runs.tries.startable import most_running, running_of

_t = task_instance.c
WaitsFor: TypeAlias = Literal["removed", "paused", "run", "turn"]
"""Why a queued task instance is not started: its job is off, has as many runs as it may, or there is no room yet."""


@dataclass(frozen=True, kw_only=True)
class TaskInstance(TaskInstanceKey):
    """A task instance with its run's times, and its current try's progress and cost (JSON texts) and exit code."""

    id: str
    try_number: int
    state: str
    noted: str | None
    """What was written about it in words."""
    waits_for: WaitsFor | None
    """What it waits for to be started; None: it does not wait."""
    start_reasons: str | None
    """What the leader saw last, as JSON."""
    start_date: datetime | None
    end_date: datetime | None
    progress: str | None
    cost: str | None
    exit_code: int | None
    run_after: datetime
    queued_at: datetime
    logical_date: datetime | None
    note: str | None
    """The note of its run: a run has one task instance."""
    definition: JobDefinition

    @property
    def detail(self) -> str | None:
        """What there is to say about its state in words, such as why it has not been started."""
        match self.waits_for:
            case "removed":
                return "waits: the job is not configured any more"
            case "paused":
                return WAITS_FOR_RESUMING
            case "run":
                return f"waits for another run of its job: max_active_runs is {self.definition.max_active_runs}"
            case "turn":
                return StartReasons.from_json(self.start_reasons).of(self.id, self.dag_id)
        return self.noted


def _waits_for() -> ColumnElement[Any]:
    """Select `WaitsFor` of a task instance, in a statement that has its run, its job and its current try."""
    is_tried = and_(task_try.c.tag.is_not(None), task_try.c.ended_at.is_(None))
    return case(
        (or_(_t.state != "queued", is_tried), null()),
        (~job.c.active, "removed"),
        (job.c.paused, "paused"),
        (and_(run.c.state == "queued", running_of(_t.dag_id) >= most_running()), "run"),
        else_="turn",
    )


@cache
def _task_instances() -> Select[Any]:
    r = run.c
    this_try = and_(task_try.c.task_instance_id == _t.id, task_try.c.try_number == _t.try_number)
    names = (_t.id, _t.dag_id, _t.run_id, _t.task_id, _t.map_index)
    of_try = (task_try.c.progress, task_try.c.cost, task_try.c.exit_code)
    how = (_t.try_number, _t.state, _t.detail.label("noted"), _t.start_date, _t.end_date, *of_try)
    reasons = select(leader.c.start_reasons).limit(1).scalar_subquery()
    waits = (_waits_for().label("waits_for"), reasons.label("start_reasons"))
    return (
        select(*names, *how, *waits, r.run_after, r.queued_at, r.logical_date, r.note, job.c.definition)
        .select_from(task_instance)
        .join(run, and_(r.dag_id == _t.dag_id, r.run_id == _t.run_id))
        .join(job, job.c.dag_id == _t.dag_id)
        .outerjoin(task_try, this_try)
    )


_r = run.c
_TIMES: Final = {name: _r[name] for name in ("logical_date", "run_after", "data_interval_start", "data_interval_end")}
TASK_RANGES: Final[Mapping[str, ColumnElement[Any]]] = {
    **{name: _TIMES[name] for name in ("logical_date", "run_after")},
    "start_date": _t.start_date,
    "end_date": _t.end_date,
    "updated_at": func.coalesce(_t.end_date, _t.start_date, _r.queued_at, type_=_r.queued_at.type),
    "duration": seconds_between(_t.start_date, _t.end_date),
}
"""What a filter may bound."""
NOT_MAPPED: Final = literal(None, String)
POOL: Final = "default_pool"
OPERATOR: Final = "spark-submit"
"""The operator that Airflow's clients see for each of our task instances."""
TASK_ORDERS: Final[Mapping[str, ColumnElement[Any]]] = {
    **{name: _t[name] for name in ("id", "state", "map_index", "try_number")},
    **_TIMES,
    **{name: TASK_RANGES[name] for name in ("start_date", "end_date", "duration")},
    "rendered_map_index": NOT_MAPPED,
    "operator": literal(OPERATOR, String),
}
_CONSTANTS: Final[Mapping[str, ColumnElement[Any]]] = {
    "pool": literal(POOL, String),
    "operator": literal(OPERATOR, String),
    "rendered_map_index": NOT_MAPPED,
    "queue": literal(None, String),
}


@dataclass(frozen=True, kw_only=True)
class TaskFilter:
    """Conditions on task instances; None and an empty collection mean all. `ranges` have the names of `TASK_RANGES`.

    `patterns` and `prefixes` are by column; `constants` are by what is the same for all: see `_CONSTANTS`.
    """

    dag_ids: Collection[str] | None = None
    run_ids: Collection[str] | None = None
    task_ids: Collection[str] | None = None
    logical_dates: Collection[datetime] | None = None
    states: Collection[str] | None = None
    try_numbers: Collection[int] | None = None
    map_indexes: Collection[int] | None = None
    constants: Mapping[str, Collection[str] | None] = field(default_factory=dict)
    patterns: Mapping[str, str | None] = field(default_factory=dict)
    prefixes: Mapping[str, str | None] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    is_impossible: bool = False
    """No task instance has what was asked for."""

    @property
    def condition(self) -> ColumnElement[bool]:
        ids = among(_t.dag_id, self.dag_ids), among(_t.run_id, self.run_ids), among(_t.task_id, self.task_ids)
        dates = among(_r.logical_date, self.logical_dates)
        states = among(_t.state, self.states), among(_t.try_number, self.try_numbers)
        constants = (among(_CONSTANTS[name], values) for name, values in self.constants.items())
        patterns = (like(_named(name), pattern) for name, pattern in self.patterns.items())
        prefixes = (begins(_named(name), prefix) for name, prefix in self.prefixes.items())
        bounds = (within(TASK_RANGES[name], bounds) for name, bounds in self.ranges.items())
        possible = false() if self.is_impossible else true()
        mapped = among(_t.map_index, self.map_indexes)
        return and_(*ids, dates, *states, mapped, *constants, *patterns, *prefixes, *bounds, possible)


def _named(name: str) -> ColumnElement[str]:
    return _CONSTANTS[name] if name in _CONSTANTS else _t[name]


async def listed(connection: AsyncConnection, which: TaskFilter, window: PageRequest) -> CursorPage[TaskInstance]:
    """Return a part of the task instances. Raises `InvalidCursor`."""
    return await cursor_page(connection, _task_instances().where(which.condition), window, TASK_ORDERS, TaskInstance)


async def states(connection: AsyncConnection, which: TaskFilter) -> Mapping[str, Mapping[str, str]]:
    """Return the states by run, then by task."""
    of_runs: dict[str, dict[str, str]] = {}
    for task in await all_of(connection, _task_instances().where(which.condition).order_by(_r.id), TaskInstance):
        of_runs.setdefault(task.run_id, {})[task.task_id] = task.state
    return of_runs


async def of_run(connection: AsyncConnection, dag_id: str, run_id: str) -> Sequence[TaskInstance]:
    """Return a run's task instances."""
    query = _task_instances().where(_t.dag_id == dag_id, _t.run_id == run_id)
    return await all_of(connection, query.order_by(_t.task_id, _t.map_index), TaskInstance)


async def of_ids(connection: AsyncConnection, ids: Collection[str]) -> Sequence[TaskInstance]:
    """Return those of the task instances that have a run of ours."""
    return await all_of(connection, _task_instances().where(_t.id.in_(ids)).order_by(_t.id), TaskInstance)


async def get(connection: AsyncConnection, key: TaskInstanceKey) -> TaskInstance:
    """Return one task instance. Raises `NotFound`."""
    return await one_of(connection, _task_instances().where(*_is(key)), TaskInstance, _no_task_instance(key))


async def check(connection: AsyncConnection, key: TaskInstanceKey, *, any_map_index: bool = False) -> None:
    """Raise `NotFound` unless there is this task instance, or any sibling of it if `any_map_index`."""
    there = select(_t.id).where(*_is(key, any_map_index=any_map_index)).limit(1)
    if (await connection.execute(there)).one_or_none() is None:
        raise _no_task_instance(key)


def _is(key: TaskInstanceKey, *, any_map_index: bool = False) -> Iterator[ColumnElement[bool]]:
    names = {name: value for name, value in key.columns.items() if name != "map_index" or not any_map_index}
    return (_t[name] == value for name, value in names.items())


def _no_task_instance(key: TaskInstanceKey) -> NotFound:
    return NotFound(
        f"no task instance {key.task_id!r} (map index {key.map_index}) in the run {key.run_id!r} of {key.dag_id!r}"
    )


async def key_of(connection: AsyncConnection, task_instance_id: str) -> TaskInstanceKey:
    """Return the task instance that a try's token speaks for. Raises `NotFound`."""
    query = select(_t.dag_id, _t.run_id, _t.task_id, _t.map_index).where(_t.id == task_instance_id)
    return await one_of(connection, query, TaskInstanceKey, no_task_instance())


@dataclass(frozen=True, kw_only=True)
class TryOfRun(TaskInstanceKey):
    """One attempt of a run's task.

    `finish_state` and `message` are what the job reported about itself; `progress` and `cost` are JSON.
    """

    try_number: int
    submitter: str
    finish_state: str | None
    message: str | None
    progress: str | None
    cost: str | None
    exit_code: int | None
    intent_at: datetime
    claimed_at: datetime | None
    cancelled_at: datetime | None
    ended_at: datetime | None


async def tries_of_run(connection: AsyncConnection, dag_id: str, run_id: str, *, limit: int) -> Sequence[TryOfRun]:
    """Return the tries of a run's tasks, newest first."""
    a = task_try.c
    own = (a.try_number, a.submitter, a.finish_state, a.message, a.progress, a.cost, a.exit_code)
    times = (a.intent_at, a.claimed_at, a.cancelled_at, a.ended_at)
    query = (
        select(_t.dag_id, _t.run_id, _t.task_id, _t.map_index, *own, *times)
        .join(task_try, a.task_instance_id == _t.id)
        .where(_t.dag_id == dag_id, _t.run_id == run_id)
        .order_by(a.intent_at.desc(), a.try_number.desc())
    )
    return await all_of(connection, query.limit(limit), TryOfRun)
