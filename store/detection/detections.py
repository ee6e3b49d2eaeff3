"""The one transaction of a detection: position, working state, events, queue rows, watermark entry and its history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, Writer
from store.database.schema import database_now, watcher
from store.detection import events, positions
from store.detection.events import NewEvent
from store.detection.positions import HeldPosition
from store.metastore import MetastoreStoreBackend
from store.values import WATERMARK_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a watcher found and where that leaves it; `source_identity`, `state` and `watermark` are JSON texts."""

    held: HeldPosition
    asset_id: int
    source_identity: str
    state: str
    watermark: str
    writer: Writer
    events: Sequence[NewEvent] = ()
    clear: bool = False
    delete_below: int | None = None
    delete_members: Collection[int] = ()
    insert_members: Mapping[int, int] = field(default_factory=dict)


async def commit(
    connection: AsyncConnection, detection: Detection, backend: MetastoreStoreBackend, dialect: str
) -> HeldPosition:
    """Write all of a detection in the caller's transaction. Raises `PositionLost` before anything is written."""
    held = await positions.advance(
        connection,
        detection.held,
        source_identity=detection.source_identity,
        state=detection.state,
        watermark=detection.watermark,
    )
    await positions.change_rows(
        connection,
        held.watcher,
        dialect,
        clear=detection.clear,
        delete_below=detection.delete_below,
        delete_members=detection.delete_members,
        insert_members=detection.insert_members,
    )
    await events.append(connection, detection.events)
    await backend.aset_asset_store(
        AssetScope(asset_id=detection.asset_id),
        held.watcher + WATERMARK_SUFFIX,
        detection.watermark,
        writer=detection.writer,
        session=connection,
    )
    if detection.events:
        seen = update(watcher).where(watcher.c.name == held.watcher).values(last_event_at=database_now())
        await connection.execute(seen)
    return held
