"""What became of one item of a source: the events that name it, and their runs, queues and deletions. Reads only."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import all_of
from store.database.schema import asset, asset_event, audit, job, queued_event, rejected_item, run, run_asset_event
from store.detection.rejections import RejectedRow
from store.values import to_json

MOST_EVENTS: Final = 20
"""The newest events that an answer names."""
MOST_READ: Final = 20_000
"""The newest events without a sketch that are searched for an id."""
_e, _q, _r, _x = asset_event.c, queued_event.c, run_asset_event.c, rejected_item.c


@dataclass(frozen=True, kw_only=True)
class ItemName:
    """How the events of a watcher name an item, as its trigger says.

    `number` is the id of an item that events name within ranges, or the time in microseconds at which the content was
    written that a file has now; None: it is not known.
    """

    watcher: str
    asset_id: int
    name: Any
    in_ranges: bool = False
    number: int | None = None


@dataclass(frozen=True, kw_only=True)
class NamingEvent:
    """An event that names an item. `content` is what it says of a file; `is_rejected`: it names the item as rejected only."""

    id: int
    timestamp: datetime
    content: Mapping[str, Any] | None
    is_rejected: bool


@dataclass(frozen=True, kw_only=True)
class NamingEvents:
    """The newest events that name an item, newest first; `has_more`: older ones may name it too."""

    events: Sequence[NamingEvent]
    has_more: bool


async def events_naming(connection: AsyncConnection, item: ItemName) -> NamingEvents:
    """Return the newest events that name an item.

    For a number, an index alone finds the events that may hold it. A name that is not found so is searched in the text of
    all events of the watcher, which PostgreSQL does in parallel. An id is searched in the events without a sketch too, the
    newest `MOST_READ` of them.
    """
    of_asset = _e.asset_id == item.asset_id
    naming: Sequence[NamingEvent] = ()
    has_more = False
    if item.number is not None:
        within = of_asset, _e.sketch_high >= item.number, _e.sketch_low <= item.number
        naming = await _naming_among(connection, item, select(_e.id).where(*within))
    if item.in_ranges:
        some = select(_e.id).where(of_asset, _e.sketch_high.is_(None)).order_by(_e.id.desc()).limit(MOST_READ)
        naming = [*naming, *await _naming_among(connection, item, some)]
        has_more = (await connection.execute(some.limit(1).offset(MOST_READ))).first() is not None
    elif not naming:
        mine = of_asset, _e.source_watcher == item.watcher, _contains(connection, item.name)
        naming = await _naming_among(connection, item, select(_e.id).where(*mine))
    newest = sorted(naming, key=lambda event: event.id, reverse=True)
    return NamingEvents(events=newest[:MOST_EVENTS], has_more=has_more or len(newest) > MOST_EVENTS)


def _contains(connection: AsyncConnection, name: Any) -> ColumnElement[bool]:
    """Return the condition that an event's text has the name: other items may have it within theirs."""
    position = func.strpos if connection.dialect.name == "postgresql" else func.instr
    return position(_e.extra, cast(to_json(name), Text)) > 0


async def _naming_among(connection: AsyncConnection, item: ItemName, ids: Select[Any]) -> Sequence[NamingEvent]:
    """Return the newest of these events that name the item, at most one more than an answer names.

    The ids are read first: in one statement the planner, which cannot know how few they are, reads the whole table again.
    """
    candidates = sorted((await connection.execute(ids)).scalars(), reverse=True)
    contains = true() if item.in_ranges else _contains(connection, item.name)
    naming: list[NamingEvent] = []
    for some in chunks(candidates):
        query = select(_e.id, _e.timestamp, _e.extra).where(
            _e.id.in_(some), _e.source_watcher == item.watcher, contains
        )
        rows = (await connection.execute(query.order_by(_e.id.desc()))).all()
        naming += [event for row in rows if (event := _naming(row, item)) is not None]
        if len(naming) > MOST_EVENTS:
            break
    return naming


def _naming(row: Any, item: ItemName) -> NamingEvent | None:
    """Return the event if it names the item."""
    extra, name = json.loads(row.extra), item.name
    is_rejected = name in extra.get("rejected", ())
    content = None
    if item.in_ranges:
        is_named = any(low <= name <= high for low, high in extra.get("ranges", ()))
    else:
        files = [file for file in extra.get("files", ()) if isinstance(file, Mapping)]
        content = next((file for file in files if name in (file.get("key"), file.get("path"))), None)
        is_named = content is not None or name in extra.get("keys", ())
    if not is_named and not is_rejected:
        return None
    return NamingEvent(id=row.id, timestamp=row.timestamp, content=content, is_rejected=not is_named)


