"""The clean-up removes everything past its retention, in batches: on a timer in the daemon, or once by the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from config.models.settings import Settings
from store.base import BaseStoreBackend
from store.database import Database
from store.processes import cleanup
from store.processes.cleanup import Chore, KeptEvents, Removed, Retention, Sweep
from store.runs.tries import try_lookup
from triggers.shared.delays import sleep_for
from watcher.host.logs import paths
from watcher.host.loops import keep_going
from watcher.submit.local.folder import old_folders, remove_folders, try_folder

LONG_BATCH: Final = 0.4
"""Seconds of a batch. The next batch is half as large after a longer one, and twice as large after a much shorter one."""
LOG_FILES: Final = "log files"
TRY_FOLDERS: Final = "folders of tries"

log = structlog.get_logger()


CleanupProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with a sweep's name, the rows removed and the rows in all: before the first batch and after each one."""


def in_the_log(name: str, done: int, total: int) -> None:
    """Report progress as log lines."""
    if done:
        log.info("cleanup.progress", what=name, done=done, of=total)


@dataclass(frozen=True, kw_only=True)
class CleanupLimits:
    """How long things are kept, and how many rows one transaction removes (0: what suits the database)."""

    retention: Retention
    logs: timedelta
    batch_size: int

    @classmethod
    def of(cls, settings: Settings, batch_size: int | None = None) -> CleanupLimits:
        """Return the configured limits."""
        store = settings.store
        return cls(
            retention=Retention(
                task_days=store.default_retention_days,
                history_days=store.history_retention_days,
                event_days=store.event_retention_days,
                run_days=store.run_retention_days,
                orphan_days=store.orphan_grace_days,
            ),
            logs=timedelta(days=settings.logs.retention_days),
            batch_size=store.state_cleanup_batch_size if batch_size is None else batch_size,
        )


@dataclass(frozen=True)
class Cleaner:
    """Removes what is past its retention."""

    database: Database
    backend: BaseStoreBackend
    home: Path
    """The home that has the folders of this machine's tries."""
    logs_directory: Path
    limits: CleanupLimits
    kept: KeptEvents
    """The events that features need."""
    chores: Sequence[Chore]

    async def run(self, every: timedelta, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Clean up now and then, until cancelled."""
        task_status.started()
        while True:
            async with keep_going("cleanup.failed"):
                await self.clean()
            await sleep_for(every.total_seconds())

    async def count(self) -> Mapping[str, int]:
        """Return how much a clean-up would remove now. Changes nothing."""
        sweeps = await cleanup.sweeps(self.database, self.limits.retention, self.kept)
        counts = {sweep.name: await self._count(sweep) for sweep in sweeps}
        return {**counts, LOG_FILES: len(await self._old_logs()), TRY_FOLDERS: len(await self._old_folders())}

    async def clean(self, progress: CleanupProgress = in_the_log) -> Mapping[str, int]:
        """Remove what is past its retention and return the counts. Leaves to another clean-up what that one is removing."""
        started = time.monotonic()
        sweeps = await cleanup.sweeps(self.database, self.limits.retention, self.kept)
        counts = {sweep.name: await self._sweep(sweep, progress) for sweep in sweeps}
        counts[LOG_FILES] = await anyio.to_thread.run_sync(paths.remove, await self._old_logs())
        counts[TRY_FOLDERS] = await anyio.to_thread.run_sync(remove_folders, await self._old_folders())
        for chore in self.chores:
            await self._do(chore)
        await self._clean_backend()
        if any(counts.values()):
            removed = {name.replace(" ", "_"): count for name, count in counts.items() if count}
            log.info("cleanup.done", seconds=round(time.monotonic() - started, 3), **removed)
        return counts

    async def _sweep(self, sweep: Sweep, progress: CleanupProgress) -> int:
        total = await self._count(sweep)
        size = most = cleanup.batch_size(self.limits.batch_size, self.database.dialect)
        done = references = 0
        removed: Removed | None = Removed(rows=0)
        if total:
            progress(sweep.name, 0, total)
        while done < total and removed is not None:
            started = time.monotonic()
            removed = await self._batch(sweep, size, removed.after)
            if removed is None or not removed.rows:
                break
            done += removed.rows
            references += removed.references
            size = _next_size(size, most, time.monotonic() - started)
            progress(sweep.name, done, max(total, done))
        if references:
            log.warning("cleanup.references_dropped", what=sweep.name, references=references)
        return done

    async def _batch(self, sweep: Sweep, size: int, after: Any) -> Removed | None:
        """Remove one batch. None: another clean-up is at work."""
        async with self.database.transaction() as connection:
            if not await cleanup.acquire(connection, self.database.dialect):
                log.info("cleanup.left_to_another", what=sweep.name)
                return None
            return await sweep.remove(connection, size, after, self.database.dialect)

    async def _do(self, chore: Chore) -> None:
        """Do a chore until nothing is left of it, or the rest is left to the next clean-up."""
        done, some = 0, 1
        while some and done < chore.most:
            async with self.database.transaction() as connection:
                is_mine = await cleanup.acquire(connection, self.database.dialect)
                some = await chore.some(connection) if is_mine else 0
            done += some
        if done:
            log.info(chore.event, events=done)

    async def _count(self, sweep: Sweep) -> int:
        async with self.database.reading() as connection:
            return await sweep.count(connection)

    async def _clean_backend(self) -> None:
        """Call the clean-up of a custom backend, which expires its entries itself."""
        if self.backend.entries(self.database).keeps_history:
            return
        log.info("cleanup.backend_left_to_itself", backend=type(self.backend).__name__)
        async with keep_going("cleanup.backend_failed"):
            await anyio.to_thread.run_sync(self.backend.cleanup)

    async def _old_logs(self) -> list[Path]:
        """Return the log files past their retention, without those that a running driver may still write to."""
        async with self.database.reading() as connection:
            running = await try_lookup.keys_of_open_tries(connection)
        kept = frozenset(paths.try_log(self.logs_directory, **key.bindings) for key in running)
        before = datetime.now(UTC) - self.limits.logs
        return await anyio.to_thread.run_sync(paths.expired, self.logs_directory, before.timestamp(), kept)

    async def _old_folders(self) -> list[Path]:
        """Return the folders of tries whose runs are forgotten.

        A folder keeps a try from being submitted twice, and lets its driver be found again, for as long as the run is known.
        """
        async with self.database.reading() as connection:
            running = await try_lookup.keys_of_open_tries(connection)
        kept = frozenset(try_folder(self.home, key) for key in running)
        before = datetime.now(UTC) - timedelta(days=self.limits.retention.run_days)
        return await anyio.to_thread.run_sync(old_folders, self.home, before.timestamp(), kept)


def _next_size(size: int, most: int, seconds: float) -> int:
    if seconds > LONG_BATCH:
        return max(size // 2, 1)
    return min(size * 2, most) if seconds < LONG_BATCH / 4 else size
