"""The line of a watcher's lag by hour: points and what joins them, the highest at the largest lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from watcher.features.pages.pictures.timeline import TimeSpan
from watcher.features.pages.words import duration, moment

_HOUR = timedelta(hours=1)
_ROUND = 3
"""What a point needs above and below it."""


@dataclass(frozen=True, kw_only=True)
class LagPoint:
    """The lag of an hour, in the middle of what is shown of it. `x` is in percent."""

    hour: int
    x: float
    y: float
    title: str


@dataclass(frozen=True, kw_only=True)
class LagLine:
    """The points of a line and its pieces: no piece leads over an hour without a lag."""

    points: Sequence[LagPoint]
    pieces: Sequence[tuple[LagPoint, LagPoint]]
    most: float


def lag_line(span: TimeSpan, by_hour: Mapping[int, float], now: float | None, height: int) -> LagLine:
    """Draw the lags of the span's hours, the oldest first. `now` is the lag at its end, if it is known."""
    newest = int(span.until.timestamp() // _HOUR.total_seconds())
    lags = dict(by_hour) if now is None else {**by_hour, newest: max(now, by_hour.get(newest, 0.0))}
    shown = {hour: lag for hour, lag in lags.items() if _begin(hour) + _HOUR > span.since and hour <= newest}
    most = max(shown.values(), default=0.0)
    points = [_point(span, hour, lag, lag / most if most else 0.0, height) for hour, lag in sorted(shown.items())]
    pieces = [(one, other) for one, other in pairwise(points) if other.hour == one.hour + 1]
    return LagLine(points=points, pieces=pieces, most=most)


def _begin(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * _HOUR.total_seconds(), UTC)


def _point(span: TimeSpan, hour: int, lag: float, share: float, height: int) -> LagPoint:
    begin, end = max(_begin(hour), span.since), min(_begin(hour) + _HOUR, span.until)
    return LagPoint(
        hour=hour,
        x=span.x(begin + (end - begin) / 2),
        y=round(height - _ROUND - share * (height - 2 * _ROUND), 1),
        title=f"behind by {duration(lag)} at most, {moment(begin)} to {moment(end)}",
    )
