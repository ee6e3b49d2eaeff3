"""Positions that people move: a rewind, its undo until something would repeat, and a rename of a watcher.

A rewind is a compare-and-set of the position row and raises the version, so a commit of the running watcher that is in
flight loses. The version never goes back under any name, not even by undo or rename: event ids are made from a
watcher's name and its position's version. So an old name keeps its row, with the version and without a position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import RowMapping, Select, Table, delete, exists, false, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.lifecycle import Follows, HandedOver, renamed
from store.database.schema import (
    UNDO_SUFFIX,
    asset_event,
    database_now,
    triggerer,
    watcher,
    watcher_position,
    watcher_position_row,
)
from store.detection import position_chunks, position_rows
from store.detection.position_chunks import ChunkDifferences
from store.detection.positions import FIRST_FORMAT, NewPosition
from store.errors import Conflict, NotFound
from store.values import to_json


async def rewind(connection: AsyncConnection, watcher: str, version: int, to: NewPosition, dialect: str) -> int:
    """Move the position and keep the previous one whole; return the new version.

    Raises `Conflict` if it moved meanwhile: `version` is the one it must still have.
    """
    p, r = watcher_position.c, watcher_position_row.c
    here = p.watcher == watcher
    position = select(*(p[name] for name in NewPosition.COLUMNS)).where(here, p.version == version)
    before = (await connection.execute(position.with_for_update())).mappings().one_or_none()
    if before is None:
        raise Conflict(f"the position of {watcher} moved meanwhile; retry")
    newest = await connection.scalar(select(func.max(asset_event.c.id)))
    previous = json.dumps({**before, _EVENTS_BEFORE: newest or 0})
    moved = update(watcher_position).where(here)
    await connection.execute(
        moved.values(version=p.version + 1, previous=previous, undo_ended=None, updated_at=database_now(), **to.columns)
    )
    kept = watcher + UNDO_SUFFIX
    await connection.execute(delete(watcher_position_row).where(r.watcher == kept))
    copy = select(literal(kept), r.member, r.value).where(r.watcher == watcher)
    await connection.execute(insert(watcher_position_row).from_select(["watcher", "member", "value"], copy))
    await position_rows.change_rows(connection, watcher, to.rows, dialect)
    return version + 1


_EVENTS_BEFORE: Final = "told_before"
"""The key, in the kept position, of an event id.

No event up to it was reported after the rewind, and all others of its watcher were.
"""


@dataclass(frozen=True, kw_only=True)
class LastRewind:
    """The last rewind. `ended`: why it cannot be undone any more; None: it can.

    `events`: how many events the watcher reported since, while it can be undone.
    """

    ended: str | None = None
    events: int = 0


async def last_rewind(connection: AsyncConnection, watcher: str, *, most: int) -> LastRewind | None:
    """Return the last rewind that was not undone; at most `most` of its events are counted."""
    p = watcher_position.c
    row = (await connection.execute(select(p.previous, p.undo_ended).where(p.watcher == watcher))).one_or_none()
    if row is None or (row.previous is None and row.undo_ended is None):
        return None
    if row.previous is None:
        return LastRewind(ended=row.undo_ended)
    some = _events_since(watcher, json.loads(row.previous)).limit(most).subquery()
    return LastRewind(events=await connection.scalar(select(func.count()).select_from(some)) or 0)


def _events_since(name: str, previous: Mapping[str, Any]) -> Select[Any]:
    """Select the watcher's events since its rewind. What an older release kept does not say when that was."""
    e, w = asset_event.c, watcher.c
    of_asset = e.asset_id == select(w.asset_id).where(w.name == name).scalar_subquery()
    first = previous.get(_EVENTS_BEFORE)
    return select(e.id).where(of_asset, e.source_watcher == name, e.id > first if first is not None else false())


async def end_undo(connection: AsyncConnection, watcher: str, reason: str) -> None:
    """Make the last rewind final, in the transaction of a commit that makes it so, after `advance`."""
    p = watcher_position.c
    ended = update(watcher_position).where(p.watcher == watcher, p.previous.is_not(None))
    await connection.execute(ended.values(previous=None, undo_ended=reason))


@dataclass(frozen=True, kw_only=True)
class Undone:
    """The position as it was before a rewind. `events` were reported since, and stay."""

    version: int
    watermark: str | None
    events: int


