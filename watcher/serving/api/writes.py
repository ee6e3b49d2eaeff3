"""Attributed changes of an asset's entries. Whoever writes, the same id leads from the value to the log lines of the write.

`store.writing` is logged before COMMIT and `store.written` after it, both with the `write_id` that the entry keeps. After a
crash, the log shows both or only the first, depending on the moment of the crash.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.catalog import watcher_assets
from store.errors import InvalidValue, WatermarkProtected
from store.keys import AssetRef
from store.processes import audited_store
from store.state.entries import EntryChange, KeyLock
from store.values import WATERMARK_SUFFIX, to_json
from watcher.serving.api.context import ApiContext
from watcher.serving.api.sign_in.auth import Actor

log = structlog.get_logger()


def new_write_id() -> str:
    """Return a new id that leads from a stored value to the log lines of its write."""
    return uuid.uuid4().hex


def json_within_limit(context: ApiContext, value: Any) -> str:
    """Return the value as JSON text. Raise `InvalidValue` if it is larger than people and tools may store."""
    text = to_json(value)
    if len(text) > context.limits.max_value_storage_bytes:
        raise InvalidValue(
            f"the value has {len(text)} bytes as JSON, more than max_value_storage_bytes ({context.limits.max_value_storage_bytes}); "
            f"store a reference to the value instead"
        )
    return text


@dataclass(frozen=True, kw_only=True)
class EntryWrite:
    """A change of an asset's entries inside a transaction: of one entry (`key`), of several (`keys`), or of all."""

    context: ApiContext
    connection: AsyncConnection
    asset: AssetRef
    writer: Writer
    action: str
    key: str | None = None
    keys: Sequence[str] | None = None
    lock: KeyLock | None = None
    trace_id: str | None = None

    async def set(self, value: str, *, is_ref: bool = False, expected_version: int | None = None) -> None:
        """Write the entry. `value` is JSON text. Raises `WatermarkProtected`, `VersionConflict`, `InvalidValue`."""
        await self._apply(value, is_ref=is_ref, expected_version=expected_version)

    async def delete(self, *, expected_version: int | None = None) -> None:
        """Remove the entry if it exists. Raises `WatermarkProtected`, `VersionConflict`."""
        await self._apply(None, is_ref=False, expected_version=expected_version)

    async def clear(self) -> None:
        """Remove all entries except the watermarks of configured watchers."""
        watermarks = await watcher_assets.watermark_keys(self.connection, self.asset.id)
        await self.context.entries.clear(self.connection, self.asset, writer=self.writer, protected=watermarks)
        for key in watermarks:
            self.context.watchers.on_watermark(self.asset.id, key)

    async def refuse_watermark(self, key: str) -> None:
        """Raise `WatermarkProtected` if a configured watcher writes this entry."""
        if key.endswith(WATERMARK_SUFFIX) and key in await watcher_assets.watermark_keys(
            self.connection, self.asset.id
        ):
            name = key.removesuffix(WATERMARK_SUFFIX)
            raise WatermarkProtected(
                f"only its watcher writes {key!r}; use POST /api/v2/watchers/{name}/rewind to move it"
            )

    async def _apply(self, value: str | None, *, is_ref: bool, expected_version: int | None) -> None:
        assert self.key is not None  # noqa: S101  a change of one entry
        await self.refuse_watermark(self.key)
        change = EntryChange(
            asset=self.asset,
            key=self.key,
            value=value,
            writer=self.writer,
            is_ref=is_ref,
            expected_version=expected_version,
            lock=self.lock,
        )
        await self.context.entries.apply(self.connection, change)

    @property
    def who(self) -> dict[str, Any]:
        """The writer's fields in log records. The ids of a task route a record to the log of its try."""
        writer = self.writer
        if writer.kind is not AssetStoreWriterKind.TASK:
            return {"actor": writer.actor}
        of_task = {"dag_id": writer.dag_id, "run_id": writer.run_id, "task_id": writer.task_id}
        return {**of_task, "map_index": writer.map_index, "try_number": writer.try_number}

    @property
    def record(self) -> dict[str, Any]:
        """The fields of both log records of the write."""
        what = {"key": self.key} if self.keys is None else {"keys": self.keys}
        return {"write_id": self.writer.write_id, "action": self.action, "asset": self.asset.name, **what, **self.who}

    def announce(self) -> None:
        """Log that the write is about to be committed. Call it last before COMMIT."""
        log.info("store.writing", **self.record)

    def confirm(self) -> None:
        """Log and count the committed write. Call it first after COMMIT."""
        log.info("store.written", **self.record)
        written = 1 if self.keys is None else len(self.keys)
        self.context.process.metrics.count_writes(self.writer.kind, written, self.trace_id)


async def set_entry(
    context: ApiContext, actor: Actor, asset_id: int, key: str, value: str, *, expected_version: int | None
) -> None:
    """Set an entry for a person or tool, like `api_write`, but in one round trip to the database where possible.

    `value` is JSON text. Raises what `api_write` and `EntryWrite.set` raise.
    """
    in_one = context.entries.set_in_one_statement and not key.endswith(WATERMARK_SUFFIX)
    if in_one and await _set_in_one_statement(context, actor, asset_id, key, value, expected_version):
        return
    async with api_write(context, actor, asset_id, action="set", key=key) as write:
        await write.set(value, expected_version=expected_version)


async def _set_in_one_statement(
    context: ApiContext, actor: Actor, asset_id: int, key: str, value: str, expected_version: int | None
) -> bool:
    """Return whether the entry was set. If not, the caller sets it in a transaction, which determines the reason."""
    writer = Writer(kind=AssetStoreWriterKind.API, actor=actor.name, write_id=new_write_id())
    async with context.database.statement() as connection:
        record = {"write_id": writer.write_id, "action": "set", "asset_id": asset_id, "key": key, "actor": actor.name}
        log.info("store.writing", **record)
        asset = await audited_store.set_entry(
            connection, asset_id, key, value, writer, expected_version=expected_version
        )
    if asset is None:
        return False
    EntryWrite(context=context, connection=connection, asset=asset, writer=writer, action="set", key=key).confirm()
    return True


@asynccontextmanager
async def api_write(
    context: ApiContext, actor: Actor, asset_id: int, *, action: str, key: str | None = None
) -> AsyncIterator[EntryWrite]:
    """Change an asset's store for a person or tool: with the writer kind `api` and an audit entry.

    Raise `NotFound` for an unknown asset, and `Conflict` when an entry of an inactive asset is set.
    """
    write_id = new_write_id()
    writer = Writer(kind=AssetStoreWriterKind.API, actor=actor.name, write_id=write_id)
    must_be_active = action in {"set", "undo"}
    async with context.database.transaction() as connection:
        changed = await audited_store.store_to_change(
            connection, asset_id, actor.name, action, write_id, key=key, active=must_be_active
        )
        write = EntryWrite(
            context=context,
            connection=connection,
            asset=changed.asset,
            writer=writer,
            action=action,
            key=key,
            lock=changed.lock,
        )
        yield write
        write.announce()
    write.confirm()
