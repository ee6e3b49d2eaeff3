"""What has a given name, part of a name, or id: for people who have one in hand. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import asset, asset_event, asset_store, job, run, watcher
from store.detection.event_lists import StoredEvent, with_assets
from store.keys import AssetRef
from store.runs.runs import IS_THERE, RunRow
from store.state import history
from store.state.history import HistoryEntry

_BIGGEST_ID: Final = 2**63 - 1
_Text: TypeAlias = ColumnElement[str]
_Condition: TypeAlias = ColumnElement[bool]
_e, _r = asset_event.c, run.c


@dataclass(frozen=True, kw_only=True)
class StoredKey:
    """An asset's entry by its key."""

    asset_id: int
    asset: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Matches:
    """Everything that matches by a part of its name, or by the whole of an id."""

    assets: Sequence[AssetRef]
    watchers: Sequence[str]
    jobs: Sequence[str]
    runs: Sequence[RunRow]
    keys: Sequence[StoredKey]
    events: Sequence[StoredEvent]
    writes: Sequence[HistoryEntry]


async def matches(connection: AsyncConnection, text: str, *, limit: int) -> Matches:
    """Return what matches the text.

    Names contain it, whatever their case. Events match by id, event id or trace, runs by trace, values by write id.
    """
    return Matches(
        assets=await _assets(connection, text, limit),
        watchers=await _names(connection, watcher.c.name, watcher.c.active, text, limit),
        jobs=await _names(connection, job.c.dag_id, job.c.active, text, limit),
        runs=await _runs(connection, text, limit),
        keys=await _keys(connection, text, limit),
        events=await _events(connection, text, limit),
        writes=await history.of_writes(connection, [text]),
    )


async def _assets(connection: AsyncConnection, text: str, limit: int) -> Sequence[AssetRef]:
    a = asset.c
    query = select(a.id, a.name, a.uri).where(a.active, or_(_holds(a.name, text), _holds(a.uri, text)))
    return await all_of(connection, query.order_by(a.name).limit(limit), AssetRef)


async def _names(connection: AsyncConnection, name: _Text, active: _Condition, text: str, limit: int) -> Sequence[str]:
    query = select(name).where(active, _holds(name, text)).order_by(name).limit(limit)
    return (await connection.execute(query)).scalars().all()


async def _runs(connection: AsyncConnection, text: str, limit: int) -> Sequence[RunRow]:
    query = select(run).where(IS_THERE, or_(_holds(_r.run_id, text), _r.trace_id == text))
    return await all_of(connection, query.order_by(_r.id.desc()).limit(limit), RunRow)


async def _keys(connection: AsyncConnection, text: str, limit: int) -> Sequence[StoredKey]:
    s = asset_store.c
    query = select(s.asset_id, asset.c.name.label("asset"), s.key).join(asset, asset.c.id == s.asset_id)
    return await all_of(connection, query.where(_holds(s.key, text)).order_by(s.key).limit(limit), StoredKey)


async def _events(connection: AsyncConnection, text: str, limit: int) -> Sequence[StoredEvent]:
    ids = [_e.event_id == text, _e.trace_id == text]
    if text.isascii() and text.isdecimal() and int(text[:20]) <= _BIGGEST_ID and len(text) <= len(str(_BIGGEST_ID)):
        ids.append(_e.id == int(text))
    query = with_assets().where(or_(*ids)).order_by(_e.id.desc())
    return await all_of(connection, query.limit(limit), StoredEvent.stored)


def _holds(name: _Text, text: str) -> _Condition:
    return name.icontains(text, autoescape=True)
