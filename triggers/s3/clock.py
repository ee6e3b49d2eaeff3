"""The time at a bucket, judged by the Date of every response and by the time that passed here in between.

A horizon that moves too far forgets files that are still to come, so a single Date is not believed: a response that differs
from those before it may come from a gateway whose clock is wrong, and so may those before it. A scan begins at the lowest
time that anything indicates. Horizons stay where they are until all responses have agreed for the longest lateness: by then
no horizon is above anything that another clock stamped before. Only elapsed time is taken from this machine.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from triggers.base import Finding
from triggers.file_scan.versions import SECOND, Moment, format_moment, length_of, moment_of

TOLERANCE: Final = 5 * SECOND
ENOUGH: Final = 3
"""Responses that must agree, one after the other, before anything is believed."""

_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> int:
    """Microseconds since the machine was started, its sleep included."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1000


@dataclass(frozen=True, kw_only=True)
class DatedResponse:
    """The Date of a response, in whole seconds, and when the request was sent and the response came, by `elapsed`."""

    date: Moment
    sent: int
    received: int

    @property
    def earliest(self) -> Moment:
        """A moment, by the clock that dated the response, that is not later than anything the response shows."""
        return self.date - (self.received - self.sent)

    def projected(self, at: int) -> Moment:
        """The least time that the clock shows at a later moment."""
        return self.date + (at - self.received)

    def agrees(self, other: DatedResponse) -> bool:
        least, most = other.sent - self.received, other.received - self.sent
        return least - TOLERANCE <= other.date - self.date <= most + TOLERANCE

    @property
    def is_quick(self) -> bool:
        return self.received - self.sent <= SECOND


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """The time of a response. `moment` is not later than its listing; `is_agreed`: enough responses in a row agree."""

    moment: Moment
    is_agreed: bool = True
    is_believed: bool = True
    """Whether horizons may follow it."""


class ServerClock:
    """The clock of one bucket, for all its watchers."""

    def __init__(self) -> None:
        self.lateness = 0
        """The longest lateness of the bucket's watchers, in microseconds."""
        self._recent: deque[DatedResponse] = deque(maxlen=ENOUGH)
        self._last: DatedResponse | None = None
        """The newest of a run of responses that agree with each other."""
        self._since = 0
        self._count = 0
        self._trusted: DatedResponse | None = None
        self._dispute: tuple[Moment, Moment] | None = None
        """The Date of the first response that did not agree, and the Date that the responses before it led to expect."""

    def follow(self, lateness: timedelta) -> None:
        """Serve a watcher of this lateness, too."""
        self.lateness = max(self.lateness, length_of(lateness))

    @property
    def is_known(self) -> bool:
        return len(self._recent) == ENOUGH

    @property
    def finding(self) -> Finding | None:
        """A warning for people, while horizons wait."""
        if self._dispute is None:
            return None
        date, expected = map(format_moment, self._dispute)
        return Finding.warning(
            "clock",
            f"the server's responses disagree about the time: one was dated {date} where those before it led to expect {expected}; "
            "nothing is lost, and what is remembered of files grows until all have agreed for lateness",
            "set the clocks of the S3 server and of each gateway in front of it by NTP",
        )

    def observe(self, response: DatedResponse) -> ClockReading:
        """Judge a response. Called with every response, in the order in which they came."""
        bounds = self._bounds(response)
        if self._last is None:
            self._begin(response)
        elif not self._last.agrees(response):
            expected = self._last.projected(response.received) // SECOND * SECOND
            self._dispute = self._dispute or (response.date, expected)
            self._begin(response)
        else:
            self._count += 1
            self._last = response if response.is_quick else self._last
        believed = self._is_believed(response)
        if believed:
            self._trusted, self._dispute = self._last, None
        elif self._trusted is not None and self._trusted.agrees(response) and response.is_quick:
            self._trusted = response
        self._recent.append(response)
        return ClockReading(
            moment=min([response.earliest, *bounds]), is_agreed=self._count >= ENOUGH, is_believed=believed
        )

    def _begin(self, response: DatedResponse) -> None:
        self._last, self._since, self._count = response, response.sent, 1

    def _is_believed(self, response: DatedResponse) -> bool:
        agreed_for = response.received - self._since
        return self._count >= ENOUGH and (self._dispute is None or agreed_for >= self.lateness)

    def _bounds(self, response: DatedResponse) -> list[Moment]:
        """The least time now by earlier responses; the trusted one allows for the tolerance."""
        if self._trusted is not None:
            return [self._trusted.projected(response.received) + TOLERANCE]
        return [each.projected(response.sent) for each in self._recent]


def moment_of_date(date: str | None) -> Moment | None:
    """Return the moment of a Date or Last-Modified header; None for any other text."""
    try:
        return None if date is None else moment_of(parsedate_to_datetime(date))
    except ValueError:
        return None
