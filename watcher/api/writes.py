"""Attributed changes of an asset's entries: whoever writes, the way to the log lines is the same.

`store.writing` is in the log before COMMIT and `store.written` after it, both with the `write_id` that the entry keeps.
What stands in between decides which of the two a crash leaves behind.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, Writer
from store.catalog import assets
from store.errors import Conflict, InvalidValue, WatermarkProtected
from store.state import entries
from store.values import WATERMARK_SUFFIX, to_json
from watcher.api.context import ApiContext

log = structlog.get_logger()


def new_write_id() -> str:
    """What leads from a stored value to the lines about its write."""
    return uuid.uuid4().hex


def json_within_limit(context: ApiContext, value: Any) -> str:
    """The value's JSON text, as people and tools may store it. Raises `InvalidValue`."""
    text = to_json(value)
    if len(text) > context.max_value_storage_bytes:
        raise InvalidValue(
            f"the value takes {len(text)} bytes as JSON, more than max_value_storage_bytes ({context.max_value_storage_bytes}); "
            f"store a reference to where it is"
        )
    return text


@dataclass(frozen=True, kw_only=True)
class EntryWrite:
    """A change of an asset's entries, inside its transaction."""

    connection: AsyncConnection
    asset_id: int
    name: str
    uri: str
    active: bool
    writer: Writer

    @property
    def scope(self) -> AssetScope:
        return AssetScope(asset_id=self.asset_id, name=self.name, uri=self.uri)

    @property
    def who(self) -> dict[str, object]:
        """The writer in log records; the ids of a task are what sends them to its try's log."""
        fields = ("dag_id", "run_id", "task_id", "map_index", "try_number", "actor")
        return {name: value for name in fields if (value := getattr(self.writer, name)) is not None}

    async def clear(self, context: ApiContext) -> None:
        """Remove all entries but the watermarks of configured watchers."""
        watermarks = await self.watermarks()
        await entries.clear_asset(
            context.backend, self.scope, writer=self.writer, protected=watermarks, connection=self.connection
        )
        for key in watermarks:
            context.on_watermark(self.asset_id, key)

    def refuse_inactive(self) -> None:
        """Raise `Conflict` for an asset that is configured no more."""
        if not self.active:
            raise Conflict(f"the asset {self.name!r} is not active; configure it again to write its store")

    async def refuse_watermark(self, key: str) -> None:
        """Raise `WatermarkProtected` for the entry that a configured watcher writes."""
        if key.endswith(WATERMARK_SUFFIX) and key in await self.watermarks():
            name = key.removesuffix(WATERMARK_SUFFIX)
            raise WatermarkProtected(
                f"{key!r} is written by its watcher only; use POST /api/v2/watchers/{name}/rewind to move it"
            )

    async def watermarks(self) -> frozenset[str]:
        """The keys that only watchers write."""
        return await assets.watermark_keys(self.connection, self.asset_id)


@asynccontextmanager
async def announced(
    context: ApiContext,
    begin: Callable[[AsyncConnection], Awaitable[EntryWrite]],
    *,
    action: str,
    key: str | None,
    keys: Sequence[str] | None = None,
) -> AsyncIterator[EntryWrite]:
    """A writing transaction that `begin` opens by saying who writes which asset; committed when the block ends.

    `keys` are those of a transaction, which writes several at once.
    """
    async with context.database.transaction() as connection:
        write = await begin(connection)
        yield write
        words = _words(write, action, key, keys)
        log.info("store.writing", **words)
    log.info("store.written", **words)
    context.metrics.store_writes.labels(write.writer.kind.value).inc(1 if keys is None else len(keys))


def _words(write: EntryWrite, action: str, key: str | None, keys: Sequence[str] | None) -> dict[str, object]:
    what = {"key": key} if keys is None else {"keys": keys}
    return {"write_id": write.writer.write_id, "action": action, "asset": write.name, **what, **write.who}
