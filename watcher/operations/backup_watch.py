"""Notices that the metadata database is older than one this home has seen: a backup was restored, and positions went back.

Events since the backup are then emitted again. Nobody can prevent that afterwards, and nobody should have to guess it.
Event ids only grow while a database lives; the home remembers the newest one that it saw committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus

from store.database import Database
from store.detection import events
from watcher.host.health import Health
from watcher.host.home import Home
from watcher.host.loops import keep_going
from watcher.host.metadata import patiently

CHECK_EVERY: Final = 5.0
"""Seconds between two checks."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class BackupWatch:
    """Compares the database with what this home remembers, at the start and every few seconds."""

    database: Database
    home: Home
    health: Health

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Check until cancelled. Counts as started after the first check, so that it is reported before any event repeats."""
        await patiently(self.check)
        task_status.started()
        while True:
            await anyio.sleep(CHECK_EVERY)
            async with keep_going("backups.not_looked_at"):
                await self.check()

    async def check(self) -> None:
        async with self.database.reading() as connection:
            numbers = await events.numbers(connection, self.database.dialect)
        known = self.home.newest_event()
        if numbers.given < known:
            self.health.restored = (
                f"the database is older than one that {self.home.folder} has seen: a backup was restored, and up to "
                f"{known - numbers.given} events since then are emitted again"
            )
            log.error("database.restored", newest_event=numbers.given, newest_event_seen=known)
            self.home.remember_newest_event(numbers.given)
        elif numbers.committed > known:
            self.home.remember_newest_event(numbers.committed)
