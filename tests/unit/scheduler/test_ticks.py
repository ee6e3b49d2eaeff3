"""When cron expressions fire, also on days when the clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.keys import CronSchedule
from watcher.scheduling.planning.ticks import between, due, following, latest, upcoming

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression, timezone="UTC"):
    return CronSchedule(expression=expression, timezone=timezone)


def shown(moments):
    return [moment.astimezone(UTC).strftime("%d %H:%M") for moment in moments]


@pytest.mark.parametrize(
    ("expression", "timezone", "day", "expected"),
    [
        ("0 */6 * * *", "UTC", "2026-11-20", ["20 00:00", "20 06:00", "20 12:00", "20 18:00"]),
        ("0 9 * * *", "Europe/Berlin", "2026-01-15", ["15 08:00"]),
        ("0 9 * * *", "Europe/Berlin", "2026-07-15", ["15 07:00"]),
        ("@daily", "America/New_York", "2026-07-15", ["15 04:00"]),
        # 29 March 2026 in Berlin: 02:00 to 03:00 is skipped at 01:00 UTC.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 01:30"]),
        ("30 2,3 * * *", "Europe/Berlin", "2026-03-29", ["29 01:30"]),
        ("30 1-3 * * *", "Europe/Berlin", "2026-03-29", ["29 00:30", "29 01:30", "29 23:30"]),
        # 25 October 2026 in Berlin: 02:00 to 03:00 is there twice, from 00:00 and from 01:00 UTC.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["25 01:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25", ["25 01:00", "25 01:30"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-25", ["25 02:00"]),
        # Half an hour, in the other half of the year; 5 April 2026 at 15:00 UTC on the 4th.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04", ["04 15:15"]),
    ],
)
def test_a_day_has_these_ticks(expression, timezone, day, expected):
    start = utc(day) - timedelta(microseconds=1)
    assert shown(between(cron(expression, timezone), start, start + timedelta(days=1))) == expected


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-07-15"])
def test_every_hour_is_every_hour_that_passes(day):
    found = between(cron("15 * * * *", "Europe/Berlin"), utc(day), utc(day) + timedelta(days=1))
    assert found == [utc(day) + timedelta(hours=hour, minutes=15) for hour in range(24)]


def test_an_hour_that_loses_half_an_hour_has_no_tick_in_the_lost_half():
    found = between(cron("15 * * * *", "Australia/Lord_Howe"), utc("2026-10-03T14:00"), utc("2026-10-03T18:00"))
    assert shown(found) == ["03 14:45", "03 16:15", "03 17:15"]


def test_the_lower_bound_is_exclusive_and_the_upper_one_inclusive():
    hourly = cron("0 * * * *")
    assert between(hourly, utc("2026-01-01T10:00"), utc("2026-01-01T12:00")) == [
        utc("2026-01-01T11:00"),
        utc("2026-01-01T12:00"),
    ]
    assert following(hourly, utc("2026-01-01T10:00")) == utc("2026-01-01T11:00")
    assert latest(hourly, utc("2026-01-01T10:00"), utc("2026-01-01T11:00")) == utc("2026-01-01T11:00")
    assert latest(hourly, utc("2026-01-01T10:00"), utc("2026-01-01T10:59")) is None


def test_rare_ticks_are_found():
    leap = cron("0 0 29 2 *")
    assert following(leap, utc("2026-01-01")) == utc("2028-02-29")
    assert latest(leap, utc("2000-03-01"), utc("2026-01-01")) == utc("2024-02-29")


def test_missed_ticks_make_one_run_or_one_each():
    hourly = cron("0 * * * *")
    first, now = utc("2026-01-01T01:00"), utc("2026-01-01T04:30")
    assert due(hourly, first, now, catchup=False) == [utc("2026-01-01T04:00")]
    assert shown(due(hourly, first, now, catchup=True)) == ["01 01:00", "01 02:00", "01 03:00", "01 04:00"]
    assert due(hourly, utc("2026-01-01T05:00"), now, catchup=True) == []
    assert due(hourly, utc("2026-01-01T05:00"), now, catchup=False) == []


def test_years_of_missed_ticks_are_taken_in_bounded_steps():
    minutely = cron("* * * * *")
    now = utc("2026-01-01")
    assert due(minutely, utc("2016-01-01"), now, catchup=False) == [now]
    assert len(due(minutely, utc("2016-01-01"), now, catchup=True)) == 100


@given(
    start=st.integers(946_684_800, 2_208_988_800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    cuts=st.lists(st.integers(1, 5 * 86_400), min_size=1, max_size=5),
    expression=st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 0-4 * * *", "5 1,2,3 * * 0", "0 0 1 * *"]),
    timezone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
)
def test_the_ticks_do_not_depend_on_how_often_they_are_checked(start, cuts, expression, timezone):
    schedule, at, pieces = cron(expression, timezone), start, []
    for seconds in cuts:
        pieces += between(schedule, at, at + timedelta(seconds=seconds))
        at += timedelta(seconds=seconds)
    whole = between(schedule, start, at)
    assert pieces == whole
    assert list(islice(upcoming(schedule, start), len(whole))) == whole
    assert latest(schedule, start, at) == (whole[-1] if whole else None)
