"""What follows a watcher's failure: its state, the pause before the next attempt, and giving up.

A watcher that works again after it began to fail twice within the hour is `unstable`, not `running`.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import anyio
import structlog

from store.catalog import watchers
from store.database import Database
from store.errors import StoreError
from store.processes import audit
from triggers.errors import SourceBusy, SourceChanged, SourceCopied, TriggerError
from triggers.retries import backoff
from triggers.shared.delays import sleep_for
from watcher.host.containment import sentence
from watcher.triggerer.status import WatcherStatus

LONGEST_PAUSE: Final = timedelta(minutes=5)
OFTEN: Final = 2
"""How often a watcher must begin to fail within `LOOKING_BACK` to be unstable while it works."""
LOOKING_BACK: Final = timedelta(hours=1)
MOST_REMEMBERED: Final = 3600
"""The most failures that are remembered: after each there is a pause."""
LONGEST_WAIT: Final = timedelta(seconds=2)
"""The pause between two attempts at a source that another client keeps for itself."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, slots=True)
class WatcherFailures:
    """The failures of one watcher since it last worked. `pause_after` failed polls in a row pause it; None: never."""

    database: Database
    owner: str
    status: WatcherStatus
    pause_after: int | None
    has_given_up: bool = False
    """The watcher is paused by its failures. The caller stops it, and leaves its row unchanged."""
    _pause: anyio.CancelScope | None = None
    _count: int = 0
    _polls: int = 0
    """The failures without those of our own database, and without those that wait for a person's decision."""
    _failed_at: deque[tuple[float, bool]] = field(default_factory=partial(deque, maxlen=MOST_REMEMBERED))
    """When polls have failed within the hour, by `time.monotonic`, and whether the watcher worked before."""
    _last: str = ""
    """What the last of them failed with."""

    @property
    def is_clear(self) -> bool:
        """True when nothing has failed since the watcher last worked."""
        return not self._count

    def clear(self) -> None:
        """Note that the watcher works, and show it."""
        self._count = self._polls = 0
        report = self.status.report
        if report.state != "running":
            self.has_given_up = False
        elif not self._failed_at:
            return
        self._show_what_works()

    def look_back(self) -> None:
        """Show that an unstable watcher is stable by now."""
        if self.status.report.state == "unstable":
            self._show_what_works()

    def _show_what_works(self) -> None:
        report, since = self.status.report, monotonic() - LOOKING_BACK.total_seconds()
        while self._failed_at and self._failed_at[0][0] < since:
            self._failed_at.popleft()
        if sum(worked_before for _, worked_before in self._failed_at) < OFTEN:
            if report.state != "running":
                self.status.show("running")
            return
        error = f"it works now, but {len(self._failed_at)} of its polls failed within the hour; the last: {self._last}"
        if (report.state, report.error) != ("unstable", error):
            self.status.show("unstable", error, failures=len(self._failed_at))

    async def take(self, error: BaseException) -> timedelta:
        """Show a failure, whatever was raised. Return the pause before the next attempt."""
        if isinstance(error, SourceBusy):
            if self.status.report.error != str(error):
                log.warning("watcher.waiting", error=str(error))
            self.status.show("waiting", str(error), failures=0)
            return LONGEST_WAIT
        self._count += 1
        self.status.report.history.fail(sentence(error))
        if isinstance(error, SourceCopied):
            self.status.blocking = error.finding
            self.status.note(None)
        blocked, words = isinstance(error, SourceChanged), sentence(error)
        pause = backoff(self._count, random.random, longest=LONGEST_PAUSE)
        expected = isinstance(error, (TriggerError, StoreError, OSError))
        log.error(
            "watcher.blocked" if blocked else "watcher.failed",
            error=words,
            kind=type(error).__name__,
            failures=self._count,
            retry_in=round(pause.total_seconds(), 1),
            exc_info=None if expected else error,
        )
        self.status.report.retry_at = monotonic() + pause.total_seconds()
        self.status.show("blocked" if blocked else "failing", words, failures=self._count)
        if not blocked and not isinstance(error, StoreError):
            self._failed_at.append((monotonic(), self._polls == 0))
            self._last = words
            self._polls += 1
        if self.pause_after is not None and self._polls >= self.pause_after:
            await self._give_up(words)
        return pause

    async def pause(self, pause: timedelta) -> None:
        """Return when the next attempt is due, or when `end_pause` is called."""
        self.status.report.retry_at = monotonic() + pause.total_seconds()
        try:
            with anyio.CancelScope() as self._pause:
                await sleep_for(pause.total_seconds())
        finally:
            self.status.report.retry_at = self._pause = None

    def end_pause(self) -> bool:
        """Have the next attempt now. Return False if the watcher does not wait for one."""
        if self._pause is None:
            return False
        self._pause.cancel()
        return True

    async def _give_up(self, words: str) -> None:
        """Pause the watcher. If the database does not answer, the next failure retries."""
        name, failures = self.status.watcher, self._polls
        why = f"{failures} polls in a row failed, so it was paused; correct the cause and `watcher resume {name}`. The last: {words}"
        detail = {"failures": failures, "error": words}
        if self.status.states is not None:
            await self.status.states.forget(name)
        try:
            async with self.database.transaction() as connection:
                paused = await watchers.give_up(connection, self.owner, name, error=why, error_count=failures)
                if paused:
                    await audit.record(connection, "watcher", "watcher.pause", name, detail)
        except StoreError as error:
            log.warning("watcher.not_paused", error=str(error), kind=type(error).__name__)
            self.status.record()
            return
        self.has_given_up = paused
        if paused:
            self._polls = 0  # a person may resume it before it is stopped
            log.error("watcher.gave_up", failures=failures)
            self.status.show("failing", why, failures=failures)
