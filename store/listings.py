"""What people and tools look at: assets, their store entries with history, and events. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, Select, Subquery, and_, func, literal, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import chunks
from store.errors import NotFound
from store.filters import Page, Rows, Window, begins, like, page, row_of, rows_of
from store.schema import (
    asset,
    asset_alias_event,
    asset_event,
    asset_store,
    asset_store_history,
    job,
    job_inlet,
    job_outlet,
    job_schedule_asset,
    run,
    run_asset_event,
    watcher,
)

_a, _e, _h, _s = asset.c, asset_event.c, asset_store_history.c, asset_store.c

# --- assets ---------------------------------------------------------------------------------------------------------

ASSET_ORDERS: Final = {
    "id": _a.id,
    "name": _a.name,
    "uri": _a.uri,
    "created_at": _a.created_at,
    "updated_at": _a.updated_at,
}


@dataclass(frozen=True, kw_only=True)
class AssetFilter:
    """Which assets; None means all. `dag_ids` are jobs that are scheduled on the asset, read it, or update it."""

    name_pattern: str | None = None
    name_prefix: str | None = None
    uri_pattern: str | None = None
    uri_prefix: str | None = None
    dag_ids: Sequence[str] = ()
    only_active: bool = True


def _assets() -> Select[Any]:
    newest = select(func.max(_e.id)).where(_e.asset_id == _a.id).scalar_subquery()
    last = asset_event.alias("last_event")
    of_last = (last.c.id.label("last_event_id"), last.c.timestamp.label("last_event_at"))
    return select(asset, *of_last).select_from(asset).outerjoin(last, last.c.id == newest)


async def assets(session: AsyncSession, which: AssetFilter, window: Window) -> Page:
    """Assets, each with `last_event_id` and `last_event_at`."""
    wanted = _assets().where(
        like(_a.name, which.name_pattern),
        begins(_a.name, which.name_prefix),
        like(_a.uri, which.uri_pattern),
        begins(_a.uri, which.uri_prefix),
    )
    if which.only_active:
        wanted = wanted.where(_a.active)
    if which.dag_ids:
        edge = _edges().c
        wanted = wanted.where(_a.id.in_(select(edge.asset_id).where(edge.dag_id.in_(which.dag_ids))))
    return await page(session, wanted, window, ASSET_ORDERS)


async def asset_by(
    session: AsyncSession, *, asset_id: int | None = None, name: str | None = None, uri: str | None = None
) -> RowMapping:
    """One asset, like in `assets`, by all that is given. Raises `NotFound`."""
    given = {_a.id: asset_id, _a.name: name, _a.uri: uri}
    wanted = _assets().where(*(column == value for column, value in given.items() if value is not None))
    row = await row_of(session, wanted)
    if row is None:
        raise NotFound(f"no asset {name or uri or asset_id!r}; `watcher assets list` shows the ones there are")
    return row


async def asset_jobs(session: AsyncSession, asset_ids: Collection[int]) -> Rows:
    """The configured jobs around assets: `asset_id`, `role` (schedule, inlet, outlet), and the job."""
    edge = _edges().c
    wanted = select(edge.asset_id, edge.role, job).join(job, job.c.dag_id == edge.dag_id)
    return await rows_of(session, wanted.where(edge.asset_id.in_(asset_ids), job.c.active).order_by(job.c.dag_id))


async def job_assets(session: AsyncSession, dag_id: str) -> Rows:
    """The active assets around a job: `role` (schedule, inlet, outlet), `id`, `name`, `uri`."""
    edge = _edges().c
    wanted = select(edge.role, _a.id, _a.name, _a.uri).join(asset, _a.id == edge.asset_id)
    return await rows_of(session, wanted.where(edge.dag_id == dag_id, _a.active).order_by(_a.name))


def _edges() -> Subquery:
    tables = {"schedule": job_schedule_asset, "inlet": job_inlet, "outlet": job_outlet}
    each = [select(edge.c.dag_id, edge.c.asset_id, literal(role).label("role")) for role, edge in tables.items()]
    return union_all(*each).subquery("edge")


async def asset_watchers(session: AsyncSession, asset_ids: Collection[int]) -> Rows:
    """The configured watchers of assets: `asset_id`, `name`."""
    wanted = select(watcher.c.asset_id, watcher.c.name).where(watcher.c.asset_id.in_(asset_ids), watcher.c.active)
    return await rows_of(session, wanted.order_by(watcher.c.name))


# --- the asset store -------------------------------------------------------------------------------------------------


def _entries(asset_id: int) -> Select[Any]:
    this_write = and_(_h.asset_id == _s.asset_id, _h.key == _s.key, _h.version == _s.version)
    return (
        select(asset_store, _h.try_number.label("last_updated_by_try_number"))
        .select_from(asset_store)
        .outerjoin(asset_store_history, this_write)
        .where(_s.asset_id == asset_id)
    )


async def entries(session: AsyncSession, asset_id: int, window: Window, only: Collection[str] | None = None) -> Page:
    """An asset's entries by key, each with the writer's `last_updated_by_try_number`; None means all."""
    wanted = _entries(asset_id) if only is None else _entries(asset_id).where(_s.key.in_(only))
    return await page(session, wanted, window, {"key": _s.key})


async def entry(session: AsyncSession, asset_id: int, key: str) -> RowMapping:
    """One entry. Raises `NotFound`."""
    row = await row_of(session, _entries(asset_id).where(_s.key == key))
    if row is None:
        raise NotFound(f"the asset's store has no key {key!r}")
    return row


async def keys(session: AsyncSession, asset_id: int) -> Sequence[str]:
    """The keys of an asset's entries, in order."""
    return (await session.execute(select(_s.key).where(_s.asset_id == asset_id).order_by(_s.key))).scalars().all()


