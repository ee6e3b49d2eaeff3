"""One job in a thread for many folders, which looks whether anything in them has changed since their watchers listed them.

A settled watcher waits for nothing but a change of its folder, so that its poll is one walk over names and time stamps, and a
hundred such walks are one job. The answer is a hint. It decides nothing: whose folder changed polls by itself, and so does
whose folder cannot be looked at, or keeps the others waiting. A change that comes after a look is there for the next one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
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
from triggers.file_scan.trigger import QuietLook
from triggers.local_folder.folder import FolderListing, clock, is_as_listed, list_files

FOLDERS: Final = 100
"""Of one job."""
PATIENCE: Final = 1.0
"""Seconds for one job: a mount that hangs must not keep the folders behind it waiting."""
THREADS: Final = 4
LISTINGS: Final = 40
"""At the same time, those not counted that nobody waits for any more."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, slots=True)
class RestingFolder:
    """What a watcher knows of its folder while it rests. `wake` is called when a look shows something else."""

    root: str
    matcher: Matcher
    digest: bytes
    wake: Callable[[], None]
    look: QuietLook | None = None
    """The last one that was made for it, and had no news."""
    is_slow: bool = False
    """A job had no patience for it: it had better be polled alone."""

    def is_quiet(self) -> bool:
        """Blocks."""
        try:
            return is_as_listed(self.root, self.matcher, self.digest)
        except OSError:  # the watcher's own poll says what it means
            return False

    def hear(self, look: QuietLook | None) -> None:
        if look is None:
            self.wake()
        else:
            self.look = look


@dataclass(kw_only=True, eq=False)
class _Job:
    """Runs in a thread. What it finds is one step ahead of where it is; nobody waits for it once it is `abandoned`."""

    folders: Sequence[RestingFolder]
    looks: list[QuietLook | None] = field(default_factory=list)
    abandoned: bool = False

    def run(self) -> None:
        for folder in self.folders:
            look = QuietLook(began=monotonic(), clock=clock())
            self.looks.append(look if folder.is_quiet() else None)
            if self.abandoned:
                return


class FolderProbes:
    """Of all watchers of folders in a process. Those with one interval are looked at one after the other."""

    def __init__(self, tasks: TaskGroup, random: Callable[[], float] = random.random) -> None:
        """`random` draws jitter from [0, 1)."""
        self._tasks = tasks
        self._random = random
        self._threads = anyio.CapacityLimiter(THREADS)
        self._rounds: dict[float, set[RestingFolder]] = {}
        self._listings = anyio.CapacityLimiter(LISTINGS)
        self._no_limit = anyio.CapacityLimiter(math.inf)
        self._given_up: dict[str, anyio.Event] = {}
        """When a listing of a folder is over for which its watcher waits no more."""

    async def list_files(self, root: str, matcher: Matcher) -> FolderListing:
        """As `folder.list_files`, in a thread. That cannot be stopped, so who is cancelled leaves it alone.

        The next listing of the folder waits until it is over: a mount that hangs takes one thread, however often it is tried.
        """
        while (last := self._given_up.get(root)) is not None:
            await last.wait()
        outcome: list[FolderListing | Exception] = []
        over = anyio.Event()

        async def listing() -> None:
            try:
                files = await run_sync(list_files, root, matcher, abandon_on_cancel=True, limiter=self._no_limit)
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
        """Look every `interval` seconds until it leaves."""
        if interval not in self._rounds:
            self._rounds[interval] = set()
            self._tasks.start_soon(self._run, interval, name=f"folders every {interval:g} s")
        self._rounds[interval].add(folder)

    def leave(self, folder: RestingFolder, interval: float) -> None:
        self._rounds[interval].discard(folder)

    async def _run(self, interval: float) -> None:
        resting = self._rounds[interval]
        while resting:
            await anyio.sleep(interval * (1 + self._random() / 10))
            folders = iter([*resting])
            while job := [*islice(folders, FOLDERS)]:
                await self._look_or_wake([folder for folder in job if folder in resting])
        del self._rounds[interval]

    async def _look_or_wake(self, folders: Sequence[RestingFolder]) -> None:
        try:
            await self._look(folders)
        except Exception as error:
            log.warning("file.probe_failed", folders=len(folders), error=str(error), exc_info=True)
            for folder in folders:
                folder.wake()

    async def _look(self, folders: Sequence[RestingFolder]) -> None:
        """Whose folder is in the way when patience ends is told so, and the look goes on behind it."""
        while folders:
            job = _Job(folders=folders)
            with anyio.move_on_after(PATIENCE):
                await run_sync(job.run, abandon_on_cancel=True, limiter=self._threads)
            job.abandoned, looks = True, [*job.looks]
            for folder, look in zip(folders, looks, strict=False):
                folder.hear(look)
            if culprit := folders[len(looks) : len(looks) + 1]:
                culprit[0].is_slow = True
                culprit[0].wake()
            folders = folders[len(looks) + 1 :]
