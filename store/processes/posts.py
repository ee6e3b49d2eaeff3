"""Events that people and tools post, each with its entry in the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias

from sqlalchemy import Row, Select, and_, func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import configuration_lock
from store.database.asset_events import NewEvent
from store.database.schema import asset, asset_event, database_now
from store.database.schema import audit as audit_table
from store.detection import event_lists, events
from store.detection.event_lists import StoredEvent
from store.detection.events import AppendedEvents, EventRow
from store.detection.interest import EventHooks, EventOrigin
from store.errors import NotFound
from store.processes import audit

_ACTION: Final = "asset_event.create"


@dataclass(frozen=True, kw_only=True)
class EventPost:
    """An event of `source_actor` with its own `trace_id`; `write_id` leads from the audit to the log lines about it."""

    new: NewEvent
    write_id: str


async def store_all(
    connection: AsyncConnection, posts: Sequence[EventPost], hooks: EventHooks
) -> tuple[AppendedEvents, Sequence[StoredEvent | NotFound]]:
    """Store the events of active assets in order, with queue rows and audit, and answer each post. `hooks` take part in it."""
    store = _store_postgresql if connection.dialect.name == "postgresql" else _store_sqlite
    appended, stored, rows = await store(connection, posts, hooks)
    assets = {row.id: row for row in rows}
    return appended, [_answer(post.new, assets.get(post.new.asset_id), stored) for post in posts]


_Stored: TypeAlias = Mapping[str, tuple[int, datetime]]
"""Ids and times of the stored events, by trace."""


async def _store_postgresql(
    connection: AsyncConnection, posts: Sequence[EventPost], hooks: EventHooks
) -> tuple[AppendedEvents, _Stored, Sequence[Row[*tuple[Any, ...]]]]:
    given = {**events.parameters([post.new for post in posts]), "new_write_id": [post.write_id for post in posts]}
    rows = (await connection.execute(_storing_and_recording(), given)).all()
    new = {row.trace_id: EventRow(row.event_id, row.timestamp, row.id) for row in rows if row.event_id is not None}
    appended = await events.queue_all(connection, [*new.values()], {}, origin=EventOrigin.POST, hooks=hooks)
    return appended, {trace_id: (row.id, row.timestamp) for trace_id, row in new.items()}, rows


async def _store_sqlite(
    connection: AsyncConnection, posts: Sequence[EventPost], hooks: EventHooks
) -> tuple[AppendedEvents, _Stored, Sequence[Row[*tuple[Any, ...]]]]:
    ids = {post.new.asset_id for post in posts}
    rows = (await connection.execute(event_lists.ASSET_OF_EVENT.where(asset.c.id.in_(ids)))).all()
    names = {row.id: row.name for row in rows if row.active}
    accepted = [post for post in posts if post.new.asset_id in names]
    new = [post.new for post in accepted]
    appended = await events.append(connection, new, origin=EventOrigin.POST, hooks=hooks)
    stored = {post.new.trace_id: row for post, row in zip(accepted, appended.rows, strict=True)}
    await audit.record_all(connection, [_entry(post, names, stored) for post in accepted])
    return appended, stored, rows


def _entry(post: EventPost, names: Mapping[int, str], stored: _Stored) -> Mapping[str, Any]:
    detail = {"event_id": stored[post.new.trace_id][0], "trace_id": post.new.trace_id}
    return audit.entry(post.new.source_actor or "", _ACTION, names[post.new.asset_id], detail, post.write_id)


def _answer(new: NewEvent, asset_row: Row[*tuple[Any, ...]] | None, stored: _Stored) -> StoredEvent | NotFound:
    try:
        posted = event_lists.active_asset(asset_row, new.asset_id)
    except NotFound as refusal:
        return refusal
    return StoredEvent.appended(new, posted, *stored[new.trace_id])


@cache
def _storing_and_recording() -> Select[Any]:
    """Return PostgreSQL's statement for events and audit entries.

    It returns the assets, each as often as it has an event now, or once.
    """
    new = events.given(write_id=audit_table.c.write_id.type)
    posted = event_lists.ASSET_OF_EVENT.where(asset.c.id.in_(select(new.c.asset_id))).cte("posted_asset")
    is_active = new.c.asset_id.in_(select(posted.c.id).where(posted.c.active))
    insertion = events.insertion(new, only=and_(configuration_lock.shared(), is_active))
    event = insertion.returning(asset_event.c.trace_id).cte("event")
    entry = {
        "actor": new.c.source_actor,
        "action": literal(_ACTION),
        "target": posted.c.name,
        "write_id": new.c.write_id,
        "detail": func.concat('{"event_id": ', event.c.id, ', "trace_id": "', event.c.trace_id, '"}'),
        "at": database_now(),
    }
    of_event = event.join(new, new.c.trace_id == event.c.trace_id).join(posted, posted.c.id == event.c.asset_id)
    entries = select(*entry.values()).select_from(of_event).order_by(event.c.id)
    recorded = insert(audit_table).from_select(list(entry), entries).cte("recorded")
    made = (event.c.id.label("event_id"), event.c.timestamp, event.c.trace_id)
    answers = posted.outerjoin(event, event.c.asset_id == posted.c.id)
    return select(posted, *made).select_from(answers).add_cte(recorded)
