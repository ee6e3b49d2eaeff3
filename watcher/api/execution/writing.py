"""Changes of an asset's entries in the name of a try: fenced, within its job's reach, with its log lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.runs.try_lock import FencedTry, Wanted, reach
from watcher.api.execution.identity import Call, undeclared
from watcher.api.writes import EntryWrite, announced, new_write_id

log = structlog.get_logger()


@asynccontextmanager
async def task_write(
    call: Call,
    wanted: Wanted,
    *,
    action: str,
    key: str | None = None,
    keys: Sequence[str] | None = None,
) -> AsyncIterator[EntryWrite]:
    """A change of one entry, whose `key` is locked, of a transaction's `keys`, or of all: in one database transaction.

    Raises `TryFenced`, `NotFound`, `Answered`, 403.
    """

    async def begin(connection: AsyncConnection) -> EntryWrite:
        found = await reach(connection, call.task_instance_id, call.try_number, wanted, locking=key, asked=call.asked)
        if not found.declared:
            raise undeclared(found.held.dag_id, found.name)
        return EntryWrite(
            connection=connection,
            asset_id=found.asset_id,
            name=found.name,
            uri=found.uri,
            active=True,
            writer=_writer(found.held),
        )

    async with announced(call.context, begin, action=action, key=key, keys=keys) as write:
        yield write


def warn_of_large(call: Call, write: EntryWrite, key: str, text: str) -> None:
    """What a job writes has no limit, but is told of in its log."""
    limit = call.context.max_value_storage_bytes
    if len(text) > limit:
        log.warning("store.large_value", key=key, bytes=len(text), limit=limit, **write.who)


def _writer(held: FencedTry) -> Writer:
    return Writer(
        kind=AssetStoreWriterKind.TASK,
        write_id=new_write_id(),
        dag_id=held.dag_id,
        run_id=held.run_id,
        task_id=held.task_id,
        map_index=held.map_index,
        try_number=held.try_number,
    )