@dataclass(frozen=True, kw_only=True)
class ConsumedBy:
    """A run among whose events an event is. `state` is `deleted` for a run that a person deleted."""

    event_id: int
    dag_id: str
    run_id: str
    state: str
    reason: str | None
    warning: str | None
    bad_records: int | None
    end_date: datetime | None


async def runs_of(connection: AsyncConnection, event_ids: Collection[int]) -> Sequence[ConsumedBy]:
    """Return the runs that have these events, oldest first, deleted ones among them."""
    r = run.c
    columns = (_r.event_id, _r.dag_id, _r.run_id, r.state, r.reason, r.warning, r.bad_records, r.end_date)
    joined = run_asset_event.join(run, and_(r.dag_id == _r.dag_id, r.run_id == _r.run_id))
    query = select(*columns).select_from(joined).where(_r.event_id.in_(event_ids)).order_by(r.id)
    return await all_of(connection, query, ConsumedBy)


async def queues_of(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, Sequence[str]]:
    """Return the jobs in whose queues these events wait, by event."""
    rows = await connection.execute(
        select(_q.event_id, _q.dag_id).where(_q.event_id.in_(event_ids)).order_by(_q.dag_id)
    )
    jobs: dict[int, list[str]] = {}
    for row in rows:
        jobs.setdefault(row.event_id, []).append(row.dag_id)
    return jobs


@dataclass(frozen=True, kw_only=True)
class QueueDeletion:
    """A person took events off queues: `target` is a job or an asset."""

    at: datetime
    actor: str
    target: str


async def deletions_after(
    connection: AsyncConnection, asset_id: int, dag_ids: Collection[str], after: datetime
) -> Sequence[QueueDeletion]:
    """Return who took events of an asset off the queues of these jobs, oldest first, at or after a moment."""
    a = audit.c
    targets = or_(a.target == f"asset {asset_id}", a.target.in_(dag_ids))
    query = select(a.at, a.actor, a.target, a.detail).where(a.action == "queued_events.delete", a.at >= after, targets)
    return [
        QueueDeletion(at=row.at, actor=row.actor, target=row.target)
        for row in await connection.execute(query.order_by(a.id))
        if json.loads(row.detail).get("asset_id") in (None, asset_id)
    ]


async def rejections_of(connection: AsyncConnection, watcher: str, name: Any) -> Sequence[RejectedRow]:
    """Return an item among those that a watcher rejects now: each of its contents, newest first. None is no item's name."""
    if name is None:
        return ()
    columns = (_x.key, _x.version, _x.column_name, _x.code, _x.reason, _x.rejected_at, _x.retry_at)
    query = select(*columns).where(_x.watcher == watcher, _x.key == to_json(name)).order_by(_x.rejected_at.desc())
    return await all_of(connection, query, RejectedRow)


@dataclass(frozen=True, kw_only=True)
class OutletOfRun:
    """An event that a run made on one of its outlets: what it says it wrote, and where."""

    dag_id: str
    run_id: str
    uri: str
    extra: Mapping[str, Any]


async def outlets_of(connection: AsyncConnection, runs: Collection[tuple[str, str]]) -> Sequence[OutletOfRun]:
    """Return the outlet events of these runs (job and run id), newest first."""
    a = asset.c
    query = select(_e.source_dag_id, _e.source_run_id, a.uri, _e.extra).join(asset, a.id == _e.asset_id)
    these = tuple_(_e.source_dag_id, _e.source_run_id).in_(runs)
    rows = await connection.execute(query.where(these).order_by(_e.id.desc())) if runs else ()
    return [
        OutletOfRun(dag_id=row.source_dag_id, run_id=row.source_run_id, uri=row.uri, extra=json.loads(row.extra))
        for row in rows
    ]


async def begun_at(connection: AsyncConnection, asset_id: int) -> datetime:
    """Return when an asset was configured first: no watcher of it reported anything earlier."""
    moment: datetime = (await connection.execute(select(asset.c.created_at).where(asset.c.id == asset_id))).scalar_one()
    return moment


async def targets_of(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, str]:
    """Return the option `target` of these jobs as configured now, of those that have one."""
    query = select(job.c.dag_id, job.c.definition).where(job.c.dag_id.in_(dag_ids))
    targets = {row.dag_id: row.definition.options.get("target") for row in await connection.execute(query)}
    return {dag_id: target for dag_id, target in targets.items() if isinstance(target, str)}
