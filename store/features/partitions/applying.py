"""What a new configuration means for the groups of jobs that group events by partition keys."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.catalog_sync import NOTHING_APPLIED, AppliedCatalog, AppliedFeature
from store.features.partitions.tables import partition_event, partition_group


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
        for each in (partition_group, partition_event):
            await connection.execute(delete(each).where(each.c.dag_id.in_(changed)))
    return NOTHING_APPLIED
