"""The events of a watcher, in parts, and what became of each at its jobs. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_event
from store.fates import Fate
from store.features.clean_source import removed_files
from store.runs import fates

_e = asset_event.c
_NOWHERE: Final[Mapping[str, Fate]] = {}
_NONE: Final[Mapping[int, Fate]] = {}


class ReportedEvent(NamedTuple):
    """An event of a watcher. `extra` is JSON text. `at_jobs` has the jobs that got it; `removed` its files that were moved or deleted."""

    id: int
    asset_id: int
    timestamp: datetime
    extra: str
    at_jobs: Mapping[str, Fate]
    removed: Mapping[int, Fate]


_SOME: Final = (
    select(_e.id, _e.timestamp, _e.extra)
    .where(
        _e.asset_id == bindparam("b_asset"),
        _e.id > bindparam("b_after"),
        _e.source_watcher.in_(bindparam("b_names", expanding=True)),
    )
    .order_by(_e.id)
    .limit(bindparam("b_most"))
)


async def events_after(
    connection: AsyncConnection, asset_id: int, watchers: Collection[str], after: int, *, limit: int
) -> Sequence[ReportedEvent]:
    """Return the next events of an asset that watchers of these names reported, oldest first."""
    given = {"b_asset": asset_id, "b_after": after, "b_names": [*watchers], "b_most": limit}
    events = (await connection.execute(_SOME, given)).all()
    if not events:
        return ()
    low, high = events[0].id, events[-1].id
    at_jobs = await fates.between(connection, low, high)
    removed = await removed_files.between(connection, low, high)
    return [
        ReportedEvent(id_, asset_id, at, extra, at_jobs.get(id_, _NOWHERE), removed.get(id_, _NONE))
        for id_, at, extra in events
    ]


async def last_event(connection: AsyncConnection) -> int:
    """Return the highest id of an event; 0 without one."""
    return await connection.scalar(select(func.max(_e.id))) or 0
