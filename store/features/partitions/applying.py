"""What a new configuration means for the groups of jobs that group events by partition keys."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.catalog_sync import NOTHING_APPLIED, AppliedCatalog, AppliedFeature
from store.features.partitions.tables import partition_group


async def forget_groups(connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
    """Delete the groups of jobs that group by other parts of partition keys from now on."""
    changed = [
        dag_id
        for dag_id, definition in applied.jobs.items()
        if definition.batch.is_partitioned
        and dag_id in applied.jobs_before
        and applied.jobs_before[dag_id].batch.by != definition.batch.by
    ]
    if changed:
        await connection.execute(delete(partition_group).where(partition_group.c.dag_id.in_(changed)))
    return NOTHING_APPLIED
