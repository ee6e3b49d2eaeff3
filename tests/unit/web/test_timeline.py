"""The timeline puts runs and events where their times are, and shows failures however short they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from store.features.pages.run_spans import JobInSpan, RunGroup
from watcher.features.pages.pictures.timeline import TimelineBar, TimeSpan, hour_marks, job_rows, ticks

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = TimeSpan(zoom="day", until=NOON)
JOB = JobInSpan(dag_id="load", runs=3, failures=1, total=1)


def bar(state: str, hours_ago: float, hours: float, runs: int = 1) -> TimelineBar:
    began = NOON - timedelta(hours=hours_ago)
    group = RunGroup(
        dag_id="load", state=state, runs=runs, run_id="a/b", began=began, ended=began + timedelta(hours=hours)
    )
    ((only,),) = [row.bars for row in job_rows(DAY, [JOB], [group])]
    return only


def test_now_is_at_the_right_and_a_run_is_where_it_was() -> None:
    six_hours = bar("success", hours_ago=6, hours=6)
    assert (six_hours.x, six_hours.width) == (75.0, 25.0)
    assert (bar("success", 12, 3).x, bar("success", 12, 3).width) == (50.0, 12.5)


def test_what_began_before_the_span_begins_at_its_edge() -> None:
    assert (bar("running", 48, 48).x, bar("running", 48, 48).width) == (0.0, 100.0)


@pytest.mark.parametrize("hours_ago", [12, 0.001])
def test_a_failure_of_a_second_is_wide_enough_to_be_seen_and_stays_within_the_drawing(hours_ago: float) -> None:
    failed, fine = bar("failed", hours_ago, 1 / 3600), bar("success", hours_ago, 1 / 3600)
    assert failed.width >= 1.0 > fine.width > 0
    assert failed.x + failed.width <= 100


def test_a_bar_leads_to_its_run_and_several_to_their_list() -> None:
    assert bar("success", 6, 1).page == "runs/load/a%2Fb"
    assert bar("failed", 6, 1, runs=12).page == "runs?state=failed&job=load"
    assert bar("failed", 6, 1, runs=12).title == "12 runs: failed, 2026-01-31 06:00:00 UTC to 2026-01-31 07:00:00 UTC"
    assert bar("running", 6, 6).title.endswith("to now")


def test_failures_are_drawn_over_everything_else() -> None:
    groups = [
        RunGroup(dag_id="load", state=state, runs=1, run_id=state, began=NOON, ended=NOON)
        for state in ("failed", "success", "running")
    ]
    assert [each.state for row in job_rows(DAY, [JOB], groups) for each in row.bars][-1] == "failed"


def test_lines_stand_at_whole_hours_and_no_text_over_an_edge_or_over_now() -> None:
    marks = hour_marks(TimeSpan(zoom="day", until=datetime(2026, 1, 31, 10, 30, tzinfo=UTC)))
    assert [mark.at.hour for mark in marks if mark.has_line] == [12, 16, 20, 0, 4, 8]
    assert [mark.is_labelled for mark in marks if mark.has_line] == [False, True, True, True, True, False]
    assert [mark.at.hour for mark in marks] == [*range(11, 24), *range(11)]
    assert [mark.at.hour for mark in marks if not mark.is_labelled_if_wide] == [10]
    week = hour_marks(TimeSpan(zoom="week", until=NOON))
    assert [mark.at.day for mark in week] == [25, 26, 27, 28, 29, 30, 31]
    hour = hour_marks(TimeSpan(zoom="hour", until=datetime(2026, 1, 31, 10, 35, tzinfo=UTC)))
    assert [mark.at.minute for mark in hour] == [40, 50, 0, 10, 20, 30]


def test_a_tick_for_each_part_with_events_and_none_where_nothing_came() -> None:
    counts = [0] * 144
    counts[72], counts[143] = 10, 1
    first, last = ticks(DAY, counts)
    assert (first.x, first.height, last.height) == (50.0, 20, 3)
    assert first.title == "10 events, 2026-01-31 00:00:00 UTC to 2026-01-31 00:10:00 UTC"
    assert last.title == "1 event, 2026-01-31 11:50:00 UTC to 2026-01-31 12:00:00 UTC"
    assert ticks(DAY, [0] * 144) == []
