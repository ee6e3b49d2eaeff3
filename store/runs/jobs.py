"""Jobs as the configuration declared them, and what people decide of each: paused or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    RowMapping,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import Page, Window, begins, like, page, row_of
from store.database.schema import (
    job,
    job_schedule_asset,
)
from store.errors import NotFound

_j = job.c


JOB_ORDERS: Final = {"dag_id": _j.dag_id, "dag_display_name": _j.dag_id}


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs; None means all."""

    id_pattern: str | None = None
    id_prefix: str | None = None
    paused: bool | None = None
    only_active: bool = True


async def jobs(connection: AsyncConnection, which: JobFilter, window: Window) -> Page:
    """Jobs."""
    wanted = select(job).where(like(_j.dag_id, which.id_pattern), begins(_j.dag_id, which.id_prefix))
    if which.paused is not None:
        wanted = wanted.where(_j.paused == which.paused)
    if which.only_active:
        wanted = wanted.where(_j.active)
    return await page(connection, wanted, window, JOB_ORDERS)


async def job_by(connection: AsyncConnection, dag_id: str) -> RowMapping:
    """One job, also one that is configured no more. Raises `NotFound`."""
    row = await row_of(connection, select(job).where(_j.dag_id == dag_id))
    if row is None:
        raise NotFound(f"no job {dag_id!r}; GET /api/v2/dags lists the ones there are")
    return row


async def set_paused(connection: AsyncConnection, dag_id: str, *, paused: bool) -> None:
    """Pause a configured job or let it go on; survives restarts. Raises `NotFound`."""
    row = update(job).where(job.c.dag_id == dag_id, job.c.active).values(paused=paused).returning(job.c.dag_id)
    if (await connection.execute(row)).one_or_none() is None:
        raise NotFound(f"no job {dag_id!r}; GET /api/v2/dags lists the ones there are")


async def scheduled_on(connection: AsyncConnection, asset_id: int) -> Sequence[tuple[str, str]]:
    """Configured jobs whose schedule names the asset, with their definitions."""
    s = job_schedule_asset.c
    wanted = select(job.c.dag_id, job.c.definition).join(job_schedule_asset, s.dag_id == job.c.dag_id)
    found = await connection.execute(wanted.where(s.asset_id == asset_id, job.c.active).order_by(job.c.dag_id))
    return [(row.dag_id, row.definition) for row in found]
