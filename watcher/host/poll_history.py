"""The last polls of a watcher: when, for how long, what they found. An idle one is worth no write.

The process that hosts the watcher has them in memory. What found something, or failed, it also stores now and then: for other
processes, and for whoever hosts the watcher next.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

from triggers.base import TriggerBatch

MOST_POLLS: Final = 50


@dataclass(frozen=True, kw_only=True)
class Poll:
    """`seconds` None: how long it took is not known. `times`: so many in a row were like it, and this is the last.

    A look that is made for many watchers moves the last idle poll, and is not counted.
    """

    started: str
    seconds: float | None = None
    found: int = 0
    """Files and rows."""
    committed: int = 0
    """Events."""
    error: str | None = None
    times: int = 1

    @property
    def is_idle(self) -> bool:
        return not self.found and not self.committed and self.error is None

    def repeats(self, other: Poll) -> bool:
        """Nothing new is to be said of it."""
        return not self.committed and not other.committed and (self.found, self.error) == (other.found, other.error)


@dataclass(kw_only=True, eq=False, slots=True)
class PollHistory:
    """Of one watcher, as its batches become durable."""

    polls: list[Poll] = field(default_factory=list)
    """The oldest first."""
    is_unsaved: bool = False
    """Something is worth a write."""
    _found: int = 0
    _committed: int = 0
    _is_over: bool = True
    """No batch that was noted waits for the end of its poll."""
    _caught_up: bool = False
    _looked_at: float | None = None
    """The newest look that is not among the polls yet."""

    def note(self, batch: TriggerBatch) -> None:
        """A batch that is durable; the last one of a poll says since when it looked."""
        if batch.position is not None and not self._is_over and self._caught_up:
            self._end(None)  # of a trigger that does not say when its looks end
        self._found += sum(event.count for event in batch.events) + len(batch.rejected)
        self._committed += len(batch.events)
        self._is_over, self._caught_up = False, batch.caught_up
        if batch.whole_since is not None:
            self._end(batch.whole_since)

    def look(self, began: float) -> None:
        """One that was made for many watchers began then, by `time.monotonic`, and had nothing for this one: an idle poll."""
        self._looked_at = began

    def newest_first(self) -> Sequence[Poll]:
        self._keep_look()
        return self.polls[::-1]

    def fail(self, error: str) -> None:
        """The poll under way, or the pause after one, ended with it."""
        self._end(None, error)

    def _end(self, since: float | None, error: str | None = None) -> None:
        self._keep_look()
        seconds = None if since is None else max(monotonic() - since, 0.0)
        rounded = None if seconds is None else round(seconds, 6)
        started = _time_before(seconds or 0)
        poll = Poll(started=started, seconds=rounded, found=self._found, committed=self._committed, error=error)
        self._found = self._committed = 0
        self._is_over = True
        self._add(poll)

    def _keep_look(self) -> None:
        if self._looked_at is None:
            return
        times = self.polls.pop().times if self.polls and self.polls[-1].is_idle else 1
        poll = Poll(started=_time_before(monotonic() - self._looked_at), times=times)
        self._looked_at = None
        self.polls = [*self.polls[1 - MOST_POLLS :], poll]

    def _add(self, poll: Poll) -> None:
        if self.polls and poll.repeats(self.polls[-1]):
            poll = replace(poll, times=self.polls.pop().times + 1)
        else:
            self.is_unsaved |= not poll.is_idle
        self.polls = [*self.polls[1 - MOST_POLLS :], poll]

    def take(self) -> str:
        """What is worth a write, as JSON; from here on it counts as saved."""
        self.is_unsaved = False
        return json.dumps([vars(poll) for poll in self.polls if not poll.is_idle])

    def begin_with(self, stored: str | None) -> None:
        """What whoever hosted the watcher before has stored."""
        self.polls = [*parse(stored), *self.polls][-MOST_POLLS:]


def parse(stored: str | None) -> Sequence[Poll]:
    return [] if stored is None else [Poll(**poll) for poll in json.loads(stored)]


def _time_before(seconds: float) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
