"""Asset events, and the queue rows that come with them in the same transaction.

An event is owed to every job scheduled on its asset, and to every job scheduled on an alias that had resolved to its
asset before: see `store.catalog.aliases` for what "before" means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, Select, insert, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import Page, Window, begins, like, page, row_of
from store.database.schema import (
    asset,
    asset_alias_asset,
    asset_alias_event,
    asset_event,
    database_now,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
)
from store.errors import NotFound

_a, _e = asset.c, asset_event.c


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event to be: `extra` is a JSON object's text; the source is a watcher, a task, or an actor of the API."""

    asset_id: int
    extra: str
    trace_id: str
    event_id: str | None = None
    source_watcher: str | None = None
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int = -1
    source_actor: str | None = None


async def append(connection: AsyncConnection, events: Sequence[NewEvent]) -> Sequence[int]:
    """Store events in the order given, with a queue row for every job they are owed to; returns their ids."""
    if not events:
        return []
    new = insert(asset_event).values(timestamp=database_now()).returning(asset_event.c.id, sort_by_parameter_order=True)
    ids: Sequence[int] = (await connection.execute(new, [vars(event) for event in events])).scalars().all()
    for some in chunks(ids):
        owed = _by_asset(some).union(_by_alias(some))
        await connection.execute(
            insert(queued_event).from_select(["dag_id", "event_id", "asset_id", "created_at"], owed)
        )
    return ids


def _by_asset(event_ids: Sequence[int]) -> Select[Any]:
    e, s = asset_event.c, job_schedule_asset.c
    owed = (
        select(s.dag_id, e.id, e.asset_id, e.timestamp)
        .join_from(asset_event, job_schedule_asset, s.asset_id == e.asset_id)
        .where(e.id.in_(event_ids))
        .order_by(s.dag_id, s.asset_id)
        # A reload that takes an edge away waits for us and then finds our rows, or we find the edge gone.
        .with_for_update(read=True, key_share=True, of=job_schedule_asset)
    )
    return select(owed.subquery())  # PostgreSQL locks no rows of a UNION, but those of its subqueries


def _by_alias(event_ids: Sequence[int]) -> Select[Any]:
    e, s, r = asset_event.c, job_schedule_alias.c, asset_alias_asset.c
    owed = (
        select(s.dag_id, e.id, e.asset_id, e.timestamp)
        .join_from(asset_event, asset_alias_asset, r.asset_id == e.asset_id)
        .join(job_schedule_alias, s.alias_id == r.alias_id)
        .where(e.id.in_(event_ids))
        .order_by(s.dag_id, s.alias_id)
        .with_for_update(read=True, key_share=True, of=job_schedule_alias)
    )
    return select(owed.subquery())


EVENT_ORDERS: Final = {
    "id": _e.id,
    "timestamp": _e.timestamp,
    "source_dag_id": _e.source_dag_id,
    "source_task_id": _e.source_task_id,
    "source_run_id": _e.source_run_id,
    "source_map_index": _e.source_map_index,
}


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """Which events; None means all. `not_before` and `not_after` are inclusive, `after` and `before` are not."""

    asset_id: int | None = None
    alias_id: int | None = None
    source_dag_id: str | None = None
    source_task_id: str | None = None
    source_run_id: str | None = None
    source_map_index: int | None = None
    source_watcher: str | None = None
    name_pattern: str | None = None
    name_prefix: str | None = None
    not_before: datetime | None = None
    after: datetime | None = None
    not_after: datetime | None = None
    before: datetime | None = None


def with_assets() -> Select[Any]:
    named = (_a.name, _a.uri, _a["group"], _a.extra.label("asset_extra"))
    return select(asset_event, *named).select_from(asset_event).join(asset, _a.id == _e.asset_id)


def _matching(which: EventFilter) -> Sequence[ColumnElement[bool]]:
    equal = {
        _e.asset_id: which.asset_id,
        _e.source_dag_id: which.source_dag_id,
        _e.source_task_id: which.source_task_id,
        _e.source_run_id: which.source_run_id,
        _e.source_map_index: which.source_map_index,
        _e.source_watcher: which.source_watcher,
    }
    times = (
        None if which.not_before is None else _e.timestamp >= which.not_before,
        None if which.after is None else _e.timestamp > which.after,
        None if which.not_after is None else _e.timestamp <= which.not_after,
        None if which.before is None else _e.timestamp < which.before,
    )
    through = select(asset_alias_event.c.event_id).where(asset_alias_event.c.alias_id == which.alias_id)
    return [
        true() if which.alias_id is None else _e.id.in_(through),
        *(column == value for column, value in equal.items() if value is not None),
        *(condition for condition in times if condition is not None),
        like(_a.name, which.name_pattern),
        begins(_a.name, which.name_prefix),
    ]


async def events(connection: AsyncConnection, which: EventFilter, window: Window) -> Page:
    """Events, each with its asset's `name`, `uri`, `group` and `asset_extra`."""
    return await page(connection, with_assets().where(*_matching(which)), window, EVENT_ORDERS)


async def event(connection: AsyncConnection, event_id: int) -> RowMapping:
    """One event, like in `events`. Raises `NotFound`."""
    row = await row_of(connection, with_assets().where(_e.id == event_id))
    if row is None:
        raise NotFound(f"no event {event_id}")
    return row
