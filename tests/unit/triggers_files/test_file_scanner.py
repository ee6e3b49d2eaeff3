"""The writing of positions, their contents, and the edge cases of the two algorithms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import SimulatedPage, SimulatedVersion
from triggers.errors import SourceChanged
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import QUIET_COMMIT_SECONDS, Scanner
from triggers.file_scan.state.scan_state import ScanState, Start
from triggers.file_scan.versions import SECOND, Moment, format_moment

T = 1_800_000_000 * SECOND
HOUR = 3600 * SECOND


def version(key: str, modified: Moment) -> SimulatedVersion:
    return SimulatedVersion(key=key, number=0, modified=modified, visible=modified)


def page(*versions: SimulatedVersion, clock: Moment = T, last: str | None = None) -> SimulatedPage:
    return SimulatedPage(clock=clock, last=last, listed=list(versions))


class Watcher:
    """A scanner and its host; `look` gives it a page and returns the keys that it emitted."""

    def __init__(self, algorithm: Algorithm | None = None, *, start: Start = "now", min_age: int = 0) -> None:
        self.host = DictHost()
        self.wanted: dict[str, Any] = {"start": start, "min_age": min_age}
        self.now = 0.0
        self.restart(algorithm or WindowAlgorithm(HOUR))

    def restart(self, algorithm: Algorithm, **changed: int) -> None:
        self.wanted |= changed
        self.scanner = Scanner(algorithm, self.host.stored, now=self.now, **self.wanted)

    def look(self, shown: SimulatedPage, *, after: float = 1.0) -> list[str]:
        self.now += after
        step = self.scanner.advance(shown, now=self.now)
        if step.position is not None:
            self.host.commit(step.position)
        return [found.key for found in step.versions]  # type: ignore[attr-defined]

    @property
    def state(self) -> ScanState:
        stored = self.host.stored
        assert stored is not None
        return ScanState.from_json(stored.state)


def test_the_first_position_is_written_after_the_first_page_with_its_time() -> None:
    watcher = Watcher()
    assert watcher.look(page(version("a", T - HOUR // 2), last="a")) == []
    assert watcher.host.commits == 1
    assert (watcher.state.began, watcher.state.baseline, watcher.state.cursor) == (T, T, "a")
    assert len(watcher.host.rows) == 1


def test_the_time_of_a_baseline_survives_a_crash() -> None:
    watcher = Watcher()
    watcher.look(page(last="a"))
    watcher.restart(WindowAlgorithm(HOUR))
    shown = page(version("b", T - SECOND), version("c", T), version("d", T + 9 * SECOND), clock=T + 10 * SECOND)
    assert watcher.look(shown) == ["c", "d"]


def test_a_poll_that_found_nothing_writes_nothing() -> None:
    watcher = Watcher()
    watcher.look(page(version("a", T)))
    for clock in range(1, 20):
        watcher.look(page(version("a", T), clock=T + clock * SECOND))
    assert watcher.host.commits == 1


@pytest.mark.parametrize("algorithm", [WindowAlgorithm(HOUR), StrictAlgorithm()])
def test_the_clock_alone_is_never_written(algorithm: Algorithm) -> None:
    watcher = Watcher(algorithm)
    here = version("a", T)
    watcher.look(page(here))
    for minute in range(1, 500):
        watcher.look(page(here, clock=T + minute * 60 * SECOND), after=60)
    assert watcher.host.commits == 1
    watcher.restart(algorithm)
    assert watcher.look(page(here, version("b", T + HOUR), clock=T + 9 * HOUR)) == ["b"]


def test_the_progress_of_a_resumable_scan_is_written_once_a_minute() -> None:
    watcher = Watcher()
    watcher.look(page(last="a"))
    watcher.look(page(last="b"), after=QUIET_COMMIT_SECONDS - 1)
    assert (watcher.host.commits, watcher.state.cursor) == (1, "a")
    watcher.look(page(last="c"), after=1)
    assert (watcher.host.commits, watcher.state.cursor) == (2, "c")
    watcher.look(page(last="d"), after=1)
    assert watcher.host.commits == 2


def test_the_progress_of_a_later_scan_is_written_only_after_it_emits() -> None:
    watcher = Watcher()
    watcher.look(page())
    for minute in range(1, 9):
        watcher.look(page(last=str(minute)), after=QUIET_COMMIT_SECONDS)
    assert watcher.host.commits == 1
    assert watcher.look(page(version("9", T), last="9")) == ["9"]
    assert (watcher.host.commits, watcher.state.cursor) == (2, "9")
    watcher.look(page())
    assert (watcher.host.commits, watcher.state.cursor) == (3, None)


def test_the_end_of_a_baseline_is_written() -> None:
    watcher = Watcher()
    watcher.look(page(last="a"))
    watcher.look(page(last="b"))
    assert watcher.host.commits == 1
    watcher.look(page())
    assert watcher.host.commits == 2
    assert (watcher.state.baseline, watcher.state.began, watcher.state.cursor) == (None, None, None)


def test_the_end_of_a_resumed_scan_is_written() -> None:
    watcher = Watcher(start="all")
    watcher.look(page(version("a", T), last="a"))
    watcher.restart(WindowAlgorithm(HOUR))
    assert watcher.scanner.cursor == "a"
    watcher.look(page())
    assert watcher.host.commits == 2
    assert watcher.state.cursor is None
    watcher.look(page(clock=T + SECOND))
    assert watcher.host.commits == 2


@pytest.mark.parametrize("algorithm", [WindowAlgorithm(HOUR), StrictAlgorithm()])
def test_progress_that_was_not_written_is_written_with_the_next_version(algorithm: Algorithm) -> None:
    watcher = Watcher(algorithm)
    watcher.look(page(last="a"))
    watcher.look(page(version("b", T - SECOND), last="b"))  # recorded by the baseline, not worth a write
    assert watcher.host.rows == {}
    assert watcher.look(page(version("c", T))) == ["c"]
    assert len(watcher.host.rows) == 2


def test_one_page_is_written_once_with_all_its_versions() -> None:
    watcher = Watcher(start="all")
    assert watcher.look(page(version("a", T - SECOND), version("b", T - 2 * HOUR))) == ["a", "b"]
    assert watcher.host.commits == 1
    assert list(watcher.host.rows.values()) == [T - SECOND], "only what a later scan could meet again is kept"


def test_versions_of_one_second_are_told_apart() -> None:
    watcher = Watcher()
    watcher.look(page())
    assert watcher.look(page(version("a", T), clock=T)) == ["a"]
    assert watcher.look(page(version("a", T), version("b", T), clock=T)) == ["b"]


def test_an_upload_that_ends_exactly_at_the_lateness_is_found() -> None:
    """The upload began at 10.9 s, is listed with 10 s, and completes one lateness later, just after a scan dated with that second."""
    watcher = Watcher(WindowAlgorithm(HOUR))
    late = version("late", T + 10 * SECOND)
    watcher.look(page(clock=T))
    watcher.look(page(clock=T + 11 * SECOND + HOUR))
    assert watcher.look(page(late, clock=T + 11 * SECOND + HOUR)) == ["late"]


def test_an_upload_later_than_the_lateness_is_missed_by_window_and_found_by_strict() -> None:
    late = version("late", T)
    for algorithm, expected in ((WindowAlgorithm(HOUR), []), (StrictAlgorithm(), ["late"])):
        watcher = Watcher(algorithm)
        watcher.look(page(clock=T))
        watcher.look(page(clock=T + HOUR + 10 * SECOND))
        assert watcher.look(page(late, clock=T + HOUR + 10 * SECOND)) == expected


def test_a_young_version_waits_and_is_not_yet_seen() -> None:
    watcher = Watcher(min_age=10 * SECOND)
    watcher.look(page())
    young = version("a", T + SECOND)
    assert watcher.look(page(young, clock=T + 10 * SECOND)) == []
    assert watcher.look(page(young, clock=T + 11 * SECOND)) == ["a"]
    assert watcher.look(page(young, clock=T + 12 * SECOND)) == []


def test_a_baseline_records_the_old_at_once_and_lets_the_young_wait() -> None:
    watcher = Watcher(min_age=10 * SECOND)
    old, young = version("old", T - SECOND), version("young", T)
    assert watcher.look(page(old, young)) == []
    assert len(watcher.host.rows) == 1
    assert watcher.look(page(old, young, clock=T + 10 * SECOND)) == ["young"]


def test_a_start_time_emits_what_was_modified_since() -> None:
    for algorithm in (WindowAlgorithm(HOUR), StrictAlgorithm()):
        watcher = Watcher(algorithm, start=T - 2 * HOUR)
        shown = page(version("before", T - 2 * HOUR - 1), version("at", T - 2 * HOUR), version("after", T))
        assert watcher.look(shown) == ["at", "after"]
        assert watcher.look(shown) == []


def test_a_longer_lateness_repeats_nothing_in_a_resumed_scan() -> None:
    old = version("old", T - 2 * HOUR)
    watcher = Watcher(WindowAlgorithm(HOUR), start="all")
    assert watcher.look(page(old, last="old")) == ["old"]
    assert watcher.host.rows == {}, "below the horizon this scan leads to"
    watcher.restart(WindowAlgorithm(5 * HOUR))
    watcher.look(page())
    assert watcher.look(page(old, clock=T + SECOND)) == []


def test_a_longer_min_age_loses_nothing_in_a_resumed_scan() -> None:
    waiting = version("z", T - 2 * HOUR)
    watcher = Watcher(WindowAlgorithm(HOUR), start="all")
    watcher.look(page(last="a"))
    watcher.wanted["min_age"] = 3 * HOUR
    watcher.restart(WindowAlgorithm(5 * HOUR))
    assert watcher.look(page(waiting)) == ["z"]


@pytest.mark.parametrize(
    ("before", "then"), [(WindowAlgorithm(HOUR), StrictAlgorithm()), (StrictAlgorithm(), WindowAlgorithm(HOUR))]
)
def test_a_changed_mode_repeats_nothing_and_goes_on(before: Algorithm, then: Algorithm) -> None:
    old, recent = version("old", T - 2 * HOUR), version("recent", T)
    watcher = Watcher(before, start="all")
    assert watcher.look(page(old, recent)) == ["old", "recent"]
    watcher.restart(then)
    assert watcher.look(page(old, recent, clock=T + SECOND)) == []
    added = version("added", T + SECOND)
    assert watcher.look(page(old, recent, added, clock=T + 2 * SECOND)) == ["added"]
    assert watcher.look(page(old, recent, added, clock=T + 3 * SECOND)) == []


def test_strict_emits_what_appears_later_whatever_its_time() -> None:
    """The start time decides about everything that is there at the first scan."""
    watcher = Watcher(StrictAlgorithm(), start=T - HOUR)
    old, moved_here = version("old", T - 2 * HOUR), version("moved here", T - 9 * HOUR)
    assert watcher.look(page(old)) == []
    watcher.restart(StrictAlgorithm())
    assert watcher.look(page(moved_here, old, clock=T + SECOND)) == ["moved here"]
    assert watcher.look(page(moved_here, old, clock=T + 2 * SECOND)) == []


def test_a_clock_set_back_behind_the_horizon_stops_the_watcher() -> None:
    watcher = Watcher(WindowAlgorithm(HOUR), start="all")
    watcher.look(page(version("a", T)))
    with pytest.raises(SourceChanged, match=r"new ones would be missed; set that clock right, or rewind"):
        watcher.look(page(version("a", T), version("b", T - 2 * HOUR), clock=T - 2 * HOUR))
    watcher.restart(WindowAlgorithm(HOUR))
    assert watcher.look(page(version("a", T), version("b", T - 60 * SECOND), clock=T - 60 * SECOND)) == ["b"]


def test_a_start_in_the_future_does_not_count_as_a_clock_set_back() -> None:
    watcher = Watcher(WindowAlgorithm(HOUR), start=T + 9 * HOUR)
    watcher.look(page(version("a", T)))
    assert watcher.look(page(version("a", T), clock=T + SECOND)) == []


def test_a_clock_in_doubt_moves_no_horizon_and_loses_nothing() -> None:
    watcher = Watcher(WindowAlgorithm(HOUR), start="all")
    watcher.look(page(version("a", T)))
    ahead = replace(page(version("a", T), clock=T + 25 * HOUR), is_clock_believed=False)
    assert watcher.look(ahead) == []
    assert watcher.look(page(version("a", T), version("b", T + SECOND), clock=T + 2 * SECOND)) == ["b"]


def test_a_resumed_strict_scan_forgets_no_version() -> None:
    first, second = version("a", T), version("b", T)
    watcher = Watcher(StrictAlgorithm(), start="all")
    watcher.look(page(first, last="a"))
    watcher.restart(StrictAlgorithm())
    assert watcher.look(page(second)) == ["b"]
    assert len(watcher.host.rows) == 2
    assert watcher.look(page(first, second)) == []


def test_a_strict_scan_forgets_what_is_gone_and_emits_it_when_it_comes_back() -> None:
    watcher = Watcher(StrictAlgorithm(), start="all")
    here = version("a", T)
    assert watcher.look(page(here)) == ["a"]
    watcher.look(page(), after=QUIET_COMMIT_SECONDS - 1)
    assert watcher.host.commits == 1
    watcher.look(page(), after=1)
    assert (watcher.host.rows, watcher.host.commits) == ({}, 2)
    assert watcher.look(page(here)) == ["a"]
    assert len(watcher.host.rows) == 1


DAY = 24 * HOUR


def strict_watcher(*versions: SimulatedVersion, **options: Any) -> Watcher:
    """A watcher in mode `strict` that keeps what is absent for a week, and has handled these."""
    watcher = Watcher(StrictAlgorithm(), start="all")
    watcher.restart(StrictAlgorithm(), **{"forget_after": 7 * DAY, **options})
    watcher.look(page(*versions))
    return watcher


def restarted(watcher: Watcher) -> None:
    watcher.restart(StrictAlgorithm())


@pytest.mark.parametrize("kill", [False, True])
def test_what_comes_back_as_it_was_is_no_news(kill: bool) -> None:
    a, b, c = version("a", T), version("b", T + 1), version("c", T + 2)
    watcher = strict_watcher(a, b, c)
    for scan, listed in enumerate([(), (a,), (), (a, b, c), (c,), (a, b, c)]):
        assert watcher.look(page(*listed, clock=T + scan * HOUR), after=QUIET_COMMIT_SECONDS) == []
        if kill:
            restarted(watcher)
    assert watcher.host.rows == {each.fingerprint: each.modified for each in (a, b, c)}


def test_what_is_absent_is_kept_from_the_first_scan_that_lacked_it_and_then_forgotten() -> None:
    a, b = version("a", T), version("b", T)
    for days, expected in ((6.999, []), (7, ["a"])):
        watcher = strict_watcher(a, b)
        watcher.look(page(b, clock=T + HOUR))
        watcher.look(page(b, clock=T + 3 * DAY), after=QUIET_COMMIT_SECONDS)
        assert len(watcher.host.rows) == 2
        restarted(watcher)
        watcher.look(page(b, clock=T + 5 * DAY))
        assert watcher.look(page(a, b, clock=T + HOUR + round(days * DAY))) == expected
    watcher = strict_watcher(a, b)
    watcher.look(page(b, clock=T + HOUR))
    watcher.look(page(b, clock=T + HOUR + 7 * DAY - SECOND), after=QUIET_COMMIT_SECONDS)
    assert len(watcher.host.rows) == 2
    watcher.look(page(b, clock=T + HOUR + 7 * DAY), after=QUIET_COMMIT_SECONDS)
    assert watcher.host.rows == {b.fingerprint: T}


def test_a_shorter_time_to_forget_holds_for_what_is_absent_already() -> None:
    a = version("a", T)
    watcher = strict_watcher(a)
    watcher.look(page(clock=T + HOUR), after=QUIET_COMMIT_SECONDS)
    watcher.restart(StrictAlgorithm(), forget_after=2 * HOUR)
    assert watcher.look(page(a, clock=T + 3 * HOUR)) == ["a"]


@pytest.mark.parametrize("kill", [False, True])
def test_a_file_that_was_moved_out_and_in_again_is_new(kill: bool) -> None:
    """Its fingerprint is the same, and its time of change is later."""
    a = version("a", T)
    watcher = strict_watcher(a)
    watcher.look(page(clock=T + HOUR), after=QUIET_COMMIT_SECONDS)
    if kill:
        restarted(watcher)
    moved_in = replace(a, modified=T + HOUR + SECOND)
    assert watcher.look(page(moved_in, clock=T + 2 * HOUR)) == ["a"]
    assert watcher.look(page(moved_in, clock=T + 3 * HOUR)) == []
    assert watcher.look(page(replace(moved_in, modified=T + 4 * HOUR), clock=T + 5 * HOUR)) == [], (
        "a change of its mode"
    )


def test_absence_is_written_once_a_minute_and_whatever_waits_keeps_it_from_resting() -> None:
    a, b = version("a", T), version("b", T)
    watcher = strict_watcher(a, b)
    assert watcher.scanner.is_settled
    for listed in ((a,), (a, b)):
        before = watcher.host.commits
        watcher.look(page(*listed, clock=T + SECOND), after=QUIET_COMMIT_SECONDS - 1)
        assert (watcher.host.commits, watcher.scanner.is_settled) == (before, False)
        watcher.look(page(*listed, clock=T + 2 * SECOND), after=1)
        assert (watcher.host.commits, watcher.scanner.is_settled) == (before + 1, True)


def test_absence_that_stays_is_not_written_again() -> None:
    a, b = version("a", T), version("b", T)
    watcher = strict_watcher(a, b)
    for minute in range(1, 9):
        watcher.look(page(b, clock=T + minute * 60 * SECOND), after=QUIET_COMMIT_SECONDS)
    assert watcher.host.commits == 2


def test_a_scan_that_was_resumed_says_of_nothing_that_it_is_absent() -> None:
    a, b, c = version("a", T), version("b", T), version("c", T)
    watcher = strict_watcher(a, b)
    assert watcher.look(page(a, b, c, clock=T + HOUR, last="c")) == ["c"]
    restarted(watcher)
    watcher.look(page(clock=T + HOUR), after=QUIET_COMMIT_SECONDS)
    assert watcher.host.rows == {each.fingerprint: T for each in (a, b, c)}


def test_a_hint_at_what_is_absent_is_no_news_if_it_is_as_it_was() -> None:
    a = version("a", T)
    watcher = strict_watcher(a)
    watcher.look(page(clock=T + HOUR))
    assert hint(watcher, a, clock=T + 2 * HOUR) == []
    assert watcher.look(page(a, clock=T + 3 * HOUR)) == []


def test_what_is_absent_is_no_news_either_after_the_mode_has_changed() -> None:
    a, b = version("a", T), version("b", T)
    watcher = strict_watcher(a, b)
    watcher.look(page(clock=T + SECOND), after=QUIET_COMMIT_SECONDS)
    watcher.restart(WindowAlgorithm(HOUR))
    assert watcher.look(page(clock=T + 2 * SECOND)) == []
    assert watcher.look(page(a, b, clock=T + 3 * SECOND)) == []
    watcher.look(page(version("c", T + 9 * DAY), clock=T + 9 * DAY), after=QUIET_COMMIT_SECONDS)
    assert len(watcher.host.rows) == 1, "absent or not, what lies below the horizon is forgotten in the end"


def test_the_watermark_shows_up_to_and_the_scan_under_way() -> None:
    watcher = Watcher(min_age=10 * SECOND)
    watcher.look(page(version("a", T - SECOND), last="a"))
    assert watcher.host.watermark == {
        "up_to": None,
        "horizon": None,
        "seen": 1,
        "scan": {"began": format_moment(T), "after": "a", "baseline": True},
    }
    watcher.look(page())
    assert watcher.host.watermark == {
        "up_to": format_moment(T - 10 * SECOND),
        "horizon": format_moment(T - HOUR - SECOND),
        "seen": 1,
        "scan": None,
    }


def test_an_events_watermark_goes_from_the_last_whole_scan_to_this_one() -> None:
    scanner = Scanner(WindowAlgorithm(HOUR), None, start="all", min_age=0, now=0)
    first = scanner.advance(page(version("a", T - SECOND)), now=0)
    second = scanner.advance(page(version("b", T + SECOND), clock=T + 2 * SECOND), now=0)
    assert first.watermark == {"from": None, "to": format_moment(T)}
    assert second.watermark == {"from": format_moment(T), "to": format_moment(T + 2 * SECOND)}


def test_a_state_is_read_back_as_it_was_written() -> None:
    for state in (
        ScanState(),
        ScanState(baseline="now"),
        ScanState(horizon=T, baseline=T + 1, began=T, next_horizon=T + 2, cursor="ü/\n", up_to=T - 1),
    ):
        assert ScanState.from_json(state.to_json()) == state


def hint(watcher: Watcher, *versions: SimulatedVersion, clock: Moment = T) -> list[str]:
    step = watcher.scanner.look_up(versions, clock=clock, now=watcher.now)
    if step.position is not None:
        watcher.host.commit(step.position)
    return [found.key for found in step.versions]  # type: ignore[attr-defined]


@pytest.mark.parametrize("algorithm", [WindowAlgorithm(HOUR), StrictAlgorithm()])
def test_a_hinted_version_comes_once(algorithm: Algorithm) -> None:
    watcher = Watcher(algorithm)
    watcher.look(page())
    version_a = version("a", T + SECOND)
    assert hint(watcher, version_a) == ["a"]
    assert hint(watcher, version_a) == []
    assert watcher.look(page(version_a, clock=T + 2 * SECOND)) == []


@pytest.mark.parametrize("algorithm", [WindowAlgorithm(HOUR), StrictAlgorithm()])
def test_no_hint_is_taken_before_the_end_of_a_baseline(algorithm: Algorithm) -> None:
    watcher = Watcher(algorithm)
    assert not watcher.scanner.takes_hints
    watcher.look(page(last="a"))
    assert not watcher.scanner.takes_hints
    watcher.look(page())
    assert watcher.scanner.takes_hints


def test_a_hint_leaves_to_the_scan_what_the_scan_emits_without_recording() -> None:
    watcher = Watcher(start="all")
    old = version("a", T - 2 * HOUR)
    assert watcher.look(page(old, last="a")) == ["a"]
    assert hint(watcher, old) == []


def test_a_hinted_version_is_not_forgotten_by_the_strict_scan_under_way() -> None:
    watcher = Watcher(StrictAlgorithm(), start="all")
    first, hinted = version("a", T), version("b", T)
    watcher.look(page(first))
    watcher.look(page(first, last="a"))
    assert hint(watcher, hinted) == ["b"]
    assert watcher.look(page()) == []
    assert watcher.look(page(first, hinted)) == []


def test_a_hinted_version_that_is_too_young_is_left_to_a_scan() -> None:
    watcher = Watcher(min_age=10 * SECOND)
    watcher.look(page())
    young = version("a", T + SECOND)
    assert hint(watcher, young, clock=T + 2 * SECOND) == []
    assert watcher.look(page(young, clock=T + 11 * SECOND)) == ["a"]


def test_a_baseline_checks_none_of_the_versions_that_are_old() -> None:
    class Unlooked(SimulatedVersion):
        @property
        def fingerprint(self) -> int:
            raise AssertionError

    watcher = Watcher()
    old = Unlooked(key="old", number=0, modified=T - 2 * HOUR, visible=T - 2 * HOUR)
    assert watcher.look(page(old, version("new", T))) == ["new"]


def test_a_baseline_older_than_the_horizon_to_come_emits_what_lies_between() -> None:
    watcher = Watcher(WindowAlgorithm(HOUR))
    state = ScanState(baseline=T - 3 * HOUR, began=T, next_horizon=T - HOUR, cursor="a")
    watcher.host.state = json.dumps(state.to_json())
    watcher.restart(WindowAlgorithm(HOUR))
    assert watcher.look(page(version("b", T - 4 * HOUR), version("c", T - 2 * HOUR))) == ["c"]
