"""How far the events of Airflow's assets were read, updated in the transaction that stores the resulting events.

An event that was read is remembered by its id for as long as it can be read again. Only the leader writes here, in its
own transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset
from store.errors import NotFound
from store.features.airflow.tables import listen_position, listen_seen
from store.keys import AssetId

_p, _s = listen_position.c, listen_seen.c


@dataclass(frozen=True, kw_only=True)
class StoredReading:
    """`newest` is a timestamp of Airflow's, up to which only late events are new; `seen` has timestamps by event id."""

    newest: datetime | None
    seen: Mapping[int, datetime]


async def load(connection: AsyncConnection, source: str) -> StoredReading | None:
    """Return where reading stands; None before the first poll."""
    position = (await connection.execute(select(_p.newest).where(_p.source == source))).one_or_none()
    if position is None:
        return None
    rows = await connection.execute(select(_s.event_id, _s.timestamp).where(_s.source == source).order_by(_s.timestamp))
    return StoredReading(newest=position.newest, seen={row.event_id: row.timestamp for row in rows})


async def begin(connection: AsyncConnection, source: str, reading: StoredReading) -> None:
    """Start reading from here."""
    await connection.execute(insert(listen_position).values(source=source, newest=reading.newest))
    await remember(connection, source, reading.seen)


async def remember(connection: AsyncConnection, source: str, events: Mapping[int, datetime]) -> None:
    """Record events that were read. The database refuses an event that was read before."""
    rows = [{"source": source, "event_id": event_id, "timestamp": at} for event_id, at in events.items()]
    if rows:
        await connection.execute(insert(listen_seen), rows)


async def advance(connection: AsyncConnection, source: str, newest: datetime, lateness: timedelta) -> None:
    """Move on: nothing from before `lateness` behind `newest` is read again."""
    await connection.execute(update(listen_position).where(_p.source == source).values(newest=newest))
    await connection.execute(delete(listen_seen).where(_s.source == source, _s.timestamp < newest - lateness))


async def target(connection: AsyncConnection, name: str) -> AssetId:
    """Return the id of the asset that the events are stored for. Raises `NotFound`."""
    of_name = select(asset.c.id).where(asset.c.name == name, asset.c.active)
    asset_id = (await connection.execute(of_name)).scalar_one_or_none()
    if asset_id is None:
        raise NotFound(f"there is no asset {name!r} to take Airflow's events; configure it")
    return AssetId(asset_id)
