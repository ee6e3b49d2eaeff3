"""Shared polls of folders: one job in a thread checks whether many folders are still as their watchers listed them.

A settled watcher waits for nothing but a change of its folder, so that its poll is one walk over names and time stamps, and a
hundred such walks are one job. The answer is a hint and decides nothing. A watcher polls by itself when its folder has
changed, cannot be checked, or delays the others. The next poll finds a change that comes after this one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from triggers.errors import SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.trigger import QuietPoll
from triggers.hosting import SharedPolls
from triggers.local_folder.folder import FolderListing, Identity, clock, is_as_listed, list_files

FOLDERS: Final = 100
"""The most folders of one job."""
PATIENCE: Final = 1.0
"""Seconds for one job: a mount that hangs must not delay the folders behind it."""
THREADS: Final = 4
"""The most jobs at the same time."""
LISTINGS: Final = 40
"""The most listings at the same time, without those that nobody waits for any more."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, slots=True)
class RestingFolder:
    """What a watcher knows of its folder while it rests. `wake` is called when a check shows something else."""

    root: str
    matcher: Matcher
    digest: bytes
    wake: Callable[[], None]
    last_quiet: QuietPoll | None = None
    """The last poll that was made for it and had no news."""
    is_slow: bool = False
    """The check took so long that others had to wait: the folder should be polled alone."""

    def is_quiet(self) -> bool:
        """Whether nothing has changed since the folder was listed; blocks."""
        try:
            return is_as_listed(self.root, self.matcher, self.digest)
        except OSError:  # the watcher's own poll says what it means
            return False

    def hear(self, poll: QuietPoll | None) -> None:
        """Take the outcome of a shared poll; None: there may be news."""
        if poll is None:
            self.wake()
        else:
            self.last_quiet = poll


@dataclass(kw_only=True, eq=False)
class _Job:
    """The check of several folders, in a thread. Nobody waits for it any more once it is `abandoned`."""

    folders: Sequence[RestingFolder]
    polls: list[QuietPoll | None] = field(default_factory=list)
    """The outcomes for the first folders; the folder behind them is being checked."""
    abandoned: bool = False

    def run(self) -> None:
        for folder in self.folders:
            poll = QuietPoll(began=monotonic(), clock=clock())
            self.polls.append(poll if folder.is_quiet() else None)
            if self.abandoned:
                return


class FolderProbes:
    """The shared polls of all watchers of folders in a process. Folders with one interval are checked one after the other."""

    def __init__(self, tasks: TaskGroup, random: Callable[[], float] = random.random) -> None:
        """`random` draws jitter from [0, 1)."""
        self._tasks = tasks
        self._polls = SharedPolls[float, RestingFolder](self._poll, tasks, random)
        self._threads = anyio.CapacityLimiter(THREADS)
        self._listings = anyio.CapacityLimiter(LISTINGS)
        self._no_limit = anyio.CapacityLimiter(math.inf)
        self._given_up: dict[str, anyio.Event] = {}
        """Events by folder. Each is set when the listing ends that its watcher no longer waits for."""

    async def list_files(self, root: str, matcher: Matcher, identity: Identity) -> FolderListing:
        """Call `folder.list_files` in a thread, which cannot be stopped: a caller that is cancelled leaves it behind.

        The next listing of the folder waits until that one is over: a mount that hangs takes one thread, however often it is
        retried.
        """
        while (last := self._given_up.get(root)) is not None:
            await last.wait()
        outcome: list[FolderListing | Exception] = []
        over = anyio.Event()

        async def listing() -> None:
            try:
                files = await run_sync(
                    list_files, root, matcher, identity, abandon_on_cancel=True, limiter=self._no_limit
                )
                outcome.append(files)
            except Exception as error:  # noqa: BLE001 - raised below
                outcome.append(error)
            finally:
                over.set()
                if self._given_up.get(root) is over:
                    del self._given_up[root]

        async with self._listings:
            self._tasks.start_soon(listing, name=f"listing of {root}")
            try:
                await over.wait()
            finally:
                if not over.is_set():
                    self._given_up[root] = over
        [result] = outcome or [SourceUnavailable(f"{root!r} was not listed: this process ends")]
        if isinstance(result, Exception):
            raise result
        return result

    def join(self, folder: RestingFolder, interval: float) -> None:
        """Check the folder every `interval` seconds until it leaves."""
        self._polls.join(interval, folder, interval=interval)

    def leave(self, folder: RestingFolder, interval: float) -> None:
        self._polls.leave(interval, folder)

    async def _poll(self, _interval: float, resting: Collection[RestingFolder]) -> None:
        folders = iter([*resting])
        while job := [*islice(folders, FOLDERS)]:
            await self._check_or_wake([folder for folder in job if folder in resting])

    async def _check_or_wake(self, folders: Sequence[RestingFolder]) -> None:
        try:
            await self._check(folders)
        except Exception as error:
            log.warning("file.probe_failed", folders=len(folders), error=str(error), exc_info=True)
            for folder in folders:
                folder.wake()

    async def _check(self, folders: Sequence[RestingFolder]) -> None:
        """Check each folder. The one that is being checked when `PATIENCE` ends is slow; the check goes on behind it."""
        while folders:
            job = _Job(folders=folders)
            with anyio.move_on_after(PATIENCE):
                await run_sync(job.run, abandon_on_cancel=True, limiter=self._threads)
            job.abandoned, polls = True, [*job.polls]
            for folder, poll in zip(folders, polls, strict=False):
                folder.hear(poll)
            if culprit := folders[len(polls) : len(polls) + 1]:
                culprit[0].is_slow = True
                culprit[0].wake()
            folders = folders[len(polls) + 1 :]