async def references(session: AsyncSession, asset_id: int) -> Mapping[str, str]:
    """Keys and stored references of the entries whose values are elsewhere."""
    found = await session.execute(select(_s.key, _s.value).where(_s.asset_id == asset_id, _s.is_ref).order_by(_s.key))
    return {row.key: row.value for row in found}


async def history(session: AsyncSession, asset_id: int, key: str | None, window: Window) -> Page:
    """Every write and delete of an asset's entries, or of one of them, newest first."""
    wanted = select(asset_store_history).where(_h.asset_id == asset_id)
    if key is not None:
        wanted = wanted.where(_h.key == key)
    newest_first = Window(limit=window.limit, offset=window.offset, order_by=("-written_at", "-version"))
    return await page(
        session, wanted, newest_first, {"key": _h.key, "written_at": _h.written_at, "version": _h.version}
    )


async def writes(session: AsyncSession, write_ids: Collection[str]) -> Rows:
    """The history rows that these writes left, with `asset`, its name."""
    wanted = (
        select(asset_store_history, _a.name.label("asset"))
        .select_from(asset_store_history)
        .join(asset)
        .where(_h.write_id.in_(write_ids))
        .order_by(_h.key)
    )
    return await rows_of(session, wanted)


# --- events ----------------------------------------------------------------------------------------------------------

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


def _events() -> Select[Any]:
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


async def events(session: AsyncSession, which: EventFilter, window: Window) -> Page:
    """Events, each with its asset's `name`, `uri`, `group` and `asset_extra`."""
    return await page(session, _events().where(*_matching(which)), window, EVENT_ORDERS)


async def event(session: AsyncSession, event_id: int) -> RowMapping:
    """One event, like in `events`. Raises `NotFound`."""
    row = await row_of(session, _events().where(_e.id == event_id))
    if row is None:
        raise NotFound(f"no event {event_id}")
    return row


async def events_of_run(session: AsyncSession, dag_id: str, run_id: str) -> Rows:
    """The events that a run consumes, oldest first."""
    r = run_asset_event.c
    consumed = _events().join(run_asset_event, r.event_id == _e.id).where(r.dag_id == dag_id, r.run_id == run_id)
    return await rows_of(session, consumed.order_by(_e.id))


async def source_runs(session: AsyncSession, event_ids: Sequence[int]) -> Mapping[int, RowMapping]:
    """By event id, the runs of ours whose tasks made the events."""
    source = and_(run.c.dag_id == _e.source_dag_id, run.c.run_id == _e.source_run_id)
    found: dict[int, RowMapping] = {}
    for some in chunks(event_ids):
        wanted = select(_e.id.label("event_id"), run).select_from(asset_event).join(run, source).where(_e.id.in_(some))
        found |= {row["event_id"]: row for row in await rows_of(session, wanted)}
    return found


async def runs_of_events(session: AsyncSession, event_ids: Collection[int]) -> Rows:
    """The runs that consumed events: `event_id`, `triggering` (this event completed the condition), and the run."""
    r = run_asset_event.c
    wanted = (
        select(r.event_id, r.completed.label("triggering"), run)
        .select_from(run_asset_event)
        .join(run, and_(run.c.dag_id == r.dag_id, run.c.run_id == r.run_id))
        .where(r.event_id.in_(event_ids))
    )
    return await rows_of(session, wanted.order_by(run.c.id))
