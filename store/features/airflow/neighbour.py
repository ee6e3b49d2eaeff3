"""The mirror of a neighbouring Airflow's configuration: the assets that are forwarded, and those listened to.

Whether an event is forwarded to Airflow is decided by these rows, in the transaction that commits it, whoever commits
it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, exists, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature
from store.database.schema import asset_event
from store.features.airflow.tables import listen_position
from store.features.outbox.tables import asset_forward, outbox


@dataclass(frozen=True, kw_only=True)
class DeclaredForward:
    """An asset whose events go to an asset of Airflow's, named by its name or uri."""

    asset: str
    target: str
    with_partition_key: bool = False


async def apply(
    connection: AsyncConnection,
    applied: AppliedCatalog,
    *,
    forwards: Sequence[DeclaredForward] = (),
    listens: Collection[str] = (),
) -> AppliedFeature:
    """Make the mirror equal. `listens` are the assets of Airflow's whose events are read.

    Messages for an asset that is no longer forwarded are dropped, like queue rows of removed jobs. So is the reading
    position of an asset that is no longer listened to: listening again begins anew.
    """
    ids = applied.asset_ids
    configured = {(ids[each.asset], each.target, each.with_partition_key) for each in forwards}
    if configured != {tuple(row) for row in await connection.execute(select(*asset_forward.c))}:
        await connection.execute(delete(asset_forward))
        if configured:
            names = asset_forward.c.keys()
            new = [dict(zip(names, row, strict=True)) for row in sorted(configured)]
            await connection.execute(insert(asset_forward), new)
        of_event = asset_event.c.id == outbox.c.asset_event_id
        kept = exists().where(of_event, asset_forward.c.asset_id == asset_event.c.asset_id)
        await connection.execute(delete(outbox).where(outbox.c.asset_event_id.is_not(None), ~kept))
    await connection.execute(delete(listen_position).where(listen_position.c.source.not_in(listens)))
    return AppliedFeature(interest=[asset_id for asset_id, _, _ in configured])
