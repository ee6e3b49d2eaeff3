"""What every write and delete of an asset's entries left behind. Reads only."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import Page, Rows, Window, page, rows_of
from store.database.schema import (
    asset,
    asset_store_history,
)

_a, _h = asset.c, asset_store_history.c


async def history(connection: AsyncConnection, asset_id: int, key: str | None, window: Window) -> Page:
    """Every write and delete of an asset's entries, or of one of them, newest first."""
    wanted = select(asset_store_history).where(_h.asset_id == asset_id)
    if key is not None:
        wanted = wanted.where(_h.key == key)
    newest_first = Window(limit=window.limit, offset=window.offset, order_by=("-written_at", "-version"))
    return await page(
        connection, wanted, newest_first, {"key": _h.key, "written_at": _h.written_at, "version": _h.version}
    )


async def writes(connection: AsyncConnection, write_ids: Collection[str]) -> Rows:
    """The history rows that these writes left, with `asset`, its name."""
    wanted = (
        select(asset_store_history, _a.name.label("asset"))
        .select_from(asset_store_history)
        .join(asset)
        .where(_h.write_id.in_(write_ids))
        .order_by(_h.key)
    )
    return await rows_of(connection, wanted)
