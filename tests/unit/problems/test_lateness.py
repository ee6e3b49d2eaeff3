"""Deadlines by the clock: from when on something is late, and when it no longer is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from store.keys import ClockDeadline, CronSchedule
from watcher.features.problems.lateness import late_since

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}:00").replace(tzinfo=UTC)


def due(expression: str = "0 7 * * *", timezone: str = "UTC", hours: int = 24) -> ClockDeadline:
    return ClockDeadline(cron=CronSchedule(expression=expression, timezone=timezone), since=timedelta(hours=hours))


@pytest.mark.parametrize(
    ("last", "now", "late"),
    [
        ("11-26T06:59", "11-26T07:00", None),
        ("11-25T07:01", "11-26T07:00", None),
        ("11-25T07:00", "11-26T06:59", None),
        ("11-25T07:00", "11-26T07:00", "11-26T07:00"),
        ("11-25T07:00", "11-26T20:00", "11-26T07:00"),
        ("11-25T07:00", "11-29T20:00", "11-26T07:00"),
        ("11-26T07:30", "11-26T20:00", None),
        (None, "11-26T06:59", None),
        (None, "11-26T07:00", "11-26T07:00"),
    ],
)
def test_it_is_late_from_its_time_on_until_it_happens(last: str | None, now: str, late: str | None) -> None:
    since = late_since(due(), last and at(last), at("11-25T12:00"), at(now))
    assert since == (late and at(late))


def test_a_new_one_has_until_the_first_of_its_times() -> None:
    assert late_since(due(), None, at("11-26T08:00"), at("11-27T06:59")) is None
    assert late_since(due(), None, at("11-26T08:00"), at("11-27T07:00")) == at("11-27T07:00")


def test_since_bounds_how_long_before_it_may_have_happened() -> None:
    assert late_since(due(hours=2), at("11-26T04:59"), at("01-01T00:00"), at("11-26T07:00")) == at("11-26T07:00")
    assert late_since(due(hours=2), at("11-26T05:01"), at("01-01T00:00"), at("11-26T07:00")) is None
    assert late_since(due(hours=72), at("11-24T08:00"), at("01-01T00:00"), at("11-26T07:00")) is None


def test_days_and_time_zones_count() -> None:
    weekdays = due("0 7 * * 1-5")  # the 27th is a Friday
    assert late_since(weekdays, at("11-27T06:00"), at("01-01T00:00"), at("11-29T12:00")) is None
    assert late_since(weekdays, at("11-27T06:00"), at("01-01T00:00"), at("11-30T07:00")) == at("11-30T07:00")
    summer, winter = due("0 7 * * *", BERLIN), due("0 7 * * *", BERLIN)
    assert late_since(summer, None, at("07-01T06:00"), at("07-02T12:00")) == at("07-02T05:00")
    assert late_since(winter, None, at("11-01T07:00"), at("11-02T12:00")) == at("11-02T06:00")
