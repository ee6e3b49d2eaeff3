"""What people and tools look at: jobs, runs and task instances. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, Table, and_, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from store.base import TaskScope
from store.errors import NotFound
from store.filters import Page, Rows, Window, begins, like, page, row_of, rows_of
from store.schema import database_now, job, run, task_instance, task_try

_j, _r, _t = job.c, run.c, task_instance.c

JOB_ORDERS: Final = {"dag_id": _j.dag_id, "dag_display_name": _j.dag_id}
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
class JobFilter:
    """Which jobs; None means all."""

    id_pattern: str | None = None
    id_prefix: str | None = None
    paused: bool | None = None
    only_active: bool = True


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs; None and nothing mean all."""

    dag_id: str | None = None
    states: Sequence[str] = ()
    types: Sequence[str] = ()
    id_pattern: str | None = None
    id_prefix: str | None = None


async def jobs(session: AsyncSession, which: JobFilter, window: Window) -> Page:
    """Jobs."""
    wanted = select(job).where(like(_j.dag_id, which.id_pattern), begins(_j.dag_id, which.id_prefix))
    if which.paused is not None:
        wanted = wanted.where(_j.paused == which.paused)
    if which.only_active:
        wanted = wanted.where(_j.active)
    return await page(session, wanted, window, JOB_ORDERS)


async def job_by(session: AsyncSession, dag_id: str) -> RowMapping:
    """One job, also one that is configured no more. Raises `NotFound`."""
    row = await row_of(session, select(job).where(_j.dag_id == dag_id))
    if row is None:
        raise NotFound(f"no job {dag_id!r}; GET /api/v2/dags lists the ones there are")
    return row


async def runs(session: AsyncSession, which: RunFilter, window: Window) -> Page:
    """Runs."""
    wanted = select(run).where(like(_r.run_id, which.id_pattern), begins(_r.run_id, which.id_prefix))
    if which.dag_id is not None:
        wanted = wanted.where(_r.dag_id == which.dag_id)
    if which.states:
        wanted = wanted.where(_r.state.in_(which.states))
    if which.types:
        wanted = wanted.where(_r.run_type.in_(which.types))
    return await page(session, wanted, window, RUN_ORDERS)


async def run_by(session: AsyncSession, dag_id: str, run_id: str) -> RowMapping:
    """One run. Raises `NotFound`."""
    wanted = select(run).where(_r.dag_id == dag_id, _r.run_id == run_id)
    row = await row_of(session, wanted)
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


async def task_instances(session: AsyncSession, dag_id: str, run_id: str) -> Rows:
    """A run's task instances, each with its current try's progress, message and exit code."""
    wanted = _task_instances().where(_t.dag_id == dag_id, _t.run_id == run_id)
    return await rows_of(session, wanted.order_by(_t.task_id, _t.map_index))


async def task_instance_by(
    session: AsyncSession, dag_id: str, run_id: str, task_id: str, map_index: int = -1
) -> RowMapping:
    """One task instance, like in `task_instances`. Raises `NotFound`."""
    this = (_t.dag_id == dag_id, _t.run_id == run_id, _t.task_id == task_id, _t.map_index == map_index)
    row = await row_of(session, _task_instances().where(*this))
    if row is None:
        raise _no_task_instance(dag_id, run_id, task_id, map_index)
    return row


async def check_task_instance(session: AsyncSession, scope: TaskScope, *, any_map_index: bool = False) -> None:
    """Raise `NotFound` unless there is this task instance, or any sibling of it."""
    mapped = true() if any_map_index else _t.map_index == scope.map_index
    this = (_t.dag_id == scope.dag_id, _t.run_id == scope.run_id, _t.task_id == scope.task_id, mapped)
    if await row_of(session, select(_t.id).where(*this).limit(1)) is None:
        raise _no_task_instance(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)


def _no_task_instance(dag_id: str, run_id: str, task_id: str, map_index: int) -> NotFound:
    return NotFound(f"no task instance {task_id!r} (map index {map_index}) in the run {run_id!r} of {dag_id!r}")


async def own_task_instance(session: AsyncSession, task_instance_id: str) -> RowMapping:
    """The task instance a try's token speaks for. Raises `NotFound`."""
    row = await row_of(session, select(task_instance).where(_t.id == task_instance_id))
    if row is None:
        raise NotFound("this task instance does not exist any more; end this process")
    return row


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """When some process of a kind last said that it lives, and whether that still counts."""

    at: datetime
    lives: bool


async def heartbeat(session: AsyncSession, processes: Table) -> Heartbeat | None:
    """The newest sign of life of the triggerers or the dispatchers, by the database's clock; None: never one."""
    p = processes.c
    wanted = select(func.max(p.heartbeat_at), func.max(p.expires_at) > database_now())
    at, lives = (await session.execute(wanted)).one()
    return None if at is None else Heartbeat(at=at, lives=bool(lives))
