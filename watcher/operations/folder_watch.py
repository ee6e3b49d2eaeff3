"""Notices that a folder cannot be written to, which nothing else would say: the daemon survives it, and jobs fail one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from watcher.host.health import FolderFault, Health
from watcher.host.loops import keep_going
from watcher.host.machine import write_fault

CHECK_EVERY: Final = 5.0
"""Seconds between two checks."""
ANSWER_WITHIN: Final = 10.0
"""Seconds in which a disk must have taken a few kilobytes."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class FolderWatch:
    """Writes a little to each of the folders every few seconds, and keeps in `health` which cannot be written to."""

    folders: Sequence[Path]
    health: Health
    _turn: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """Lets one thread at a time wait for a disk that does not answer."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Check until cancelled."""
        task_status.started()
        while True:
            async with keep_going("folders.not_checked"):
                for folder in self.folders:
                    await self.check(folder)
            await anyio.sleep(CHECK_EVERY)

    async def check(self, folder: Path) -> None:
        """Try to write to the folder, and note the result."""
        fault = f"the disk did not take anything within {ANSWER_WITHIN:g} s"
        with anyio.move_on_after(ANSWER_WITHIN):
            fault = await anyio.to_thread.run_sync(write_fault, folder, abandon_on_cancel=True, limiter=self._turn)
        before = self.health.folders.get(folder)
        if not fault:
            if self.health.folders.pop(folder, None) is not None:
                log.info("folder.writable", folder=str(folder))
            return
        since = datetime.now(UTC) if before is None else before.since
        self.health.folders[folder] = FolderFault(
            sentence=f"nothing can be written below {folder}: {fault}", since=since
        )
        if before is None:
            log.error("folder.not_writable", folder=str(folder), error=fault)
