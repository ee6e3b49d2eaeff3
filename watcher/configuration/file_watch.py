"""Sees that the configuration's files were written, renamed over, or reached by another link.

What the operating system tells of their folders only shortens the wait: what stands at the paths now and then decides.
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

LOOK_EVERY: Final = 5.0
"""Seconds between two looks, also where nothing is told: network drives, folders that were replaced."""
SETTLED_AFTER: Final = 1.0
"""Seconds without a change after which a file counts as written: editors write in pieces, ConfigMaps file by file."""

_STEP: Final = 200
"""Milliseconds in which the thread that listens looks whether it is to end."""


@dataclass(eq=False)
class ConfigurationWatch:
    """Asks for a reload once files have settled that are others than were read."""

    reloader: Reloader

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Until cancelled."""
        task_status.started()
        while True:
            async with keep_going("configuration.watch_failed"):
                await self._watch(self.reloader.folders)
            await anyio.sleep(SETTLED_AFTER)
            await self._look()

    async def _watch(self, folders: frozenset[Path]) -> None:
        """Until other folders matter."""
        places, over = self._places(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_set_when_cancelled, over)
            async with aclosing(_hints(folders, over)) as hints:
                async for _ in hints:
                    await self._look()
                    if self._places() != places:
                        break
            tasks.cancel_scope.cancel()

    def _places(self) -> dict[Path, int]:
        """A folder that was made again under its name is another one."""
        places = {}
        for folder in self.reloader.folders:
            try:
                places[folder] = folder.stat().st_ino
            except OSError:
                continue
        return places

    async def _look(self) -> None:
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
    """The thread that listens knows nothing of cancellation."""
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
        rust_timeout=int(LOOK_EVERY * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
