"""A run that takes longer than its job expects is a problem, and one that takes much longer than usual is a hint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from store.features.problems.conditions import RunningRun
from store.keys import JobDefinition
from watcher.features.problems.long_runs import jobs_at_their_limit, long_runs, worth_comparing

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def running(minutes: int, within: int | None = None, *, run_id: str = "r", limit: int = 1) -> RunningRun:
    expected = None if within is None else within * MINUTE
    definition = JobDefinition(expect_within=expected, max_active_runs=limit)
    return RunningRun(dag_id="load", run_id=run_id, start_date=NOW - minutes * MINUTE, definition=definition)


@pytest.mark.parametrize(
    ("run", "took_minutes", "level", "minutes_ago"),
    [
        (running(5000), [], None, 0),
        (running(59), [1], None, 0),
        (running(60), [1], "info", 0),
        (running(90), [1, 1, 2, 100], "info", 30),
        (running(99), [10, 10, 1], None, 0),
        (running(100), [10, 10, 1], "info", 0),
        (running(60, within=60), [], None, 0),
        (running(61, within=60), [], "error", 1),
        (running(500, within=60), [1], "error", 440),
        (running(70, within=600), [1], "info", 10),
    ],
)
def test_only_what_is_too_long(run: RunningRun, took_minutes: list[int], level: str | None, minutes_ago: int) -> None:
    took = {"load": [minutes * 60.0 for minutes in took_minutes]}
    problems = long_runs([run], took, NOW)
    assert [(each.level, each.since) for each in problems] == ([(level, NOW - minutes_ago * MINUTE)] if level else [])


def test_what_runs_took_before_is_read_only_where_it_matters() -> None:
    assert worth_comparing([running(59), running(90, within=60)], NOW) == frozenset()
    assert worth_comparing([running(60)], NOW) == {"load"}


def test_events_wait_behind_as_many_runs_as_may_run() -> None:
    both = [running(1, run_id="second", limit=2), running(2, run_id="first", limit=2)]
    assert jobs_at_their_limit(both[:1]) == {}
    assert [run.run_id for run in jobs_at_their_limit(both)["load"]] == ["first", "second"]
