"""How far a watcher was behind: the largest lag of each hour, for two days."""

from __future__ import annotations

import json
from time import monotonic

import pytest

from tests.unit.frame.test_poll_history import end
from triggers.base import TriggerBatch
from watcher.host.lag_history import HOURS, LagHistory
from watcher.host.poll_history import PollHistory, parse


def ago(seconds: float) -> float:
    return monotonic() - seconds


def test_the_lag_of_an_hour_is_the_largest_just_before_a_whole_poll_is_over() -> None:
    lag = LagHistory()
    lag.note(None, hour=7)
    assert lag.by_hour == {}, "nothing is known before the first whole poll"
    lag.note(ago(30), hour=8)
    lag.note(ago(10), hour=8)
    assert lag.by_hour == {8: pytest.approx(30, abs=1)}
    lag.note(None, hour=9)
    assert lag.by_hour == {8: pytest.approx(30, abs=1), 9: pytest.approx(10, abs=1)}
    lag.note(ago(0), hour=9)
    lag.note(ago(0), hour=12)
    assert lag.by_hour == {8: pytest.approx(30, abs=1), 9: pytest.approx(10, abs=1), 12: pytest.approx(0, abs=1)}
    lag.note(ago(0), hour=11)
    assert set(lag.by_hour) == {8, 9, 12}, "a clock that was set back begins no hour"


def test_two_days_are_kept() -> None:
    lag = LagHistory()
    for hour in range(1000, 1060):
        assert lag.note(ago(1), hour=hour) == (hour > 1000)
        assert not lag.note(ago(1), hour=hour)
    assert list(lag.by_hour) == list(range(1060 - HOURS, 1060))
    lag.note(ago(1), hour=9999)
    assert list(lag.by_hour) == [9999]
    assert len(json.dumps(LagHistory.of(lag.stored).stored)) < 1000


def test_the_next_host_goes_on_with_what_was_stored() -> None:
    before, after = PollHistory(), PollHistory()
    before.note(TriggerBatch(whole_since=ago(60)))
    assert not before.is_unsaved, "at a start not every watcher is written"
    before.lag._newest -= 1
    before.note(TriggerBatch(whole_since=ago(10)))
    assert before.is_unsaved, "an hour that is over is worth a write"
    stored = before.take()
    before.note(end())
    assert not before.is_unsaved
    after.begin_with(stored)
    assert after.lag.by_hour == pytest.approx(before.lag.by_hour, abs=0.01)
    assert [round(lag) for lag in after.lag.by_hour.values()] == [60, 60]
    after.fail("gone")
    assert after.lag.by_hour == pytest.approx(before.lag.by_hour, abs=0.01), (
        "how long the source was not polled by anybody is not known"
    )


def test_a_history_of_before_there_were_lags_is_read() -> None:
    history = parse('[{"started": "2026-01-31T12:00:00.000Z", "found": 3, "committed": 1}]')
    assert ([poll.found for poll in history.polls], history.lag.by_hour) == ([3], {})
    assert parse(None).polls == []
