"""People and tools change an asset's store: writer kind `api`, with an entry in the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.catalog import assets
from store.processes import audit
from store.state import entries
from watcher.api.auth import Actor
from watcher.api.context import ApiContext
from watcher.api.writes import EntryWrite, announced, json_within_limit, new_write_id


async def set_entry(
    context: ApiContext, actor: Actor, asset_id: int, key: str, value: Any, if_version: int | None
) -> None:
    """Write one entry. Raises `InvalidValue`, `NotFound`, `Conflict`."""
    text = json_within_limit(context, value)
    async with _api_write(context, actor, asset_id, action="set", key=key) as write:
        write.refuse_inactive()
        await write.refuse_watermark(key)
        await entries.set_asset(
            context.backend,
            write.scope,
            key,
            text,
            writer=write.writer,
            if_version=if_version,
            connection=write.connection,
        )


async def delete_entry(context: ApiContext, actor: Actor, asset_id: int, key: str, if_version: int | None) -> None:
    """Remove one entry if it is there. Raises `NotFound` for the asset, `Conflict`."""
    async with _api_write(context, actor, asset_id, action="delete", key=key) as write:
        await write.refuse_watermark(key)
        await entries.delete_asset(
            context.backend, write.scope, key, writer=write.writer, if_version=if_version, connection=write.connection
        )


async def clear_entries(context: ApiContext, actor: Actor, asset_id: int) -> None:
    """Remove all entries but the watermarks of configured watchers. Raises `NotFound` for the asset."""
    async with _api_write(context, actor, asset_id, action="clear", key=None) as write:
        await write.clear(context)


@asynccontextmanager
async def _api_write(
    context: ApiContext, actor: Actor, asset_id: int, *, action: str, key: str | None
) -> AsyncIterator[EntryWrite]:
    writer = Writer(kind=AssetStoreWriterKind.API, actor=actor.name, write_id=new_write_id())

    async def begin(connection: AsyncConnection) -> EntryWrite:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        named = {field: asset[field] for field in ("name", "uri", "active")}
        return EntryWrite(connection=connection, asset_id=asset_id, writer=writer, **named)

    async with announced(context, begin, action=action, key=key) as write:
        yield write
        await audit.record(
            write.connection,
            actor=actor.name,
            action=f"asset_store.{action}",
            target=write.name,
            detail={} if key is None else {"key": key},
            write_id=writer.write_id,
        )
