"""Task instances as people, tools and jobs look at them. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of, one_of
from store.database.schema import job, run, task_instance, task_try
from store.errors import NotFound, no_task_instance
from store.keys import JobDefinition, TaskInstanceKey

_t = task_instance.c


@dataclass(frozen=True, kw_only=True)
class TaskInstance(TaskInstanceKey):
    """A task instance with its run's times, and its current try's progress (JSON text), message and exit code."""

    id: str
    try_number: int
    state: str
    detail: str | None
    start_date: datetime | None
    end_date: datetime | None
    progress: str | None
    exit_code: int | None
    run_after: datetime
    queued_at: datetime
    logical_date: datetime | None
    definition: JobDefinition


def _task_instances() -> Select[Any]:
    r = run.c
    this_try = and_(task_try.c.task_instance_id == _t.id, task_try.c.try_number == _t.try_number)
    names = (_t.id, _t.dag_id, _t.run_id, _t.task_id, _t.map_index)
    how = (_t.try_number, _t.state, _t.detail, _t.start_date, _t.end_date, task_try.c.progress, task_try.c.exit_code)
    return (
        select(*names, *how, r.run_after, r.queued_at, r.logical_date, job.c.definition)
        .select_from(task_instance)
        .join(run, and_(r.dag_id == _t.dag_id, r.run_id == _t.run_id))
        .join(job, job.c.dag_id == _t.dag_id)
        .outerjoin(task_try, this_try)
    )


async def of_run(connection: AsyncConnection, dag_id: str, run_id: str) -> Sequence[TaskInstance]:
    """A run's task instances."""
    query = _task_instances().where(_t.dag_id == dag_id, _t.run_id == run_id)
    return await all_of(connection, query.order_by(_t.task_id, _t.map_index), TaskInstance)


async def get(connection: AsyncConnection, key: TaskInstanceKey) -> TaskInstance:
    """One of them. Raises `NotFound`."""
    return await one_of(connection, _task_instances().where(*_is(key)), TaskInstance, _no_task_instance(key))


async def check(connection: AsyncConnection, key: TaskInstanceKey, *, any_map_index: bool = False) -> None:
    """Raise `NotFound` unless there is this task instance, or any sibling of it."""
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
    """The task instance a try's token speaks for. Raises `NotFound`."""
    query = select(_t.dag_id, _t.run_id, _t.task_id, _t.map_index).where(_t.id == task_instance_id)
    return await one_of(connection, query, TaskInstanceKey, no_task_instance())


@dataclass(frozen=True, kw_only=True)
class TryOfRun(TaskInstanceKey):
    """One attempt of a run's task; `finish_state` and `message` are what the job said of itself, `progress` is JSON text."""

    try_number: int
    submitter: str
    finish_state: str | None
    message: str | None
    progress: str | None
    exit_code: int | None
    intent_at: datetime
    claimed_at: datetime | None
    cancelled_at: datetime | None
    ended_at: datetime | None


async def tries_of_run(connection: AsyncConnection, dag_id: str, run_id: str, *, limit: int) -> Sequence[TryOfRun]:
    """The tries of a run's tasks, newest first."""
    a = task_try.c
    own = (a.try_number, a.submitter, a.finish_state, a.message, a.progress, a.exit_code)
    times = (a.intent_at, a.claimed_at, a.cancelled_at, a.ended_at)
    query = (
        select(_t.dag_id, _t.run_id, _t.task_id, _t.map_index, *own, *times)
        .join(task_try, a.task_instance_id == _t.id)
        .where(_t.dag_id == dag_id, _t.run_id == run_id)
        .order_by(a.intent_at.desc(), a.try_number.desc())
    )
    return await all_of(connection, query.limit(limit), TryOfRun)
