"""Notices that the configuration's files were written, replaced, or reached by another link.

The operating system's events about their folders only shorten the wait. What is found at the paths now and then decides.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from watchfiles import awatch

from watcher.configuration.reloader import Reloader
from watcher.host.loops import keep_going

CHECK_EVERY: Final = 5.0
"""Seconds between two checks, also where no event arrives: network drives, folders that were replaced."""
SETTLED_AFTER: Final = 1.0
"""Seconds without a change after which a file counts as complete: editors write in pieces, ConfigMaps file by file."""

_STEP: Final = 200
"""Milliseconds after which the listening thread checks whether it is to end."""


@dataclass(eq=False)
class ConfigurationWatch:
    """Requests a reload once files have settled that differ from those that were read."""

    reloader: Reloader

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Watch until cancelled."""
        task_status.started()
        while True:
            async with keep_going("configuration.watch_failed"):
                await self._watch(self.reloader.folders)
            await anyio.sleep(SETTLED_AFTER)
            await self._check()

    async def _watch(self, folders: frozenset[Path]) -> None:
        """Watch these folders until others matter."""
        places, over = self._places(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, over)
            async with aclosing(_hints(folders, over)) as hints:
                async for _ in hints:
                    await self._check()
                    if self._places() != places:
                        break
            tasks.cancel_scope.cancel()

    def _places(self) -> dict[Path, int]:
        """Return the inode of each folder: one that was made again under its name is another folder."""
        places = {}
        for folder in self.reloader.folders:
            try:
                places[folder] = folder.stat().st_ino
            except OSError:
                continue
        return places

    async def _check(self) -> None:
        if not self.reloader.is_stale:
            return
        before = self.reloader.stamps
        await anyio.sleep(SETTLED_AFTER)
        while (now := self.reloader.stamps) != before:
            before = now
            await anyio.sleep(SETTLED_AFTER)
        if self.reloader.is_stale:  # nobody else has reloaded meanwhile
            self.reloader.request("file")


async def _set_when_cancelled(over: anyio.Event) -> None:
    """Set the event when the task is cancelled: the listening thread cannot be cancelled itself."""
    try:
        await anyio.sleep_forever()
    finally:
        over.set()


def _hints(folders: frozenset[Path], over: anyio.Event) -> AsyncGenerator[object, None]:
    return awatch(
        *folders,
        watch_filter=None,
        step=_STEP,
        stop_event=over,
        rust_timeout=int(CHECK_EVERY * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
