"""Many files that vanish at once, and come back or do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import SimulatedPage, SimulatedVersion
from triggers.base import Position
from triggers.file_scan.questions.reselection import reselected
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.state.scan_state import ScanState
from triggers.file_scan.versions import SECOND

T = 1_800_000_000 * SECOND
HOUR = 3600 * SECOND
DAY = 24 * HOUR


def strict() -> Algorithm:
    return StrictAlgorithm()


def window() -> Algorithm:
    return WindowAlgorithm(30 * DAY)


class Watcher:
    """A scanner and its host, which commits all of it once a minute has passed. `look` returns the keys that it emits."""

    def __init__(self, make: Callable[[], Algorithm] = strict, *, page_size: int = 7) -> None:
        self.host, self.now, self.page_size = DictHost(), 0.0, page_size
        self.make, self.min_age = make, 0
        self.restart()

    def restart(self) -> None:
        self.scanner = Scanner(
            self.make(),
            self.host.stored,
            start="all",
            min_age=self.min_age,
            now=self.now - 100,
            forget_after=7 * DAY,
        )

    def reselect(self) -> None:
        """Let another selection go on where this one is."""
        assert self.host.stored is not None
        state = reselected(ScanState.from_json(self.host.stored.state), {"match": None, "regex": None, "min_size": 0})
        self.host.commit(Position(watermark=None, state=state.to_json()))
        self.restart()

    def look(self, listed: Sequence[SimulatedVersion], *, at: int = T, after: float = 100) -> list[str]:
        emitted: list[str] = []
        self.now += after
        waiting = sorted(listed, key=lambda each: each.key)
        while True:
            part, waiting = waiting[: self.page_size], waiting[self.page_size :]
            last = part[-1].key if waiting else None
            step = self.scanner.advance(SimulatedPage(clock=at, last=last, listed=part), now=self.now)
            if step.position is not None:
                self.host.commit(step.position)
            emitted += [each.key for each in step.versions]  # type: ignore[attr-defined]
            if last is None:
                return emitted

    @property
    def shown(self) -> tuple[int, int, int] | None:
        """The finding `vanished`: how many of how many, and the hours since when."""
        vanished = self.scanner.state.vanished
        return None if vanished is None else (vanished.count, vanished.known, (vanished.since - T) // HOUR)


def files(count: int, *, first: int = 0, number: int = 0, at: int = T) -> list[SimulatedVersion]:
    return [
        SimulatedVersion(key=f"k{each:05}", number=number, modified=at, visible=at)
        for each in range(first, first + count)
    ]


@pytest.mark.parametrize("make", [strict, window])
def test_many_that_vanish_are_shown_until_they_are_back(make: Callable[[], Algorithm]) -> None:
    here, watcher = files(300), Watcher(make)
    watcher.look(here)
    watcher.look(here, at=T + HOUR)
    assert watcher.shown is None
    for hours in (2, 3, 50):
        assert watcher.look([], at=T + hours * HOUR) == []
        assert watcher.shown == (300, 300, 2)
    watcher.restart()
    watcher.look(here[:100], at=T + 51 * HOUR)
    assert watcher.shown == (200, 300, 2)
    assert watcher.look(here[:151], at=T + 52 * HOUR) == []
    assert watcher.shown is None
    assert watcher.look(here, at=T + 53 * HOUR) == []
    assert watcher.shown is None


@pytest.mark.parametrize("make", [strict, window])
@pytest.mark.parametrize(
    ("known", "left", "is_shown"),
    [(19, 0, False), (20, 10, True), (20, 11, False), (301, 150, True), (301, 151, False)],
)
def test_half_of_twenty_or_more_are_many(make: Callable[[], Algorithm], known: int, left: int, is_shown: bool) -> None:
    here, watcher = files(known), Watcher(make)
    watcher.look(here)
    watcher.look(here)
    watcher.look(here[:left], at=T + HOUR)
    assert (watcher.shown is not None) == is_shown


def test_many_that_are_forgotten_are_shown_no_more() -> None:
    watcher = Watcher()
    watcher.look(files(30))
    watcher.look([], at=T + HOUR)
    watcher.look([], at=T + HOUR + 7 * DAY - SECOND)
    assert watcher.shown == (30, 30, 1)
    watcher.look([], at=T + HOUR + 7 * DAY)
    assert watcher.shown is None
    assert watcher.host.rows == {}


def test_few_at_a_time_are_no_mass() -> None:
    here, watcher = files(100), Watcher()
    watcher.look(here)
    for left in range(90, 10, -10):
        watcher.look(here[:left], at=T + HOUR)
        assert watcher.shown is None or left <= 20


@pytest.mark.parametrize("make", [strict, window])
@pytest.mark.parametrize("min_age", [0, HOUR])
def test_files_that_were_overwritten_have_not_vanished(make: Callable[[], Algorithm], min_age: int) -> None:
    watcher = Watcher(make)
    watcher.look(files(100))
    watcher.look(files(100))
    watcher.min_age = min_age
    watcher.restart()
    watcher.look(files(100), at=T + DAY)
    again = files(100, number=1, at=T + DAY + SECOND)
    for at in (T + DAY + SECOND, T + DAY + 2 * HOUR):
        watcher.look(again, at=at)
        assert watcher.shown is None


def test_a_state_with_what_vanished_is_read_back_as_it_was_written() -> None:
    watcher = Watcher()
    watcher.look(files(30))
    watcher.look(files(15), at=T + HOUR)
    assert watcher.host.stored is not None
    document = watcher.host.stored.state
    assert ScanState.from_json(document).to_json() == document
    watcher.restart()
    assert watcher.shown == (15, 30, 1)


@pytest.mark.parametrize("make", [strict, window])
def test_a_mass_that_goes_in_several_scans_is_one(make: Callable[[], Algorithm]) -> None:
    """Listings are cut at other places while a server is unwell; meanwhile files are written and overwritten."""
    watcher = Watcher(make)
    watcher.look(files(100))
    watcher.look(files(100), at=T + HOUR)
    watcher.look(files(40), at=T + 2 * HOUR)
    watcher.look(files(20), at=T + 3 * HOUR)
    assert watcher.shown == (80, 100, 2)
    watcher.look([*files(10), *files(10, first=10, number=1, at=T + 4 * HOUR)], at=T + 4 * HOUR)
    assert watcher.shown == (80, 100, 2)
    watcher.look([*files(10), *files(10, first=10, number=1, at=T + 4 * HOUR), *files(80, first=20)], at=T + 5 * HOUR)
    assert watcher.shown is None


@pytest.mark.parametrize("make", [strict, window])
def test_overwritten_files_that_hints_reported_first_have_not_vanished(make: Callable[[], Algorithm]) -> None:
    watcher = Watcher(make)
    watcher.look(files(100))
    watcher.look(files(100), at=T + HOUR)
    again = files(100, number=1, at=T + 2 * HOUR)
    step = watcher.scanner.look_up(again, clock=T + 2 * HOUR, now=watcher.now)
    assert step.position is not None
    watcher.host.commit(step.position)
    watcher.look(again, at=T + 2 * HOUR)
    assert watcher.shown is None


def test_a_window_watcher_that_starts_while_all_is_gone_shows_it() -> None:
    watcher = Watcher(window)
    watcher.look(files(100))
    watcher.restart()
    watcher.look([], at=T + HOUR)
    assert watcher.shown == (100, 100, 1)
    watcher.look(files(100), at=T + 2 * HOUR)
    assert watcher.shown is None


def test_what_a_window_watcher_forgets_is_shown_no_more() -> None:
    watcher = Watcher(window)
    watcher.look(files(100))
    watcher.look([], at=T + HOUR)
    assert watcher.shown == (100, 100, 1)
    watcher.look([], at=T + 32 * DAY)
    watcher.look([], at=T + 32 * DAY)
    assert watcher.shown is None


@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_a_window_watcher_that_starts_while_all_is_gone_sees_the_overwritten_ones_come_back(restarts: int) -> None:
    """It remembers versions that were overwritten; it cannot tell how many, and most of them never come back."""
    watcher = Watcher(window)
    watcher.look(files(100))
    for hours in (1, 2):
        watcher.look(files(100, number=hours, at=T + hours * HOUR), at=T + hours * HOUR)
    for hours in range(3, 3 + restarts):
        watcher.restart()
        watcher.look([], at=T + hours * HOUR)
        assert watcher.shown == (300, 300, 3)
    watcher.look(files(100, number=2, at=T + 2 * HOUR), at=T + 9 * HOUR)
    assert watcher.shown is None


def test_a_window_watcher_that_starts_twice_while_all_is_gone_ignores_what_a_narrower_selection_leaves_out() -> None:
    watcher, selected = Watcher(window), files(30)
    watcher.look(files(100))
    watcher.reselect()
    for hours in (1, 2):
        watcher.look(selected, at=T + hours * HOUR)
        assert watcher.shown is None
    for hours in (3, 4):
        watcher.restart()
        watcher.look([], at=T + hours * HOUR)
        assert watcher.shown is not None
    watcher.look(selected, at=T + 5 * HOUR)
    assert watcher.shown is None
    watcher.look([], at=T + 6 * HOUR)
    assert watcher.shown == (30, 30, 6)
    watcher.restart()
    watcher.look(selected[:10], at=T + 7 * HOUR)
    assert watcher.shown == (20, 30, 6)
    watcher.look(selected, at=T + 8 * HOUR)
    assert watcher.shown is None


@pytest.mark.parametrize(("left_out", "is_shown"), [(30, True), (9, False)])
def test_many_that_a_selection_left_out_are_shown_when_they_are_back_for_a_second_and_vanish_before_a_kill(
    left_out: int, is_shown: bool
) -> None:
    here, watcher = files(30), Watcher()
    watcher.look(here)
    watcher.reselect()
    watcher.look(here[left_out:], at=T + HOUR)
    assert watcher.shown is None, "the selection may leave them out"
    commits = watcher.host.commits
    assert watcher.look(here, at=T + 2 * HOUR, after=1) == []
    assert (watcher.host.commits > commits) == is_shown, "few can wait a minute"
    watcher.restart()
    watcher.look([], at=T + 3 * HOUR)
    assert watcher.shown == ((30, 30, 3) if is_shown else (21, 21, 3))


def test_a_mount_that_comes_and_goes_is_written_once_a_minute() -> None:
    here, watcher = files(30), Watcher()
    watcher.look(here)
    commits = watcher.host.commits
    for scan in range(40):
        watcher.look([] if scan % 2 else here, at=T + (1 + scan) * SECOND, after=1)
        assert (watcher.shown is not None) == (scan % 2 == 1)
    assert watcher.host.commits == commits
    watcher.look([], at=T + HOUR)
    assert watcher.host.commits == commits + 1
