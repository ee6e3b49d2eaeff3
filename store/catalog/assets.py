"""Assets with what is around them: jobs, watchers, their last event, where their watermarks are. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    RowMapping,
    Select,
    Subquery,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope
from store.database.paging import Page, Rows, Window, begins, like, page, row_of, rows_of
from store.database.schema import (
    asset,
    asset_event,
    job,
    job_inlet,
    job_outlet,
    job_schedule_asset,
    watcher,
)
from store.errors import NotFound
from store.values import WATERMARK_SUFFIX

_a, _e = asset.c, asset_event.c


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


async def assets(connection: AsyncConnection, which: AssetFilter, window: Window) -> Page:
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
    return await page(connection, wanted, window, ASSET_ORDERS)


async def asset_by(
    connection: AsyncConnection, *, asset_id: int | None = None, name: str | None = None, uri: str | None = None
) -> RowMapping:
    """One asset, like in `assets`, by all that is given. Raises `NotFound`."""
    given = {_a.id: asset_id, _a.name: name, _a.uri: uri}
    wanted = _assets().where(*(column == value for column, value in given.items() if value is not None))
    row = await row_of(connection, wanted)
    if row is None:
        raise NotFound(f"no asset {name or uri or asset_id!r}; `watcher assets list` shows the ones there are")
    return row


async def asset_jobs(connection: AsyncConnection, asset_ids: Collection[int]) -> Rows:
    """The configured jobs around assets: `asset_id`, `role` (schedule, inlet, outlet), and the job."""
    edge = _edges().c
    wanted = select(edge.asset_id, edge.role, job).join(job, job.c.dag_id == edge.dag_id)
    return await rows_of(connection, wanted.where(edge.asset_id.in_(asset_ids), job.c.active).order_by(job.c.dag_id))


async def job_assets(connection: AsyncConnection, dag_id: str) -> Rows:
    """The active assets around a job: `role` (schedule, inlet, outlet), `id`, `name`, `uri`."""
    edge = _edges().c
    wanted = select(edge.role, _a.id, _a.name, _a.uri).join(asset, _a.id == edge.asset_id)
    return await rows_of(connection, wanted.where(edge.dag_id == dag_id, _a.active).order_by(_a.name))


def _edges() -> Subquery:
    tables = {"schedule": job_schedule_asset, "inlet": job_inlet, "outlet": job_outlet}
    each = [select(edge.c.dag_id, edge.c.asset_id, literal(role).label("role")) for role, edge in tables.items()]
    return union_all(*each).subquery("edge")


async def asset_watchers(connection: AsyncConnection, asset_ids: Collection[int]) -> Rows:
    """The configured watchers of assets: `asset_id`, `name`."""
    wanted = select(watcher.c.asset_id, watcher.c.name).where(watcher.c.asset_id.in_(asset_ids), watcher.c.active)
    return await rows_of(connection, wanted.order_by(watcher.c.name))


async def watermark_keys(connection: AsyncConnection, asset_id: int) -> frozenset[str]:
    """The keys of an asset's entries that only its configured watchers write."""
    result = await connection.execute(select(watcher.c.name).where(watcher.c.active, watcher.c.asset_id == asset_id))
    return frozenset(name + WATERMARK_SUFFIX for name in result.scalars())


async def scope_of(connection: AsyncConnection, asset_id: int) -> AssetScope:
    """The asset under all its names, as backends are given it. Raises `NotFound`."""
    found = await connection.execute(select(asset.c.id, asset.c.name, asset.c.uri).where(asset.c.id == asset_id))
    row = found.one_or_none()
    if row is None:
        raise NotFound(f"no asset {asset_id}; `watcher assets list` shows the ones there are")
    return AssetScope(asset_id=row.id, name=row.name, uri=row.uri)


async def watermark_places(connection: AsyncConnection) -> Sequence[tuple[int, str]]:
    """Where the configured watchers' watermark entries are: asset ids and keys."""
    result = await connection.execute(select(watcher.c.asset_id, watcher.c.name).where(watcher.c.active))
    return [(row.asset_id, row.name + WATERMARK_SUFFIX) for row in result]


async def ids_by_name(connection: AsyncConnection) -> Mapping[str, int]:
    """The ids of all assets, also of those that are configured no more."""
    return {row.name: row.id for row in await connection.execute(select(asset.c.name, asset.c.id))}
