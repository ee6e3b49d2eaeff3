"""Known alerts (what was seen by which rule, since when, whether it was sent), and the conditions that raise them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Select, bindparam, delete, exists, func, insert, or_, select, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, upsert
from store.database.paging import all_of
from store.database.schema import ASSET_EDGES, asset, database_now, database_time_in, job, run, run_asset_event, setting
from store.features.alerts.tables import alert
from store.keys import ClockDeadline, JobDefinition


@dataclass(frozen=True, kw_only=True)
class KnownAlert:
    """One condition, as one rule sees it; `key` is of both. `is_fired`: its message was handed to the outbox."""

    key: str
    rule: str
    alert: str
    subject: Mapping[str, str]
    message: str
    since: datetime
    is_fired: bool


async def listed(connection: AsyncConnection) -> Sequence[KnownAlert]:
    """Return all known alerts."""
    a = alert.c
    query = select(a.key, a.rule, a.alert, a.subject, a.message, a.since, a.is_fired)
    rows = await connection.execute(query.order_by(a.key))
    return [
        KnownAlert(
            key=row.key,
            rule=row.rule,
            alert=row.alert,
            subject=json.loads(row.subject),
            message=row.message,
            since=row.since,
            is_fired=row.is_fired,
        )
        for row in rows
    ]


async def add(connection: AsyncConnection, known: Sequence[KnownAlert]) -> None:
    """Keep these alerts from now on."""
    rows: list[dict[str, Any]] = [{**vars(each), "subject": json.dumps(each.subject)} for each in known]
    if rows:
        await connection.execute(insert(alert), rows)


async def set_fired(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Record that their messages are handed over in this transaction."""
    for some in chunks(sorted(keys)):
        await connection.execute(update(alert).where(alert.c.key.in_(some)).values(is_fired=True))


async def remove(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Remove alerts that no longer hold."""
    for some in chunks(sorted(keys)):
        await connection.execute(delete(alert).where(alert.c.key.in_(some)))


MOST_FAILED: Final = 1000
"""The newest failed runs that are checked."""
REMEMBERED: Final = timedelta(days=7)
"""The time for which a failed run without events remains a problem, and any is alerted."""
_SINCE: Final = "alerts_since"


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


async def alerting_since(connection: AsyncConnection, dialect: str) -> datetime:
    """Return when this database was first checked for alerts: nobody is notified of anything before that."""
    now: datetime = (await connection.execute(select(database_now()))).scalar_one()
    new = upsert(setting, dialect).values(key=_SINCE, value=now.isoformat())
    await connection.execute(new.on_conflict_do_nothing())
    value: str = (await connection.execute(select(setting.c.value).where(setting.c.key == _SINCE))).scalar_one()
    return datetime.fromisoformat(value)
