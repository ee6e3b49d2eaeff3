"""An asset's entries as people and tools look at them. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, Select, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import Page, Window, page, row_of
from store.database.schema import (
    asset_store,
    asset_store_history,
)
from store.errors import NotFound

_h, _s = asset_store_history.c, asset_store.c


def _entries(asset_id: int) -> Select[Any]:
    this_write = and_(_h.asset_id == _s.asset_id, _h.key == _s.key, _h.version == _s.version)
    return (
        select(asset_store, _h.try_number.label("last_updated_by_try_number"))
        .select_from(asset_store)
        .outerjoin(asset_store_history, this_write)
        .where(_s.asset_id == asset_id)
    )


async def entries(
    connection: AsyncConnection, asset_id: int, window: Window, only: Collection[str] | None = None
) -> Page:
    """An asset's entries by key, each with the writer's `last_updated_by_try_number`; None means all."""
    wanted = _entries(asset_id) if only is None else _entries(asset_id).where(_s.key.in_(only))
    return await page(connection, wanted, window, {"key": _s.key})


async def entry(connection: AsyncConnection, asset_id: int, key: str) -> RowMapping:
    """One entry. Raises `NotFound`."""
    row = await row_of(connection, _entries(asset_id).where(_s.key == key))
    if row is None:
        raise NotFound(f"the asset's store has no key {key!r}")
    return row


async def keys(connection: AsyncConnection, asset_id: int) -> Sequence[str]:
    """The keys of an asset's entries, in order."""
    return (await connection.execute(select(_s.key).where(_s.asset_id == asset_id).order_by(_s.key))).scalars().all()


async def references(connection: AsyncConnection, asset_id: int) -> Mapping[str, str]:
    """Keys and stored references of the entries whose values are elsewhere."""
    found = await connection.execute(
        select(_s.key, _s.value).where(_s.asset_id == asset_id, _s.is_ref).order_by(_s.key)
    )
    return {row.key: row.value for row in found}
