"""Events of watchers that may name files written in a span of time, by their sketches. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_event
from store.detection.sketches import microseconds

MOST_OVERLAPPING: Final = 500
"""The most events that are worth reading."""
_e = asset_event.c


@dataclass(frozen=True, kw_only=True)
class EventPlace:
    """The events of these watchers on an asset."""

    watchers: Collection[str]
    asset_id: int


async def overlapping(connection: AsyncConnection, place: EventPlace, first: str, last: str) -> Sequence[int]:
    """Return the events that may name a file written between two moments of files, at most one more than is worth reading."""
    low, high = microseconds(first) - 1_000_000, microseconds(last) + 1_000_000
    within = or_(_e.sketch_high.is_(None), and_(_e.sketch_high >= low, _e.sketch_low <= high))
    mine = (_e.asset_id == place.asset_id, _e.source_watcher.in_(place.watchers))
    ids = await connection.execute(select(_e.id).where(*mine, within).limit(MOST_OVERLAPPING + 1))
    return ids.scalars().all()
