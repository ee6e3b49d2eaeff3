"""The one transaction of a detection: position, working state, events, queue rows, watermark entry and its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Select, Text, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import Writer
from store.database.schema import asset, database_now, watcher
from store.detection import events, positions
from store.detection.events import NewEvent
from store.detection.positions import HeldPosition, NewPosition
from store.errors import PositionLost, no_asset
from store.state import statements
from store.state.attributed import AttributedEntries
from store.values import WATERMARK_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a watcher detected on its asset, and where that leaves it."""

    held: HeldPosition
    asset_id: int
    position: NewPosition
    writer: Writer
    events: Sequence[NewEvent] = ()

    @property
    def key(self) -> str:
        """Of the watermark's entry."""
        return self.held.watcher + WATERMARK_SUFFIX

    @property
    def place(self) -> dict[str, Any]:
        """Where the watermark's entry is."""
        return {"b_asset_id": self.asset_id, "b_key": self.key}

    @property
    def entry(self) -> dict[str, Any]:
        """The parameters of the watermark's entry."""
        content = {"b_value": self.position.watermark, "b_is_ref": False, "b_expected": None}
        return {**self.place, **content, **statements.attribution(self.writer)}


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The position as it is held now, and the jobs that got queue rows."""

    held: HeldPosition
    dag_ids: frozenset[str]


async def commit(connection: AsyncConnection, detections: Sequence[Detection]) -> Sequence[Committed | PositionLost]:
    """Write detections in the caller's transaction, and answer for each: of one that lost its position nothing is written."""
    one = _commit_postgresql if connection.dialect.name == "postgresql" else _commit_sqlite
    return [await one(connection, detection) for detection in detections]


async def keep(connection: AsyncConnection, held: HeldPosition, position: NewPosition) -> HeldPosition:
    """Write a newer working state and nothing else: no watermark, no history. Raises `PositionLost`."""
    moved = await connection.execute(_KEEP, positions.parameters(held, position))
    version = moved.scalar_one_or_none()
    if version is None:
        raise _lost(held)
    await positions.change_rows(connection, held.watcher, position.rows, connection.dialect.name)
    return replace(held, version=version)


def _lost(held: HeldPosition) -> PositionLost:
    return PositionLost(f"the position of {held.watcher} moved on without us; it is read again")


_ADVANCE: Final = positions.advance()
_KEEP: Final = positions.keep()
_SEE: Final = update(watcher).where(watcher.c.name == bindparam("b_watcher")).values(last_event_at=database_now())
_ENTRIES: Final = {dialect: AttributedEntries(dialect) for dialect in ("sqlite", "postgresql")}


async def _commit_sqlite(connection: AsyncConnection, detection: Detection) -> Committed | PositionLost:
    """One writer: nothing is locked, and each statement sees everything."""
    held = detection.held
    parameters = positions.parameters(held, detection.position)
    version = (await connection.execute(_ADVANCE, parameters)).scalar_one_or_none()
    if version is None:
        return _lost(held)
    await positions.change_rows(connection, held.watcher, detection.position.rows, "sqlite")
    appended = await events.append(connection, detection.events)
    await _ENTRIES["sqlite"].write(connection, detection.entry, detection.writer)
    if detection.events:
        await connection.execute(_SEE, {"b_watcher": held.watcher})
    return Committed(held=replace(held, version=version), dag_ids=appended.dag_ids)


async def _commit_postgresql(connection: AsyncConnection, detection: Detection) -> Committed | PositionLost:
    """Two statements, each a chain whose links wait for one another.

    The first locks in the order of all transactions (position, asset, key of the watermark) and stores the events; the
    second sees what these waits let through.
    """
    held = detection.held
    first = {**positions.parameters(held, detection.position), **events.parameters(detection.events)}
    row = (await connection.execute(_advance_and_append(), {**first, **detection.place})).one_or_none()
    if row is None:
        return _lost(held)
    if not row.waited:  # nothing was locked, so nothing was stored: the position must not move either
        raise no_asset(detection.asset_id)
    await positions.change_rows(connection, held.watcher, detection.position.rows, "postgresql")
    dag_ids: Sequence[str] = ()
    if row.ids:
        second = {**detection.entry, "b_watcher_name": held.watcher, "b_ids": row.ids}
        dag_ids = (await connection.execute(_queue_and_write(), second)).scalar_one() or ()
    else:
        await _ENTRIES["postgresql"].write(connection, detection.entry, detection.writer)
    return Committed(held=replace(held, version=row.version), dag_ids=frozenset(dag_ids))


@cache
def _advance_and_append() -> Select[Any]:
    moved = positions.advance().cte("moved")
    of_watcher = asset.c.id == bindparam("b_asset_id", type_=BigInteger())
    home = select(asset.c.id).join_from(moved, asset, of_watcher)
    locked_asset = home.with_for_update(read=True, key_share=True, of=asset).cte("locked_asset")
    lock = statements.key_lock(locked_asset.c.id, bindparam("b_key", type_=Text()))
    locked_key = select(lock.label("lock")).select_from(locked_asset).cte("locked_key")
    event = events.insertion(events.given(), after=locked_key).cte("event")
    ids = select(func.array_agg(event.c.id)).scalar_subquery()
    waited = select(func.count()).select_from(locked_key).scalar_subquery()
    return select(moved.c.version, ids.label("ids"), waited.label("waited")).select_from(moved)


@cache
def _queue_and_write() -> Select[Any]:
    """The edges are locked before the watcher's row, as a reload does."""
    queued = events.queue("postgresql").cte("queued")
    woken = select(func.array_agg(queued.c.dag_id.distinct()).label("dag_ids")).select_from(queued).cte("woken")
    entry = statements.write("postgresql", attributed=True).cte("entry")
    this = watcher.c.name == bindparam("b_watcher_name")
    after_edges = select(func.count()).select_from(woken).scalar_subquery() > 0
    seen = update(watcher).where(this, after_edges).values(last_event_at=database_now()).cte("seen")
    return select(woken.c.dag_ids).add_cte(entry, seen)