async def undo(connection: AsyncConnection, watcher: str) -> Undone:
    """Put the kept position back. Raises `Conflict` if none is kept."""
    p, r = watcher_position.c, watcher_position_row.c
    here = p.watcher == watcher
    query = select(p.version, p.previous, p.undo_ended).where(here).with_for_update()
    row = (await connection.execute(query)).one_or_none()
    if row is None or row.previous is None:
        ended = None if row is None else row.undo_ended
        raise Conflict(f"{watcher} has no rewind to undo; {ended or 'none was made'}")
    previous = {"format": FIRST_FORMAT, **json.loads(row.previous)}  # one that an older release kept has no format
    events = await connection.scalar(select(func.count()).select_from(_events_since(watcher, previous).subquery()))
    content = {name: previous[name] for name in NewPosition.COLUMNS}
    moved = update(watcher_position).where(here)
    await connection.execute(moved.values(version=p.version + 1, previous=None, updated_at=database_now(), **content))
    await connection.execute(delete(watcher_position_row).where(r.watcher == watcher))
    await position_chunks.change(connection, {watcher: ChunkDifferences(clear=True)})
    back = update(watcher_position_row).where(r.watcher == watcher + UNDO_SUFFIX)
    await connection.execute(back.values(watcher=watcher))
    return Undone(version=row.version + 1, watermark=previous["watermark"], events=events or 0)


def _handed_over(table: Table) -> tuple[str, ...]:
    """Return the columns that a rename of a watcher hands over to the row of the new name."""
    return next(rule.columns for _, _, rule in renamed([table], HandedOver))


_MOVED: Final = _handed_over(watcher_position)
_ASKED: Final = _handed_over(watcher)
"""What people asked of a watcher."""


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """A position under its new name; `old_asset_id` is the asset with the old name's watermark entry, if known."""

    version: int
    watermark: str | None
    old_asset_id: int | None


async def rename(connection: AsyncConnection, old: str, new: str, tables: Iterable[Table]) -> Renamed:
    """Move everything of `old` to `new`, and whether people have paused it. Raises `NotFound`, `Conflict`.

    What moves is declared by the `tables`. A triggerer that has just begun with `new` loses its next commit and reads the
    moved position.
    """
    p, dialect = watcher_position.c, connection.dialect.name
    lives = exists().where(triggerer.c.id == p.owner, triggerer.c.expires_at > database_now()).label("lives")
    both = (
        select(watcher_position, lives)
        .where(p.watcher.in_((old, new)))
        .order_by(p.watcher)
        .with_for_update(of=watcher_position)
    )
    rows = {row["watcher"]: row for row in (await connection.execute(both)).mappings()}
    before = _checked(old, new, rows.get(old), rows.get(new))
    version, epoch = (max(row[name] for row in rows.values()) + 1 for name in ("version", "epoch"))
    moved = {name: before[name] for name in _MOVED}
    entry = upsert(watcher_position, dialect).values(watcher=new, version=version, epoch=epoch, **moved)
    changed = {name: entry.excluded[name] for name in ("version", "epoch", *_MOVED)}
    await connection.execute(entry.on_conflict_do_update(index_elements=["watcher"], set_=changed))
    emptied = update(watcher_position).where(p.watcher == old)
    nothing = {**dict.fromkeys(_MOVED), "format": FIRST_FORMAT}
    await connection.execute(emptied.values(owner=None, epoch=epoch, **nothing))
    for table, column, rule in renamed(tables, Follows):
        name = table.c[column]
        for suffix in rule.suffixes:
            await connection.execute(delete(table).where(name == new + suffix))
            await connection.execute(update(table).where(name == old + suffix).values({column: new + suffix}))
    old_asset_id = await _hand_over_watcher(connection, old, new, dialect)
    return Renamed(version=version, watermark=before["watermark"], old_asset_id=old_asset_id)


def _checked(old: str, new: str, before: RowMapping | None, there: RowMapping | None) -> RowMapping:
    """Return the position of `old`, if it may be moved to `new`. Raises `NotFound`, `Conflict`."""
    if before is None or before["state"] is None:
        raise NotFound(f"{old!r} has left no position to move; correct the name")
    if before["lives"]:
        raise Conflict(
            f"{old} is still being watched; stop the daemon that does, or take {old} out of its configuration"
        )
    if there is not None and there["state"] is not None:
        raise Conflict(f"{new} has a position already, and moving another over it would lose it; use another name")
    return before


async def _hand_over_watcher(connection: AsyncConnection, old: str, new: str, dialect: str) -> int | None:
    """Give the new name what people asked of the old one; return the old one's asset.

    The new name may not be in the mirror of the configuration yet.
    """
    w = watcher.c
    query = select(w.asset_id, w.trigger, *(w[name] for name in _ASKED)).where(w.name == old)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    entry = upsert(watcher, dialect).values({"name": new, "active": False, **row})
    changed = {name: row[name] for name in _ASKED}
    await connection.execute(entry.on_conflict_do_update(index_elements=["name"], set_=changed))
    return int(row["asset_id"])


async def resolve(connection: AsyncConnection, watcher: str, member: str) -> int:
    """Drop a list from the position's state, and return how long it was. Whoever holds the position reads it again."""
    p = watcher_position.c
    here = p.watcher == watcher
    text = await connection.scalar(select(p.state).where(here).with_for_update())
    state = json.loads(text or "{}")
    if not (dropped := state.pop(member, ())):
        return 0
    await connection.execute(update(watcher_position).where(here).values(version=p.version + 1, state=to_json(state)))
    return len(dropped)
