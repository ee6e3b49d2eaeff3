"""A strip of runs shows duration by height, and each state by a shape of its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from store.features.pages.run_history import PastRun
from watcher.features.pages.pictures.run_strip import run_strip, strips_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def past(run_id: str, state: str, seconds: float | None = 10, ended_ago: float = 60) -> PastRun:
    end = NOW - timedelta(seconds=ended_ago)
    start = None if seconds is None else (NOW if state == "running" else end) - timedelta(seconds=seconds)
    is_over = state in {"success", "failed"}
    return PastRun(
        dag_id="load", run_id=run_id, state=state, queued_at=end, start_date=start, end_date=end if is_over else None
    )


def height(shape: str) -> float:
    """Return the height of a path whose vertical coordinates follow V, L and M."""
    ys = [float(y) for y in re.findall(r"V([\d.]+)|(?:M|L)[\d.]+ ([\d.]+)", shape) for y in y if y]
    return max(ys) - min(ys)


def test_the_height_is_the_duration_and_the_shortest_is_visible() -> None:
    strip = run_strip([past("a", "success", 100), past("b", "success", 50), past("c", "success", 0.01)], NOW)
    assert [height(mark.shape) for mark in strip.marks] == [24, 12, 4]


def test_each_state_has_another_shape_not_only_another_colour() -> None:
    states = ("success", "failed", "running", "queued")
    strip = run_strip([past(state, state, None if state == "queued" else 30) for state in states], NOW)
    outlines = {re.sub(r"[\d.]+", "", mark.shape) + str(round(height(mark.shape))) for mark in strip.marks}
    assert len(outlines) == len(states)
    assert [mark.state for mark in strip.marks] == list(states)


def test_the_newest_run_is_at_the_right_end_however_few_there_are() -> None:
    few, many = run_strip([past("a", "success")], NOW), run_strip([past(str(n), "success") for n in range(30)], NOW)
    assert few.marks[-1].shape == many.marks[-1].shape
    assert few.width == many.width


def test_a_mark_leads_to_its_run_and_says_what_it_is() -> None:
    (mark,) = run_strip([past("manual__a/b", "failed", 90)], NOW).marks
    assert mark.page == "runs/load/manual__a%2Fb"
    assert mark.title == "manual__a/b: failed after 1 min 30 s, 2026-01-31 11:59:00 UTC"


def test_the_sentence_tells_what_the_picture_shows() -> None:
    strip = run_strip([past("a", "success", 100), past("b", "success"), past("c", "failed")], NOW)
    assert (
        strip.sentence
        == "the last 3 runs: 1 failed, 2 success; the newest is failed (1 min ago); the longest took 1 min 40 s"
    )
    assert run_strip([], NOW).sentence == "no run yet"


def test_a_long_list_has_small_strips_with_the_same_shapes_and_sentence() -> None:
    runs = {"load": [past(name, state) for name, state in (("a", "success"), ("b", "failed"), ("c", "success"))]}
    [whole] = strips_of(["load"], runs, NOW).values()
    small = strips_of(["load", *(f"job_{number}" for number in range(25))], runs, NOW)["load"]
    assert small.sentence == whole.sentence
    assert sorted(mark.state for mark in small.marks) == ["failed", "success"]
    assert sorted("".join(mark.shape for mark in small.marks)) == sorted("".join(mark.shape for mark in whole.marks))
    assert {mark.page for mark in small.marks} == {""}
