"""Finds the events of a watcher that name an item: by their sketches where they have some, else by their text. Reads only."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, ColumnElement, Text, and_, cast, column, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, is_one_of
from store.database.schema import asset_event
from store.detection.sketched_events import has_bits
from store.detection.sketches import microseconds
from store.features.explain.item_sketches import HAS_NONE
from store.values import to_json

MOST_EVENTS: Final = 20
"""The newest events that an answer names."""
_MOST_CANDIDATES: Final = 20_000
"""The most events that are read one by one; the text of more is searched by the database, which PostgreSQL does in parallel."""
_e = asset_event.c
_IS_LARGE: Final = and_(_e.sketch_high.is_not(None), _e.sketch_bits.is_(None))


@dataclass(frozen=True, kw_only=True)
class ItemName:
    """How the events of a watcher, which are of these assets, name an item, as its trigger says.

    `number` is the id of an item that events name within ranges, or the time in microseconds at which the content was
    written that a file has now; None: it is not known.
    """

    watcher: str
    asset_ids: Collection[int]
    name: Any
    in_ranges: bool = False
    number: int | None = None


@dataclass(frozen=True, kw_only=True)
class NamingEvent:
    """An event that names an item. `content` is what it says of a file; `is_rejected`: it names the item as rejected only.

    The file has the number `place`, from 0, of the event's `files` ones.
    """

    id: int
    asset_id: int
    timestamp: datetime
    content: Mapping[str, Any] | None
    is_rejected: bool
    place: int = 0
    files: int = 0


@dataclass(frozen=True, kw_only=True)
class NamingEvents:
    """The newest events that name an item, newest first; `has_more`: older ones name it too."""

    events: Sequence[NamingEvent]
    has_more: bool


async def events_naming(connection: AsyncConnection, item: ItemName) -> NamingEvents:
    """Return the newest events that name an item.

    Large events of files have only times: they are searched by the time of the item's content, and if no event names this
    content, all of them.
    """
    number = literal(item.number, BigInteger)
    within = and_(_e.sketch_high >= number, _e.sketch_low <= number)
    if item.in_ranges:
        naming = [*await _naming(connection, item, within), *await _naming(connection, item, HAS_NONE)]
    else:
        naming = [*await _naming(connection, item, has_bits(item.name))]
        if item.number is not None:
            naming += await _naming(connection, item, and_(_IS_LARGE, within))
        if not any(_names_content(event, item.number) for event in naming):
            earlier = {event.id for event in naming}
            rest = [*await _naming(connection, item, _IS_LARGE), *await _naming(connection, item, HAS_NONE)]
            naming += [event for event in rest if event.id not in earlier]
    newest = sorted(naming, key=lambda event: event.id, reverse=True)
    return NamingEvents(events=newest[:MOST_EVENTS], has_more=len(newest) > MOST_EVENTS)


def _names_content(event: NamingEvent, number: int | None) -> bool:
    """Return whether an event names the content of a file that was written at `number`."""
    written = None if number is None or event.content is None else event.content.get("last_modified")
    return isinstance(written, str) and microseconds(written) == number


async def _naming(connection: AsyncConnection, item: ItemName, candidate: ColumnElement[bool]) -> Sequence[NamingEvent]:
    """Return the newest events among the candidates that name the item, at most one more than an answer names.

    Their ids are read first, from the index alone: in one statement the planner, which cannot know how few they are, reads
    the whole table.
    """
    condition = and_(_e.asset_id.in_(item.asset_ids), candidate)
    ids = (await connection.execute(select(_e.id).where(condition).limit(_MOST_CANDIDATES + 1))).scalars().all()
    if len(ids) > _MOST_CANDIDATES:
        mine = condition, _e.source_watcher == item.watcher, _has_in_text(connection.dialect.name, item)
        ids = (await connection.execute(select(_e.id).where(*mine))).scalars().all()
    naming: list[NamingEvent] = []
    for some in chunks(sorted(ids, reverse=True)):
        query = select(_e.id, _e.asset_id, _e.timestamp, _e.extra).where(
            is_one_of(_e.id, some, connection.dialect.name), _e.source_watcher == item.watcher
        )
        if not item.in_ranges:
            query = query.where(_has_in_text(connection.dialect.name, item))
        rows = (await connection.execute(query.order_by(_e.id.desc()))).all()
        naming += [event for row in rows if (event := _event_naming(row, item)) is not None]
        if len(naming) > MOST_EVENTS:
            break
    return naming


def _has_in_text(dialect: str, item: ItemName) -> ColumnElement[bool]:
    """Return the condition that an event's text has the name (which others may have within theirs), or a range with the id."""
    if not item.in_ranges:
        position = func.strpos if dialect == "postgresql" else func.instr
        return position(_e.extra, cast(to_json(item.name), Text)) > 0
    limits: Sequence[ColumnElement[int]]
    if dialect == "postgresql":
        ranges = func.json_array_elements(cast(_e.extra, JSON)["ranges"]).table_valued(column("value", JSON))
        limits = [cast(ranges.c.value[place].as_string(), BigInteger) for place in (0, 1)]
    else:
        ranges = func.json_each(_e.extra, "$.ranges").table_valued("value")
        limits = [func.json_extract(ranges.c.value, f"$[{place}]") for place in (0, 1)]
    return exists().select_from(ranges).where(limits[0] <= item.name, limits[1] >= item.name)


def _event_naming(row: Any, item: ItemName) -> NamingEvent | None:
    """Return the event if it names the item."""
    extra, name = json.loads(row.extra), item.name
    content, place, files = None, 0, list[Mapping[str, Any]]()
    if item.in_ranges:
        is_named = any(low <= name <= high for low, high in extra.get("ranges", ()))
    else:
        files = [file for file in extra.get("files", ()) if isinstance(file, Mapping)]
        named = (each for each in enumerate(files) if name in (each[1].get("key"), each[1].get("path")))
        place, content = next(named, (0, None))
        is_named = content is not None or any(name in extra.get(member, ()) for member in ("keys", "deleted"))
    if not is_named and name not in extra.get("rejected", ()):
        return None
    return NamingEvent(
        id=row.id,
        asset_id=row.asset_id,
        timestamp=row.timestamp,
        content=content,
        is_rejected=not is_named,
        place=place,
        files=len(files),
    )
