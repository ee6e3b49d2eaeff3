"""The last polls of a watcher: when they began, how long they took, what they found; and how far it was behind, by hour.

The hosting process keeps them in memory. Now and then it also stores those that found something or failed, for other
processes and for the next host. An idle poll is not worth a write, unless an hour is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from triggers.base import TriggerBatch
from watcher.host.lag_history import LagHistory

MOST_POLLS: Final = 50


@dataclass(frozen=True, kw_only=True)
class Poll:
    """One poll, or the last of `times` consecutive polls that were alike. `seconds` None: the duration is unknown.

    A poll shared by many watchers moves the time of the last idle poll, and is not counted.
    """

    started: str
    seconds: float | None = None
    found: int = 0
    """The number of files and rows found."""
    committed: int = 0
    """The number of events committed."""
    error: str | None = None
    times: int = 1

    @property
    def is_idle(self) -> bool:
        return not self.found and not self.committed and self.error is None

    def repeats(self, other: Poll) -> bool:
        """Return whether this poll says nothing that `other` does not say."""
        return not self.committed and not other.committed and (self.found, self.error) == (other.found, other.error)


@dataclass(kw_only=True, eq=False, slots=True)
class PollHistory:
    """The polls of one watcher, as its batches become durable."""

    polls: list[Poll] = field(default_factory=list)
    """The polls, the oldest first."""
    is_unsaved: bool = False
    """True when something is worth a write."""
    lag: LagHistory = field(default_factory=LagHistory)
    _found: int = 0
    _committed: int = 0
    _is_over: bool = True
    """False while a noted batch waits for the end of its poll."""
    _caught_up: bool = False
    _looked_at: float | None = None
    """The start of the newest shared poll that is not among the polls yet."""

    def note(self, batch: TriggerBatch) -> None:
        """Note a durable batch. The last batch of a poll says when the poll began."""
        if batch.position is not None and not self._is_over and self._caught_up:
            self._end(None)  # the trigger does not say when its polls end
        self._found += sum(event.count for event in batch.events) + len(batch.rejected)
        self._committed += len(batch.events)
        self._is_over, self._caught_up = False, batch.caught_up
        self.is_unsaved |= self.lag.note(batch.whole_since)
        if batch.whole_since is not None:
            self._end(batch.whole_since)

    def look(self, began: float) -> None:
        """Note a shared poll that began then, by `time.monotonic`, and had nothing for this watcher: an idle poll."""
        self._looked_at = began
        self.is_unsaved |= self.lag.note(began)

    def newest_first(self) -> Sequence[Poll]:
        self._keep_look()
        return self.polls[::-1]

    def fail(self, error: str) -> None:
        """Note an error that ended the poll under way, or the pause after one."""
        self.is_unsaved |= self.lag.note(None)
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
        """Return what is worth a write as JSON. It counts as saved from here on."""
        self.is_unsaved = False
        polls = [vars(poll) for poll in self.polls if not poll.is_idle]
        return json.dumps({"polls": polls, "lag": self.lag.stored})

    def begin_with(self, stored: str | None) -> None:
        """Begin with what the previous host has stored."""
        before = parse(stored)
        self.polls = [*before.polls, *self.polls][-MOST_POLLS:]
        self.lag = before.lag


def parse(stored: str | None) -> PollHistory:
    """Return a stored history. Before there were lags it was the list of the polls."""
    content = [] if stored is None else json.loads(stored)
    if isinstance(content, list):
        return PollHistory(polls=[_poll_of(each) for each in content])
    return PollHistory(polls=[_poll_of(each) for each in content["polls"]], lag=LagHistory.of(content["lag"]))


def _poll_of(content: Mapping[str, Any]) -> Poll:
    return Poll(
        started=content["started"],
        seconds=content.get("seconds"),
        found=content.get("found", 0),
        committed=content.get("committed", 0),
        error=content.get("error"),
        times=content.get("times", 1),
    )


def _time_before(seconds: float) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
