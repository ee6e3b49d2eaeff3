"""The conditions that are problems: failed runs, deadlines, and the assets around a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Select, bindparam, exists, func, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import all_of
from store.database.schema import ASSET_EDGES, asset, database_time_in, job, run, run_asset_event, seconds_between
from store.keys import ClockDeadline, JobDefinition

MOST_FAILED: Final = 1000
"""The newest failed runs that are checked."""
REMEMBERED: Final = timedelta(days=7)
"""The time for which a failed run without events remains a problem, and any is alerted."""


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run whose last try has failed; runs that people cancelled or marked are none."""

    dag_id: str
    run_id: str
    reason: str | None
    end_date: datetime


async def failed_runs(connection: AsyncConnection) -> Sequence[FailedRun]:
    """Return the failed runs of configured jobs, the newest `MOST_FAILED`: for a week, and for as long as their events wait."""
    return await all_of(connection, _FAILED, FailedRun)


def _failed() -> Select[Any]:
    r, e = run.c, run_asset_event.c
    has_events = exists().where(e.dag_id == r.dag_id, e.run_id == r.run_id)
    query = (
        select(r.dag_id, r.run_id, r.reason, r.end_date)
        .join(job, job.c.dag_id == r.dag_id)
        .where(
            r.state == "failed",
            job.c.active,
            or_(r.end_date >= database_time_in(-REMEMBERED.total_seconds()), has_events),
        )
        .where(r.reason.is_(None) | r.reason.not_in(("cancelled", "marked as failed")))
    )
    return query.order_by(r.id.desc()).limit(MOST_FAILED)


_FAILED: Final = _failed()


async def deadlines(connection: AsyncConnection) -> Mapping[str, tuple[JobDefinition, timedelta]]:
    """Return the configured jobs that have a deadline, paused ones too, by dag_id."""
    rows = await connection.execute(select(job.c.dag_id, job.c.definition).where(job.c.active).order_by(job.c.dag_id))
    return {
        row.dag_id: (row.definition, row.definition.deadline) for row in rows if row.definition.deadline is not None
    }


@dataclass(frozen=True, kw_only=True)
class DueJob:
    """A configured job of which a run must have succeeded by a time of the day, and since when the job is known."""

    due_by: ClockDeadline
    created_at: datetime


async def due_jobs(connection: AsyncConnection) -> Mapping[str, DueJob]:
    """Return the configured jobs with such a time, by dag_id."""
    j = job.c
    rows = await connection.execute(select(j.dag_id, j.definition, j.created_at).where(j.active).order_by(j.dag_id))
    return {
        row.dag_id: DueJob(due_by=due_by, created_at=row.created_at)
        for row in rows
        if (due_by := row.definition.due_by) is not None
    }


async def newest_successes(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, datetime]:
    """Return when the newest of each job's successful runs ended, without jobs that have none."""
    return await _ends(connection, _NEWEST, dag_ids)


async def last_successes(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, datetime]:
    """Return when a run of each job succeeded last. It reads all successful runs of these jobs."""
    return await _ends(connection, _LAST, dag_ids)


async def _ends(connection: AsyncConnection, query: Select[Any], dag_ids: Collection[str]) -> Mapping[str, datetime]:
    ends: dict[str, datetime] = {}
    for some in chunks(sorted(dag_ids)):
        rows = await connection.execute(query, {"b_dag_ids": list(some)})
        ends |= {row.dag_id: row.end_date for row in rows if row.end_date is not None}
    return ends


def _newest() -> Select[Any]:
    success = run.alias("success").c
    newest = select(func.max(success.id)).where(success.dag_id == job.c.dag_id, success.state == "success")
    of_job = newest.correlate(job).scalar_subquery()
    return select(run.c.dag_id, run.c.end_date).join_from(job, run, run.c.id == of_job).where(_OF_THESE)


def _last() -> Select[Any]:
    last = func.max(run.c.end_date, type_=run.c.end_date.type).label("end_date")
    query = select(run.c.dag_id, last).join_from(job, run, run.c.dag_id == job.c.dag_id)
    return query.where(_OF_THESE, run.c.state == "success").group_by(run.c.dag_id)


_OF_THESE: Final = job.c.dag_id.in_(bindparam("b_dag_ids", expanding=True))
_NEWEST: Final = _newest()
_LAST: Final = _last()


@dataclass(frozen=True, kw_only=True)
class RunningRun:
    """A run of a configured job that is running, since it began with its first try."""

    dag_id: str
    run_id: str
    start_date: datetime
    definition: JobDefinition


async def running_runs(connection: AsyncConnection) -> Sequence[RunningRun]:
    """Return the runs of configured jobs that are running, those of paused jobs too, the oldest first."""
    return await all_of(connection, _RUNNING, RunningRun)


async def last_durations(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, Sequence[float]]:
    """Return how many seconds the last `USUAL` successful runs of each of these jobs took."""
    seconds = {}
    for dag_id in sorted(dag_ids):
        rows = await connection.execute(_DURATIONS, {"b_dag_id": dag_id})
        seconds[dag_id] = [max(row.seconds, 0.0) for row in rows if row.seconds is not None]
    return seconds


USUAL: Final = 30
"""The successful runs of a job that say how long it usually takes."""
_RUNNING: Final = (
    select(run.c.dag_id, run.c.run_id, run.c.start_date, job.c.definition)
    .join(job, job.c.dag_id == run.c.dag_id)
    .where(run.c.state == "running", run.c.start_date.is_not(None), job.c.active)
    .order_by(run.c.start_date, run.c.id)
)
_DURATIONS: Final = (
    select(seconds_between(run.c.start_date, run.c.end_date).label("seconds"))
    .where(run.c.state == "success", run.c.dag_id == bindparam("b_dag_id"))
    .order_by(run.c.id.desc())
    .limit(USUAL)
)


async def assets_around(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of the active assets that jobs are scheduled on, read or update, by job."""
    names = defaultdict[str, set[str]](set)
    for some in chunks(sorted(dag_ids)):
        for row in await connection.execute(_AROUND, {"b_dag_ids": some}):
            names[row.dag_id].add(row.name)
    return {dag_id: frozenset(of_job) for dag_id, of_job in names.items()}


_AROUND: Final = union_all(
    *(
        select(edge.c.dag_id, asset.c.name)
        .join(asset, asset.c.id == edge.c.asset_id)
        .where(asset.c.active, edge.c.dag_id.in_(bindparam("b_dag_ids", expanding=True)))
        for edge in ASSET_EDGES.values()
    )
)
