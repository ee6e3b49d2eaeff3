"""Events of watchers that may name some files, by their sketches. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.schema import asset_event
from store.detection.sketched_events import has_bits
from store.detection.sketches import microseconds

MOST_OVERLAPPING: Final = 500
"""The most events that are worth reading."""
_e = asset_event.c


async def overlapping(
    connection: AsyncConnection, watchers: Collection[str], files: Mapping[str, str]
) -> Sequence[int]:
    """Return the events of these watchers that may name some of these files, given as names with the times of writing.

    At most one more is returned than is worth reading.
    """
    low, high = microseconds(min(files.values())) - 1_000_000, microseconds(max(files.values())) + 1_000_000
    has_none = and_(_e.sketch_high.is_(None), _e.sketch_bits.is_(None))
    may_name = or_(has_none, and_(_e.sketch_high >= low, _e.sketch_low <= high), *map(has_bits, files))
    asset_ids = await watcher_assets.assets_of(connection, watchers)
    mine = (_e.asset_id.in_(asset_ids), _e.source_watcher.in_(watchers))
    ids = await connection.execute(select(_e.id).where(*mine, may_name).limit(MOST_OVERLAPPING + 1))
    return ids.scalars().all()
