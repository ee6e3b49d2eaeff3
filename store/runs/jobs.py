"""Jobs as the configuration declared them, and what people decide of each: paused or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import Page, Window, all_of, begins, equal, like, one_of, page
from store.database.schema import job, job_schedule_asset
from store.errors import no_job
from store.keys import JobDefinition

_j = job.c


JOB_ORDERS: Final = {"dag_id": _j.dag_id, "dag_display_name": _j.dag_id}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as the configuration declared it, and its clock; `clock` is the cron that `next_tick` was reckoned by."""

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


JOB_COLUMNS: Final = [_j[field.name] for field in fields(Job)]


async def listed(
    connection: AsyncConnection,
    window: Window,
    *,
    id_pattern: str | None = None,
    id_prefix: str | None = None,
    paused: bool | None = None,
    only_active: bool = True,
) -> Page[Job]:
    """A part of the jobs."""
    query = select(*JOB_COLUMNS).where(
        like(_j.dag_id, id_pattern), begins(_j.dag_id, id_prefix), equal(_j.paused, paused)
    )
    if only_active:
        query = query.where(_j.active)
    return await page(connection, query, window, JOB_ORDERS, Job)


async def get(connection: AsyncConnection, dag_id: str) -> Job:
    """One job, also one that is configured no more. Raises `NotFound`."""
    return await one_of(connection, select(*JOB_COLUMNS).where(_j.dag_id == dag_id), Job, no_job(dag_id))


async def set_paused(connection: AsyncConnection, dag_id: str, *, paused: bool) -> None:
    """Pause a configured job or let it go on; survives restarts. Raises `NotFound`."""
    row = update(job).where(job.c.dag_id == dag_id, job.c.active).values(paused=paused).returning(job.c.dag_id)
    if (await connection.execute(row)).one_or_none() is None:
        raise no_job(dag_id)


async def scheduled_on(connection: AsyncConnection, asset_id: int) -> Sequence[Job]:
    """Configured jobs whose schedule names the asset, by name."""
    s = job_schedule_asset.c
    query = select(*JOB_COLUMNS).join(job_schedule_asset, s.dag_id == job.c.dag_id)
    return await all_of(connection, query.where(s.asset_id == asset_id, _j.active).order_by(_j.dag_id), Job)
