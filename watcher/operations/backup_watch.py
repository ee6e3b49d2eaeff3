"""Whether the metadata database is an older one than this home has seen: a backup was restored, and its positions went back.

What was told since the backup is told again then, which nobody can prevent afterwards, and nobody should have to guess. The
ids of events only grow, for as long as a database lives; the home remembers the newest that it saw committed.
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

LOOK_EVERY: Final = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class BackupWatch:
    """Compares what this home remembers with the database, at the start and every few seconds."""

    database: Database
    home: Home
    health: Health

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Look until cancelled. Started after the first look, so that it is said before anything is told again."""
        await patiently(self.look)
        task_status.started()
        while True:
            await anyio.sleep(LOOK_EVERY)
            async with keep_going("backups.not_looked_at"):
                await self.look()

    async def look(self) -> None:
        async with self.database.reading() as connection:
            numbers = await events.numbers(connection, self.database.dialect)
        known = self.home.newest_event()
        if numbers.given < known:
            self.health.restored = (
                f"the database is an older one than {self.home.folder} has seen: a backup was restored, and what up to "
                f"{known - numbers.given} events told is told again"
            )
            log.error("database.restored", newest_event=numbers.given, newest_event_seen=known)
            self.home.remember_newest_event(numbers.given)
        elif numbers.committed > known:
            self.home.remember_newest_event(numbers.committed)
