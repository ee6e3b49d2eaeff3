"""What time it is for a bucket, judged by the Date of every answer and by how much time passed here in between.

A horizon that moves too far forgets files that are still to come, so one Date alone is not believed: an answer that differs
from those before it may come from a gateway whose clock is wrong, and so may those before it. The time that a scan begins is
the lowest that anything speaks for, and horizons stay where they are until all answers have agreed for the longest lateness:
whatever was stamped by another clock before is below no horizon by then. Only elapsed time is taken from this machine.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from triggers.base import Finding
from triggers.file_scan.versions import SECOND, Moment, format_moment, length_of

TOLERANCE: Final = 5 * SECOND
ENOUGH: Final = 3
"""Answers that agree, one after the other, before anything is believed."""

_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> int:
    """Microseconds since the machine was started, those of its sleep included."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1000


@dataclass(frozen=True, kw_only=True)
class DatedResponse:
    """A Date, which is in whole seconds, and when it was asked for and came, by `elapsed`."""

    date: Moment
    asked: int
    answered: int

    @property
    def earliest(self) -> Moment:
        """Not later than whatever it shows, by the clock that dated it."""
        return self.date - (self.answered - self.asked)

    def projected(self, at: int) -> Moment:
        """What that clock shows at a later moment, at least."""
        return self.date + (at - self.answered)

    def agrees(self, other: DatedResponse) -> bool:
        least, most = other.asked - self.answered, other.answered - self.asked
        return least - TOLERANCE <= other.date - self.date <= most + TOLERANCE

    @property
    def is_quick(self) -> bool:
        return self.answered - self.asked <= SECOND


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """`moment` is not later than the listing it came with. `is_agreed`: enough answers in a row say the same."""

    moment: Moment
    is_agreed: bool = True
    is_believed: bool = True
    """Horizons may follow it."""


class ServerClock:
    """Of one bucket, for all its watchers."""

    def __init__(self) -> None:
        self.lateness = 0
        """The longest of the bucket's watchers, in microseconds."""
        self._recent: deque[DatedResponse] = deque(maxlen=ENOUGH)
        self._last: DatedResponse | None = None
        """The newest of a run of answers that agree with each other."""
        self._since = 0
        self._count = 0
        self._trusted: DatedResponse | None = None
        self._dispute: tuple[Moment, Moment] | None = None
        """What the first answer said that did not agree, and what those before it had led to expect."""

    def follow(self, lateness: timedelta) -> None:
        """A watcher of this lateness relies on it."""
        self.lateness = max(self.lateness, length_of(lateness))

    @property
    def is_known(self) -> bool:
        return len(self._recent) == ENOUGH

    @property
    def finding(self) -> Finding | None:
        """For people, while horizons wait."""
        if self._dispute is None:
            return None
        date, expected = map(format_moment, self._dispute)
        return Finding.warning(
            "clock",
            f"the server's answers disagree about the time: one was dated {date} where those before it led to expect {expected}; "
            "nothing is lost, and what is remembered of files grows until all have agreed for lateness",
            "set the clocks of the S3 server and of each gateway in front of it by NTP",
        )

    def observe(self, answer: DatedResponse) -> ClockReading:
        """Of every answer, in the order in which they came."""
        bounds = self._bounds(answer)
        if self._last is None:
            self._begin(answer)
        elif not self._last.agrees(answer):
            expected = self._last.projected(answer.answered) // SECOND * SECOND
            self._dispute = self._dispute or (answer.date, expected)
            self._begin(answer)
        else:
            self._count += 1
            self._last = answer if answer.is_quick else self._last
        believed = self._is_believed(answer)
        if believed:
            self._trusted, self._dispute = self._last, None
        elif self._trusted is not None and self._trusted.agrees(answer) and answer.is_quick:
            self._trusted = answer
        self._recent.append(answer)
        return ClockReading(
            moment=min([answer.earliest, *bounds]), is_agreed=self._count >= ENOUGH, is_believed=believed
        )

    def _begin(self, answer: DatedResponse) -> None:
        self._last, self._since, self._count = answer, answer.asked, 1

    def _is_believed(self, answer: DatedResponse) -> bool:
        agreed_for = answer.answered - self._since
        return self._count >= ENOUGH and (self._dispute is None or agreed_for >= self.lateness)

    def _bounds(self, answer: DatedResponse) -> list[Moment]:
        """What others say that it is at least, the time now; a believed one with what clocks may differ by."""
        if self._trusted is not None:
            return [self._trusted.projected(answer.answered) + TOLERANCE]
        return [each.projected(answer.asked) for each in self._recent]
