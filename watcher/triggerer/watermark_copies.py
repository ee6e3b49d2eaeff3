"""Copies watermark entries to a store backend outside the metadata database, after the commit that wrote them.

The entry in the metadata database is the truth and part of its watcher's transaction. A copy has the value of that entry at
the time, so an entry may be copied twice, late, or by several processes, and the newest value stays. A start copies every
configured watcher's entry once, which makes up for copies that a crash prevented.
"""

from __future__ import annotations

from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus

from store.catalog import assets, watcher_assets
from store.database import Database
from store.errors import BackendFailed, NotFound
from store.state.attributed import AttributedEntries
from triggers.retries import retry_context
from watcher.host.loops import Wakeup, keep_going

RETRY_AFTER: Final = 60.0
"""Seconds after which a failed copy is retried."""

log = structlog.get_logger()


class WatermarkCopies:
    """Entries whose copy may be out of date, and the task that copies them."""

    def __init__(self, database: Database, entries: AttributedEntries) -> None:
        self._database = database
        self._entries = entries
        self._dirty: dict[tuple[int, str], None] = {}
        self._wakeup = Wakeup()

    def mark_dirty(self, asset_id: int, key: str) -> None:
        """Have the watermark entry with this key copied: it was written, or its copy is gone. Callable from any task."""
        self._dirty[asset_id, key] = None
        self._wakeup.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Copy until cancelled."""
        task_status.started()
        known = False
        while True:
            async with keep_going("watermark.copying_failed"):
                if not known:
                    async with self._database.reading() as connection:
                        self._dirty.update(dict.fromkeys(await watcher_assets.watermark_places(connection)))
                    known = True
                await self.flush()
            await self._wakeup.wait(RETRY_AFTER)

    async def flush(self) -> None:
        """Copy every dirty entry. An entry that is not copied stays dirty. Raises `BackendFailed` if the backend stays down."""
        for place in list(self._dirty):
            del self._dirty[place]  # marked again while it is copied, it is copied again
            try:
                await self._copy(*place)
            except BaseException:
                self._dirty[place] = None
                raise

    async def _copy(self, asset_id: int, key: str) -> None:
        copied = None
        while (version := await self._copied(asset_id, key, copied)) != copied:
            copied = version

    async def _copied(self, asset_id: int, key: str, known: int | None) -> int | None:
        """Copy the entry if its version is not `known`. Return its version, or None when there is no such entry."""
        async with self._database.reading() as connection:
            try:
                asset = await assets.ref_of(connection, asset_id)
                entry = await AttributedEntries(self._database.dialect).entry(connection, asset, key)
            except NotFound:
                return None
        if entry.version != known:
            async for attempt in retry_context(on=BackendFailed, attempts=5, timeout=None, wait_max=30):
                with attempt:
                    await self._entries.copy(asset, key, entry.value)
            log.info("watermark.copied", key=key, version=entry.version)
        return entry.version
