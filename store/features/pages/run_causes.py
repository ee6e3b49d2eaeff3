"""Why runs were made: the numbers of their events by asset, for lists. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset, asset_event, run_asset_event


class ShownRun(Protocol):
    """A run in a list."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...


RunCauses: TypeAlias = Mapping[tuple[str, str], Mapping[str, int]]
"""The numbers of events by the name of their asset, by the run's job and id. A run without events is not in it."""


async def causes_of(connection: AsyncConnection, runs: Iterable[ShownRun]) -> RunCauses:
    """Return of which assets the events of these runs are."""
    pairs = sorted({(each.dag_id, each.run_id) for each in runs})
    causes: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    of, a = run_asset_event.c, asset.c
    counted = (
        select(of.dag_id, of.run_id, a.name, func.count().label("events"))
        .select_from(run_asset_event)
        .join(asset_event, asset_event.c.id == of.event_id)
        .join(asset, a.id == asset_event.c.asset_id)
        .where(tuple_(of.dag_id, of.run_id).in_(pairs))
        .group_by(of.dag_id, of.run_id, a.name)
    )
    for row in await connection.execute(counted):
        causes[row.dag_id, row.run_id][row.name] = row.events
    return causes
