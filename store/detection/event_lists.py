"""Asset events as people, tools and jobs see them. Reads only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, Final, Self

from sqlalchemy import ColumnElement, Row, Select, and_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.asset_events import EventFields, NewEvent
from store.database.paging import PageRequest, ResultPage, begins, equal, like, newest, one_of, page, shaped
from store.database.schema import asset, asset_alias_event, asset_event, run
from store.errors import NotFound, no_asset, no_event
from store.keys import TaskInstanceKey

_a, _e = asset.c, asset_event.c
_SOURCE: Final = ("source_dag_id", "source_task_id", "source_run_id", "source_map_index")
EVENT_ORDERS: Final = {name: _e[name] for name in ("id", "timestamp", *_SOURCE)}


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """Conditions on events; None means all.

    `not_before` and `not_after` are inclusive, `after` and `before` are not.
    """

    asset_id: int | None = None
    alias_id: int | None = None
    source_dag_id: str | None = None
    source_task_id: str | None = None
    source_run_id: str | None = None
    source_map_index: int | None = None
    source_watcher: str | None = None
    trace_id: str | None = None
    name_pattern: str | None = None
    name_prefix: str | None = None
    not_before: datetime | None = None
    after: datetime | None = None
    not_after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class EventAsset:
    """An asset as jobs see it."""

    name: str
    uri: str
    group: str
    extra: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SourceRun:
    """Our run whose task made an event."""

    dag_id: str
    run_id: str
    data_interval_start: datetime | None
    data_interval_end: datetime | None


@dataclass(frozen=True, kw_only=True)
class StoredEvent(EventFields):
    """An event as it is stored and as the Execution API sends it.

    `source_*` objects are set if one of our jobs made it.
    """

    asset: EventAsset
    source_dag_run: SourceRun | None
    source_task_instance: TaskInstanceKey | None
    created_dagruns: Sequence[Mapping[str, Any]] = ()
    """Always empty: Airflow's client insists on it."""

    @classmethod
    def appended(cls, new: NewEvent, asset: EventAsset, event_id: int, timestamp: datetime) -> Self:
        """Return an event that no task of ours made, as `append` stored it."""
        given = {name: value for name, value in vars(new).items() if name in _FIELDS}
        return cls._of({**given, "id": event_id, "timestamp": timestamp}, asset)

    @classmethod
    def stored(
        cls,
        *,
        name: str,
        uri: str,
        group: str,
        asset_extra: str,
        made_by: int | None,
        data_interval_start: datetime | None,
        data_interval_end: datetime | None,
        **columns: Any,
    ) -> Self:
        """Return the event of a row of `with_assets`; `columns` are those of `EventFields`."""
        run_of, task = None, None
        dag_id, run_id, task_id = (columns[f"source_{name}_id"] for name in ("dag", "run", "task"))
        if made_by is not None and dag_id is not None and run_id is not None:
            run_of = SourceRun(
                dag_id=dag_id,
                run_id=run_id,
                data_interval_start=data_interval_start,
                data_interval_end=data_interval_end,
            )
            if task_id is not None:
                map_index = columns["source_map_index"]
                task = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
        asset = EventAsset(name=name, uri=uri, group=group, extra=json.loads(asset_extra))
        return cls._of(columns, asset, run_of, task)

    @classmethod
    def _of(
        cls,
        columns: Mapping[str, Any],
        asset: EventAsset,
        source_run: SourceRun | None = None,
        source_task: TaskInstanceKey | None = None,
    ) -> Self:
        around = {"asset": asset, "source_dag_run": source_run, "source_task_instance": source_task}
        return shaped({**columns, "extra": json.loads(columns["extra"]), **around}, cls)


_FIELDS: Final = tuple(field.name for field in fields(EventFields))


@cache
def with_assets() -> Select[Any]:
    """Select events with what `StoredEvent` needs: their assets, and our runs that made them."""
    shown = (column for column in _e if column.name in _FIELDS)
    of_asset = (_a.name, _a.uri, _a["group"], _a.extra.label("asset_extra"))
    of_run = (run.c.id.label("made_by"), run.c.data_interval_start, run.c.data_interval_end)
    source = and_(run.c.dag_id == _e.source_dag_id, run.c.run_id == _e.source_run_id)
    events = asset_event.join(asset, _a.id == _e.asset_id).outerjoin(run, source)
    return select(*shown, *of_asset, *of_run).select_from(events)


def _matching(which: EventFilter) -> Sequence[ColumnElement[bool]]:
    times = {ge: which.not_before, gt: which.after, le: which.not_after, lt: which.before}
    through = select(asset_alias_event.c.event_id).where(asset_alias_event.c.alias_id == which.alias_id)
    return [
        true() if which.alias_id is None else _e.id.in_(through),
        *(equal(_e[name], value) for name, value in vars(which).items() if name in _e),
        *(compare(_e.timestamp, time) for compare, time in times.items() if time is not None),
        like(_a.name, which.name_pattern),
        begins(_a.name, which.name_prefix),
    ]


async def listed(connection: AsyncConnection, which: EventFilter, window: PageRequest) -> ResultPage[StoredEvent]:
    """Return a part of the events.

    An index alone counts and skips a million of them, unless the filter asks for an asset's name.
    """
    conditions = _matching(which)
    names_matter = which.name_pattern is not None or which.name_prefix is not None
    numbered = None if names_matter else select(_e.id).where(*conditions)
    query = with_assets().where(*conditions)
    return await page(connection, query, window, EVENT_ORDERS, StoredEvent.stored, numbered=numbered)


async def latest(
    connection: AsyncConnection, which: EventFilter, *, limit: int, before: int | None = None
) -> Sequence[StoredEvent]:
    """Return the newest of these events with ids below `before`."""
    query = with_assets().where(*_matching(which))
    return await newest(connection, query, _e.id, StoredEvent.stored, limit=limit, before=before)


ASSET_OF_EVENT: Final = select(_a.id, _a.name, _a.uri, _a["group"], _a.extra, _a.active)
"""What `active_asset` checks."""


def active_asset(row: Row[*tuple[Any, ...]] | None, asset_id: int) -> EventAsset:
    """Return the asset that an event is posted to, from a row of `ASSET_OF_EVENT`. Raises `NotFound`."""
    if row is None:
        raise no_asset(asset_id)
    if not row.active:
        raise NotFound(f"the asset {row.name!r} is not active; configure it again to post its events")
    return EventAsset(name=row.name, uri=row.uri, group=row.group, extra=json.loads(row.extra))


async def get(connection: AsyncConnection, event_id: int) -> StoredEvent:
    """Return one event. Raises `NotFound`."""
    query = with_assets().where(_e.id == event_id)
    return await one_of(connection, query, StoredEvent.stored, no_event(event_id))
