"""Notices that the metadata database is older than one this home has seen: a backup was restored, and positions went back.

What watchers reported since the backup is then emitted again, and what was posted is not. Nobody can prevent that afterwards, and
nobody should have to guess it. Event ids only grow while a database lives; the home remembers the newest one that it saw
committed, and from where events came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from store.database import Database
from store.detection import events
from store.detection.events import EventNumbers
from store.detection.interest import EventOrigin
from watcher.host.health import Health
from watcher.host.home import Home
from watcher.host.loops import keep_going
from watcher.host.metadata import patiently
from watcher.operations.event_looks import EventLook, EventLooks

CHECK_EVERY: Final = 5.0
"""Seconds between two checks."""
MOST_COUNTED: Final = 1_000_000
"""The most events between two looks whose origins are counted: a home that was away for long would read them all."""
_NOT_AGAIN: Final = {EventOrigin.POST.value: "REST", EventOrigin.JOB.value: "jobs"}
"""The origins whose events nobody emits again, in words. Watchers, and what listens to Airflow, have gone back, too."""
_AGAIN: Final = {EventOrigin.LISTENING.value: "Airflow"}

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class BackupWatch:
    """Compares the database with what this home remembers, at the start and every few seconds."""

    database: Database
    home: Home
    health: Health
    looks: EventLooks

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Check until cancelled. Counts as started after the first check, so that it is reported before any event repeats."""
        await patiently(self.check)
        task_status.started()
        while True:
            await anyio.sleep(CHECK_EVERY)
            async with keep_going("backups.not_looked_at"):
                await self.check()

    async def check(self) -> None:
        """Compare once, and remember what is new. Raises `OSError` or `StartRefused` if the home cannot be written."""
        known, origins = self.home.newest_event(), dict[str, int]()
        async with self.database.reading() as connection:
            numbers = await events.numbers(connection, self.database.dialect)
            if 0 < numbers.committed - known <= MOST_COUNTED:
                origins = dict(await events.origins(connection, known, numbers.committed))
        if numbers.given < known:
            await anyio.to_thread.run_sync(self._note_restore, numbers, known)
        elif numbers.committed > known:
            if origins:
                look = EventLook(after=known, up_to=numbers.committed, origins=origins)
                await anyio.to_thread.run_sync(self.looks.add, look)
            self.home.remember_newest_event(numbers.committed)

    def _note_restore(self, numbers: EventNumbers, known: int) -> None:
        since, known_from = self.looks.beyond(numbers.given)
        unknown = max((known if known_from < 0 else known_from) - numbers.given, 0)
        self.health.restored = f"the database is older than one that {self.home.folder} has seen: a backup was restored. {in_words(since, unknown)}"
        log.error("database.restored", newest_event=numbers.given, newest_event_seen=known, events_since=since)
        self.looks.go_back(numbers.given)
        self.home.remember_newest_event(numbers.given)


def in_words(since: Mapping[str, int], unknown: int) -> str:
    """Return what becomes of the events since a backup, by their origins, and of as many whose origin is `unknown`."""
    again = {_AGAIN.get(origin, origin): number for origin, number in since.items() if origin not in _NOT_AGAIN}
    lost = {_NOT_AGAIN[origin]: number for origin, number in since.items() if origin in _NOT_AGAIN}
    parts = [
        f"about {sum(again.values()):,} events since then are emitted again{_listed(again)}, as far as their sources still have them"
    ]
    parts.append(f"about {sum(lost.values()):,} are not{_listed(lost)}")
    if unknown:
        parts.append(
            f"of up to {unknown:,} this home does not know where they came from: those of watchers are emitted again"
        )
    return "; ".join(parts)


def _listed(numbers: Mapping[str, int]) -> str:
    listed = ", ".join(f"{origin} {number:,}" for origin, number in sorted(numbers.items()))
    return f" ({listed})" if listed else ""
