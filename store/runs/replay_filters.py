"""Counts which events of a replay a schedule with `where` would take, by what they say. Reads only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset, asset_event
from store.detection import filters
from store.keys import Condition
from store.references import satisfied

_AT_ONCE: Final = 1_000
"""How many events are held in memory at a time."""


async def count(connection: AsyncConnection, kinds: Select[Any], schedule: Condition | None) -> Mapping[str, int]:
    """Count by kind the events that satisfy a reference. `kinds` selects the events of the replay, each with its kind."""
    each = kinds.subquery()
    assets = (await connection.execute(select(each.c.asset_id).distinct())).scalars().all()
    aliases = await filters.aliases_of(connection, set(assets))
    query = select(each.c.kind, each.c.asset_id, each.c.partition_key, asset.c.name, asset_event.c.extra)
    query = query.join(asset_event, asset_event.c.id == each.c.id).join(asset, asset.c.id == each.c.asset_id)
    query = query.where(each.c.kind.in_(("new", "dropped")))
    counted: Counter[str] = Counter()
    async with connection.stream(query, execution_options={"yield_per": _AT_ONCE}) as rows:
        async for row in rows:
            of_asset = filters.referring(schedule, row.name, aliases.get(row.asset_id, frozenset()))
            if satisfied(of_asset, json.loads(row.extra), row.partition_key) is not None:
                counted[row.kind] += 1
    return counted
