"""Makes the sketches of events that have none: those of older releases. The clean-up does so, a few at a time."""

from __future__ import annotations

import json
from typing import Final

from sqlalchemy import and_, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset, asset_event
from store.detection.sketches import NO_NAMES, sketch_of_any

AT_ONCE: Final = 200
"""The events of a transaction: their texts are in memory, and SQLite's writers wait."""
_e = asset_event.c
HAS_NONE: Final = and_(_e.sketch_high.is_(None), _e.sketch_low.is_(None), _e.sketch_bits.is_(None))
"""The condition that an event has no sketch."""
_SOME_EVENT: Final = select(_e.id).where(_e.asset_id == asset.c.id, HAS_NONE).limit(1).scalar_subquery()
_SOME_ASSET: Final = select(asset.c.id).where(_SOME_EVENT.is_not(None)).limit(1)
"""The statement for an asset with such events. It looks into the index once for each asset, and reads no event."""
_EVENTS: Final = (
    select(_e.id, _e.source_watcher, _e.extra).where(_e.asset_id == bindparam("of_asset"), HAS_NONE).limit(AT_ONCE)
)
_NUMBERS: Final = ("sketch_low", "sketch_high", "sketch_bits", "sketch_more_bits")
_UPDATE: Final = update(asset_event).where(_e.id == bindparam("of_event")).values({n: bindparam(n) for n in _NUMBERS})


async def make(connection: AsyncConnection) -> int:
    """Make the sketches of some events that have none. Return their number; 0: all have one."""
    asset_id = (await connection.execute(_SOME_ASSET)).scalar_one_or_none()
    if asset_id is None:
        return 0
    rows = (await connection.execute(_EVENTS, {"of_asset": asset_id})).all()
    sketches = [NO_NAMES if row.source_watcher is None else sketch_of_any(json.loads(row.extra)) for row in rows]
    values = [
        {"of_event": row.id, **dict(zip(_NUMBERS, sketch, strict=True))}
        for row, sketch in zip(rows, sketches, strict=True)
    ]
    await connection.execute(_UPDATE, values)
    return len(rows)
