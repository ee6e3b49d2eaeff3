"""Counts which events of a replay a schedule with `where` would take, by what they say. Reads only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset, asset_event
from store.detection import filters
from store.keys import Condition
from store.references import satisfied
from store.runs.fates import PlaceAtJob

_AT_ONCE: Final = 1_000
"""How many events are held in memory at a time."""


async def count(
    connection: AsyncConnection, places: Select[Any], which: Collection[PlaceAtJob], schedule: Condition | None
) -> Mapping[PlaceAtJob, int]:
    """Count by place the events that satisfy a reference, of those in the places `which`.

    `places` selects the events of the replay, each with its place at the job.
    """
    each = places.subquery()
    assets = (await connection.execute(select(each.c.asset_id).distinct())).scalars().all()
    aliases = await filters.aliases_of(connection, set(assets))
    query = select(each.c.place, each.c.asset_id, each.c.partition_key, asset.c.name, asset_event.c.extra)
    query = query.join(asset_event, asset_event.c.id == each.c.id).join(asset, asset.c.id == each.c.asset_id)
    query = query.where(each.c.place.in_([place.text for place in which]))
    counted = Counter[PlaceAtJob]()
    async with connection.stream(query, execution_options={"yield_per": _AT_ONCE}) as rows:
        async for row in rows:
            of_asset = filters.referring(schedule, row.name, aliases.get(row.asset_id, frozenset()))
            if satisfied(of_asset, json.loads(row.extra), row.partition_key) is not None:
                counted[PlaceAtJob.of_text(row.place)] += 1
    return counted
