"""What a new configuration means for replays."""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.catalog_sync import NOTHING_APPLIED, AppliedCatalog, AppliedFeature
from store.database.schema import database_now, job
from store.features.replay.tables import replay


async def end_of_removed_jobs(connection: AsyncConnection, _applied: AppliedCatalog) -> AppliedFeature:
    """End the replays of jobs that are not configured any more."""
    removed = select(job.c.dag_id).where(~job.c.active)
    over = update(replay).where(replay.c.dag_id.in_(removed), replay.c.finished_at.is_(None))
    await connection.execute(over.values(finished_at=database_now()))
    return NOTHING_APPLIED
