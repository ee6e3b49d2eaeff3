"""The line of a watcher's lag: its points and pieces."""

from __future__ import annotations

from datetime import UTC, datetime

from watcher.features.pages.pictures.lag_line import lag_line
from watcher.features.pages.pictures.timeline import TimeSpan

SPAN = TimeSpan(zoom="day", until=datetime(2026, 1, 31, 12, 30, tzinfo=UTC))
NEWEST = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) // 3600


def test_points_stand_at_their_hours_and_the_largest_lag_is_at_the_top() -> None:
    line = lag_line(SPAN, {NEWEST - 6: 0.0, NEWEST - 3: 60.0, NEWEST - 2: 120.0, NEWEST - 40: 9999.0}, None, 60)
    assert line.most == 120
    assert [(point.hour - NEWEST, point.x, point.y) for point in line.points] == [
        (-6, 75.0, 57.0),
        (-3, 87.5, 30.0),
        (-2, 91.67, 3.0),
    ]
    assert [(one.hour - NEWEST, other.hour - NEWEST) for one, other in line.pieces] == [(-3, -2)]
    assert line.points[-1].title.startswith("behind by 2 min at most, ")


def test_the_lag_of_now_is_that_of_the_last_hour() -> None:
    line = lag_line(SPAN, {NEWEST: 5.0}, 3600.0, 60)
    assert [(point.x, point.y) for point in line.points] == [(98.96, 3.0)]
    assert lag_line(SPAN, {NEWEST: 5.0}, 1.0, 60).most == 5
    assert lag_line(SPAN, {}, None, 60).points == []
    assert [point.y for point in lag_line(SPAN, {NEWEST: 0.0}, 0.0, 60).points] == [57.0]
