"""Where a watcher began, and began again: its names, the rewinds, and its first watermarks after each. Reads only."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_event, asset_store_history, audit
from store.values import WATERMARK_SUFFIX

_FEW = 20
_h, _a = asset_store_history.c, audit.c


@dataclass(frozen=True, kw_only=True)
class PositionMove:
    """A rewind by a person. `to` None: the undo of the one before."""

    at: datetime
    to: str | None


@dataclass(frozen=True, kw_only=True)
class WatcherPast:
    """The names that a watcher had, and its moves, oldest first."""

    names: Collection[str]
    moves: Sequence[PositionMove]

    @property
    def last_move(self) -> PositionMove | None:
        """The rewind that decides by now; one to `here` passes over nothing. None: there was none, or all were undone."""
        standing: list[PositionMove] = []
        for move in self.moves:
            if move.to is not None:
                standing.append(move)
            elif standing:
                standing.pop()
        resets = [move for move in standing if move.to != "here"]
        return resets[-1] if resets else None


async def past_of(connection: AsyncConnection, watcher: str) -> WatcherPast:
    """Return what the audit says of a watcher, also under the names that it had before."""
    names = {watcher}
    renames = select(_a.target, _a.detail).where(_a.action == "watcher.rename").order_by(_a.id.desc())
    for row in await connection.execute(renames):
        if row.target in names:
            names.add(json.loads(row.detail)["from"])
    moved = _a.action.in_(("watcher.rewind", "watcher.rewind_undo"))
    rows = await connection.execute(select(_a.at, _a.detail).where(moved, _a.target.in_(names)).order_by(_a.id))
    moves = [PositionMove(at=row.at, to=json.loads(row.detail).get("to")) for row in rows]
    return WatcherPast(names=names, moves=moves)


async def watermarks_after(
    connection: AsyncConnection, asset_id: int, watchers: Collection[str], since: datetime | None
) -> Sequence[Any]:
    """Return a watcher's first watermarks after a rewind, or with None its very first; none if the history has lost them."""
    mine = (_h.asset_id == asset_id, _h.key.in_([name + WATERMARK_SUFFIX for name in watchers]))
    oldest = (
        await connection.execute(select(_h.version, _h.written_at).where(*mine).order_by(_h.version).limit(1))
    ).first()
    if oldest is None or (oldest.version > 1 if since is None else oldest.written_at > since):
        return ()
    query = select(_h.value).where(*mine, _h.watcher.is_not(None), _h.value.is_not(None), _h.is_ref.is_(False))
    if since is not None:
        query = query.where(_h.written_at > since)
    values = (await connection.execute(query.order_by(_h.version).limit(_FEW))).scalars()
    return [json.loads(value) for value in values]


async def first_event_at(
    connection: AsyncConnection, asset_ids: Collection[int], watchers: Collection[str], since: datetime | None
) -> datetime | None:
    """Return when a watcher's first event after a moment was stored, of those that are kept. None: there is none."""
    e = asset_event.c
    query = select(func.min(e.timestamp)).where(e.asset_id.in_(asset_ids), e.source_watcher.in_(watchers))
    moment: datetime | None = await connection.scalar(query if since is None else query.where(e.timestamp > since))
    return moment


async def oldest_extra(
    connection: AsyncConnection, asset_ids: Collection[int], watchers: Collection[str]
) -> str | None:
    """Return what the oldest event of a watcher names, as JSON text, of those that are kept. None: there is none."""
    e = asset_event.c
    mine = select(e.extra).where(e.asset_id.in_(asset_ids), e.source_watcher.in_(watchers))
    extra: str | None = await connection.scalar(mine.order_by(e.id).limit(1))
    return extra
