"""Jobs as the configuration declared them, and what people decide about each: paused or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, false, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import (
    NO_BOUNDS,
    PageRequest,
    Range,
    ResultPage,
    all_of,
    among,
    begins,
    contains,
    equal,
    like,
    one_of,
    page,
    within,
)
from store.database.schema import asset, job, job_schedule_asset, run
from store.errors import no_job
from store.keys import JobDefinition
from store.runs.runs import DELETED

_j = job.c
_last_run = run.alias("last_run")
_last = _last_run.c
JOB_ORDERS: Final = {
    "dag_id": _j.dag_id,
    "dag_display_name": _j.dag_id,
    "next_dagrun": _j.next_tick,
    "last_run_state": _last.state,
    "last_run_start_date": _last.start_date,
}


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job as the configuration declared it, and its clock; `next_tick` was computed by the cron in `clock`."""

    dag_id: str
    task_id: str
    active: bool
    paused: bool
    definition: JobDefinition
    cron: str | None
    clock: str | None
    next_tick: datetime | None
    created_at: datetime
    updated_at: datetime


JOB_COLUMNS: Final = [_j[field.name] for field in fields(JobRow)]


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Conditions on jobs; None and an empty collection mean all. `last_run_…` is about a job's newest run."""

    ids: Collection[str] | None = None
    id_pattern: str | None = None
    id_prefix: str | None = None
    id_contains: str | None = None
    """A literal part of the id, whatever the case."""
    display_name_pattern: str | None = None
    display_name_prefix: str | None = None
    paused: bool | None = None
    only_active: bool = True
    has_asset_schedule: bool | None = None
    asset_dependency: str | None = None
    last_run_state: str | None = None
    last_run_states: Collection[str] | None = None
    last_run_start: Range = NO_BOUNDS
    last_run_end: Range = NO_BOUNDS
    is_impossible: bool = False
    """No job has what was asked for."""

    @property
    def condition(self) -> ColumnElement[bool]:
        listed = true() if self.ids is None else _j.dag_id.in_(self.ids)
        ids = listed, like(_j.dag_id, self.id_pattern), begins(_j.dag_id, self.id_prefix)
        text = contains(_j.dag_id, self.id_contains)
        names = like(_j.dag_id, self.display_name_pattern), begins(_j.dag_id, self.display_name_prefix)
        active = _j.active if self.only_active else true()
        impossible = false() if self.is_impossible else true()
        last_run = self._last_run if self.is_of_last_run else ()
        return and_(*ids, text, *names, equal(_j.paused, self.paused), active, *self._assets, *last_run, impossible)

    @property
    def is_of_last_run(self) -> bool:
        times = [*vars(self.last_run_start).values(), *vars(self.last_run_end).values()]
        return bool(self.last_run_state or self.last_run_states) or any(time is not None for time in times)

    @property
    def _last_run(self) -> Iterator[ColumnElement[bool]]:
        yield equal(_last.state, self.last_run_state)
        yield among(_last.state, self.last_run_states)
        yield within(_last.start_date, self.last_run_start)
        yield within(_last.end_date, self.last_run_end)

    @property
    def _assets(self) -> Iterator[ColumnElement[bool]]:
        s, a = job_schedule_asset.c, asset.c
        scheduled = select(s.dag_id).where(s.dag_id == _j.dag_id)
        if self.has_asset_schedule is not None:
            yield scheduled.exists() if self.has_asset_schedule else ~scheduled.exists()
        if self.asset_dependency is not None:
            text = self.asset_dependency
            named = or_(contains(a.name, text), contains(a.uri, text))
            yield scheduled.join(asset, a.id == s.asset_id).where(named).exists()


async def listed(connection: AsyncConnection, which: JobFilter, window: PageRequest) -> ResultPage[JobRow]:
    """Return a part of the jobs."""
    query = select(*JOB_COLUMNS).where(which.condition)
    if which.is_of_last_run or any("last_run" in name for name in window.order_by):
        newest = select(func.max(run.c.id)).where(run.c.dag_id == _j.dag_id, run.c.state != DELETED).scalar_subquery()
        query = query.select_from(job).outerjoin(_last_run, _last.id == newest)
    return await page(connection, query, window, JOB_ORDERS, JobRow)


async def first(connection: AsyncConnection, which: JobFilter, *, limit: int, after: str | None) -> Sequence[JobRow]:
    """Return the first jobs that match, by id, or the first behind the id `after`."""
    behind = true() if after is None else _j.dag_id > after
    query = select(*JOB_COLUMNS).where(which.condition, behind).order_by(_j.dag_id).limit(limit)
    return await all_of(connection, query, JobRow)


async def count(connection: AsyncConnection, which: JobFilter) -> int:
    """Return how many jobs match."""
    return (await connection.execute(select(func.count()).select_from(job).where(which.condition))).scalar_one()


async def ids(connection: AsyncConnection, which: JobFilter) -> Sequence[str]:
    """Return the ids of all jobs that match, in order."""
    return (await connection.execute(select(_j.dag_id).where(which.condition).order_by(_j.dag_id))).scalars().all()


async def get(connection: AsyncConnection, dag_id: str) -> JobRow:
    """Return one job, also one that is no longer configured. Raises `NotFound`."""
    return await one_of(connection, select(*JOB_COLUMNS).where(_j.dag_id == dag_id), JobRow, no_job(dag_id))


async def set_paused(connection: AsyncConnection, dag_id: str, *, paused: bool) -> None:
    """Pause a configured job or resume it; survives restarts. Raises `NotFound`."""
    row = update(job).where(job.c.dag_id == dag_id, job.c.active).values(paused=paused).returning(job.c.dag_id)
    if (await connection.execute(row)).one_or_none() is None:
        raise no_job(dag_id)


async def scheduled_on(connection: AsyncConnection, asset_id: int) -> Sequence[JobRow]:
    """Return the configured jobs whose schedule names the asset, by name."""
    s = job_schedule_asset.c
    query = select(*JOB_COLUMNS).join(job_schedule_asset, s.dag_id == job.c.dag_id)
    return await all_of(connection, query.where(s.asset_id == asset_id, _j.active).order_by(_j.dag_id), JobRow)
