"""Watermark entries in a store backend outside the metadata database: copied after the commit that wrote them.

The entry in the metadata database is the truth and part of its watcher's transaction. A copy is always made of what that
entry says at the moment, so that copies may be owed twice, late, or by several processes, and the newest one stays. What
a crash left undone is made good at the next start, when every configured watcher's entry is copied once.
"""

from __future__ import annotations

from typing import Final

import anyio
import stamina
import structlog
from anyio.abc import TaskStatus

from store.catalog import assets
from store.database import Database
from store.errors import BackendFailed, NotFound
from store.state.attributed import AttributedEntries
from store.state.entries import Entries
from watcher.retrying import keep_going
from watcher.wakeups import Wakeup

LOOK_EVERY: Final = 60.0
"""Seconds after which what could not be copied is tried again."""

log = structlog.get_logger()


class WatermarkCopies:
    """`owe` may be called from any task; `run` pays."""

    def __init__(self, database: Database, entries: Entries) -> None:
        self._database = database
        self._entries = entries
        self._owed: dict[tuple[int, str], None] = {}
        self._wakeup = Wakeup()

    def owe(self, asset_id: int, key: str) -> None:
        """The watermark entry under this key was written, or its copy is gone."""
        self._owed[asset_id, key] = None
        self._wakeup.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        task_status.started()
        known = False
        while True:
            async with keep_going("watermark.copying_failed"):
                if not known:
                    await self._owe_all()
                    known = True
                await self.settle()
            await self._wakeup.wait(LOOK_EVERY)

    async def settle(self) -> None:
        """Copy all that is owed. Raises `BackendFailed` when the backend does not recover; the debt stays."""
        for place in list(self._owed):
            del self._owed[place]  # owed anew while we copy, it is copied anew
            try:
                await self._copy(*place)
            except BaseException:
                self._owed[place] = None
                raise

    async def _owe_all(self) -> None:
        async with self._database.reading() as connection:
            self._owed.update(dict.fromkeys(await assets.watermark_places(connection)))

    async def _copy(self, asset_id: int, key: str) -> None:
        copied = None
        while (version := await self._copied(asset_id, key, copied)) != copied:
            copied = version

    async def _copied(self, asset_id: int, key: str, known: int | None) -> int | None:
        """Copy the entry if its version is not `known`; returns its version, None when there is no such entry."""
        async with self._database.reading() as connection:
            try:
                asset = await assets.ref_of(connection, asset_id)
                entry = await AttributedEntries(self._database.dialect).entry(connection, asset, key)
            except NotFound:
                return None
        if entry.version != known:
            async for attempt in stamina.retry_context(on=BackendFailed, attempts=5, timeout=None, wait_max=30):
                with attempt:
                    await self._entries.copy(asset, key, entry.value)
            log.info("watermark.copied", key=key, version=entry.version)
        return entry.version
