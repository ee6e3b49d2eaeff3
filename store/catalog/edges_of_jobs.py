"""The edges between jobs and their assets and aliases, as the configuration's mirror keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Table, delete, insert, select, union, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_alias_asset, job_schedule_alias, job_schedule_asset


async def mark_filtered(connection: AsyncConnection, dag_ids: Collection[str]) -> None:
    """Mark the edges of jobs whose schedules have a `where`: it is decided by event whether such a job gets it."""
    for table in (job_schedule_asset, job_schedule_alias):
        is_filtered = table.c.dag_id.in_(dag_ids)
        await connection.execute(update(table).where(table.c.filtered != is_filtered).values(filtered=is_filtered))


async def apply(connection: AsyncConnection, table: Table, edges: Iterable[tuple[str, int]]) -> None:
    """Make a table of edges (job, asset or alias) equal to those that are configured."""
    from_, to, *_ = table.c
    configured = set(edges)
    present = {(row[0], row[1]) for row in await connection.execute(select(from_, to))}
    for dag_id, other_id in sorted(present - configured):
        await connection.execute(delete(table).where(from_ == dag_id, to == other_id))
    if new := [{from_.name: dag_id, to.name: other_id} for dag_id, other_id in sorted(configured - present)]:
        await connection.execute(insert(table), new)


def awaited_assets(dag_id: str) -> Any:
    """Select the assets that a job waits for, through aliases too."""
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    through_alias = select(r.asset_id).join(job_schedule_alias, a.alias_id == r.alias_id).where(a.dag_id == dag_id)
    return union(select(s.asset_id).where(s.dag_id == dag_id), through_alias)
