"""Entries as they are read, from whichever backend keeps them.

The metastore shows all there is to an entry. Of another backend only values are known, one key at a time; watermark
entries are always the metadata database's, because there they are the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, TaskScope
from store.catalog import assets
from store.database.paging import Page, Window
from store.errors import Conflict, NotFound
from store.state import entries, listings, task_entries
from store.state.statements import WRITER_FIELDS
from watcher.api.context import ApiContext

Row: TypeAlias = RowMapping | Mapping[str, Any]


def asset_scope(asset: RowMapping) -> AssetScope:
    """The asset under all its names."""
    return AssetScope(asset_id=asset["id"], name=asset["name"], uri=asset["uri"])


async def asset_entry(context: ApiContext, connection: AsyncConnection, asset: RowMapping, key: str) -> Row:
    """One entry, like `store.state.listings.entry`. Raises `NotFound`."""
    if entries.knows_writers(context.backend) or key in await assets.watermark_keys(connection, asset["id"]):
        return await listings.entry(connection, asset["id"], key)
    value = await entries.get(context.backend, asset_scope(asset), key, connection=connection)
    if value is None:
        raise NotFound(f"the asset's store has no key {key!r}")
    unknown = (f"last_updated_by_{name}" for name in (*WRITER_FIELDS, "try_number"))
    plain = {"key": key, "value": value, "is_ref": False, "updated_at": None, "version": None}
    return plain | dict.fromkeys(unknown)


async def asset_entries(context: ApiContext, connection: AsyncConnection, asset: RowMapping, window: Window) -> Page:
    """Entries by key; of a backend that cannot be listed only the watermarks."""
    if entries.knows_writers(context.backend):
        return await listings.entries(connection, asset["id"], window)
    known = await assets.watermark_keys(connection, asset["id"])
    return await listings.entries(connection, asset["id"], window, only=known)


async def asset_keys(context: ApiContext, connection: AsyncConnection, asset: RowMapping) -> Sequence[str]:
    """The keys of all entries. Raises `Conflict` when the backend cannot tell."""
    _refuse_unlisted(context)
    return await listings.keys(connection, asset["id"])


async def task_keys(context: ApiContext, connection: AsyncConnection, scope: TaskScope) -> Sequence[str]:
    """The keys of all entries of a task instance. Raises `Conflict` when the backend cannot tell."""
    _refuse_unlisted(context)
    return await task_entries.keys(connection, scope)


def _refuse_unlisted(context: ApiContext) -> None:
    if not entries.knows_writers(context.backend):
        raise Conflict("the configured store backend cannot list its keys; ask for the keys you know")


async def task_entry(context: ApiContext, connection: AsyncConnection, scope: TaskScope, key: str) -> Row:
    """One entry of a task instance, like `store.state.task_entries.entry`. Raises `NotFound`."""
    if entries.knows_writers(context.backend):
        return await task_entries.entry(connection, scope, key)
    value = await entries.get(context.backend, scope, key, connection=connection)
    if value is None:
        raise NotFound(f"the task store has no key {key!r}")
    return {"key": key, "value": value, "is_ref": False, "updated_at": None, "expires_at": None}
