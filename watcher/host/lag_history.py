"""How far a watcher was behind: its largest lag in each of the last hours."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Final

HOURS: Final = 48
_HOUR: Final = 3600


@dataclass(kw_only=True, eq=False, slots=True)
class LagHistory:
    """The largest lag of each hour, in seconds. Hours are counted from 1970; one without a poll has no lag.

    The lag at a time is what has passed since the begin of the last whole poll. It is largest just before the next one is over.
    """

    _seconds: array[float] = field(default_factory=lambda: array("f"))
    """The lags of the hours up to `_newest`; not a number where there is none."""
    _newest: int = 0
    _whole_since: float = nan
    """The begin of the last whole poll, by `time.monotonic`."""

    def note(self, whole_since: float | None, *, hour: int | None = None) -> bool:
        """Note something that is over now: a whole poll that began then, or without `whole_since` a part of one, or an error.

        Return whether an hour with a lag is over with it.
        """
        lag = time.monotonic() - (
            whole_since if isnan(self._whole_since) and whole_since is not None else self._whole_since
        )
        if whole_since is not None:
            self._whole_since = whole_since
        return not isnan(lag) and self._add(max(lag, 0.0), int(time.time() // _HOUR) if hour is None else hour)

    def _add(self, lag: float, hour: int) -> bool:
        if self._seconds and hour <= self._newest:  # a clock that was set back changes the newest hour
            self._seconds[-1] = max(self._seconds[-1], lag)
            return False
        is_first = not self._seconds
        gap = 0 if is_first else min(hour - self._newest - 1, HOURS)
        self._seconds.extend([*[nan] * gap, lag])
        del self._seconds[:-HOURS]
        self._newest = hour
        return not is_first

    @property
    def by_hour(self) -> Mapping[int, float]:
        """The lags of the hours that have one, the oldest first."""
        oldest = self._newest - len(self._seconds) + 1
        return {oldest + place: lag for place, lag in enumerate(self._seconds) if not isnan(lag)}

    @property
    def stored(self) -> Mapping[str, Any]:
        """What is stored as JSON."""
        lags = [None if isnan(lag) else round(lag, 3) for lag in self._seconds]
        return {"newest": self._newest, "seconds": lags}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> LagHistory:
        """Return what was stored."""
        lags = (nan if lag is None else lag for lag in stored["seconds"])
        return cls(_seconds=array("f", lags), _newest=stored["newest"])
