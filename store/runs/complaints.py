"""What people may want to be alerted of, as the database has it now. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.paging import all_of
from store.database.schema import database_now, job, run, setting
from store.keys import JobDefinition

MOST_FAILED: Final = 1000
"""The newest failed runs that are looked at."""
_SINCE: Final = "alerts_since"


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run whose last try has failed; what people cancelled or marked is none."""

    dag_id: str
    run_id: str
    reason: str | None
    end_date: datetime


async def failed_runs(connection: AsyncConnection, since: datetime) -> Sequence[FailedRun]:
    """Of configured jobs, ended `since` then; the newest `MOST_FAILED`."""
    r = run.c
    query = (
        select(r.dag_id, r.run_id, r.reason, r.end_date)
        .join(job, job.c.dag_id == r.dag_id)
        .where(r.state == "failed", r.end_date >= since, job.c.active)
        .where(r.reason.is_(None) | r.reason.not_in(("cancelled", "marked as failed")))
    )
    return await all_of(connection, query.order_by(r.id.desc()).limit(MOST_FAILED), FailedRun)


async def deadlines(connection: AsyncConnection) -> Mapping[str, tuple[JobDefinition, timedelta]]:
    """The configured jobs that have a deadline, paused ones too, by dag_id."""
    rows = await connection.execute(select(job.c.dag_id, job.c.definition).where(job.c.active).order_by(job.c.dag_id))
    return {
        row.dag_id: (row.definition, row.definition.deadline) for row in rows if row.definition.deadline is not None
    }


async def alerting_since(connection: AsyncConnection, dialect: str) -> datetime:
    """When this database was first looked at for alerts: of what was before, nobody is told."""
    now: datetime = (await connection.execute(select(database_now()))).scalar_one()
    new = upsert(setting, dialect).values(key=_SINCE, value=now.isoformat())
    await connection.execute(new.on_conflict_do_nothing())
    value: str = (await connection.execute(select(setting.c.value).where(setting.c.key == _SINCE))).scalar_one()
    return datetime.fromisoformat(value)
