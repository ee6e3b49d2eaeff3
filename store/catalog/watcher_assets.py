"""The assets of watchers: the one that a watcher stands under, and those that its option `assets` names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, insert, select, union, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import asset, watcher, watcher_asset
from store.errors import no_watcher
from store.keys import AssetRef
from store.values import WATERMARK_SUFFIX

_w, _f = watcher.c, watcher_asset.c


async def apply(connection: AsyncConnection, configured: set[tuple[str, int]]) -> None:
    """Mirror the further assets, as pairs of watcher and asset id. What is left out is kept, because its events are."""
    present = {(row.watcher, row.asset_id): row.active for row in await connection.execute(select(watcher_asset))}
    if new := [{"watcher": name, "asset_id": asset_id} for name, asset_id in sorted(configured - present.keys())]:
        await connection.execute(insert(watcher_asset), new)
    for (name, asset_id), is_active in present.items():
        if is_active != ((name, asset_id) in configured):
            this = update(watcher_asset).where(_f.watcher == name, _f.asset_id == asset_id)
            await connection.execute(this.values(active=not is_active))


@cache
def configured() -> Select[Any]:
    """Select asset and watcher, as `asset_id` and `name`, for each asset that a configured watcher has events of."""
    own = select(_w.asset_id, _w.name).where(_w.active)
    further = select(_f.asset_id, _w.name).join_from(watcher_asset, watcher, _w.name == _f.watcher)
    both = union(own, further.where(_w.active, _f.active)).subquery("watched")
    return select(both.c.asset_id, both.c.name)


async def refs_of(connection: AsyncConnection, name: str) -> Sequence[AssetRef]:
    """Return the assets that a configured watcher has events of, its own first. Raises `NotFound`."""
    watched = configured().subquery("watched")
    joined = watched.join(asset, asset.c.id == watched.c.asset_id).join(watcher, _w.name == watched.c.name)
    query = select(asset.c.id, asset.c.name, asset.c.uri).select_from(joined).where(watched.c.name == name)
    refs = await all_of(connection, query.order_by(asset.c.id != _w.asset_id, asset.c.name), AssetRef)
    if not refs:
        raise no_watcher(name)
    return refs


async def assets_of(connection: AsyncConnection, names: Collection[str]) -> Sequence[int]:
    """Return the ids of the assets of which these watchers have events, or had before the configuration changed."""
    own = select(_w.asset_id).where(_w.name.in_(names))
    further = select(_f.asset_id).where(_f.watcher.in_(names))
    both = union(own, further).subquery()
    return (await connection.execute(select(both.c.asset_id).order_by(both.c.asset_id))).scalars().all()


async def watermark_keys(connection: AsyncConnection, asset_id: int) -> frozenset[str]:
    """Return the keys of an asset's entries that only its configured watchers write."""
    result = await connection.execute(select(_w.name).where(_w.active, _w.asset_id == asset_id))
    return frozenset(name + WATERMARK_SUFFIX for name in result.scalars())


async def watermark_places(connection: AsyncConnection) -> Sequence[tuple[int, str]]:
    """Return where the configured watchers' watermark entries are: asset ids and keys."""
    result = await connection.execute(select(_w.asset_id, _w.name).where(_w.active))
    return [(row.asset_id, row.name + WATERMARK_SUFFIX) for row in result]
