"""Random histories of a bucket, with crashes at every step: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias, cast

import pytest

from tests.effort import effort
from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import KEYS, SimulatedBucket, SimulatedPage, SimulatedVersion
from triggers.base import Position, StoredPosition
from triggers.file_scan.rules.chain import NewVersions
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import Scanner, Step
from triggers.file_scan.state.scan_state import ScanState, Start
from triggers.file_scan.versions import SECOND, FileVersion, Moment, ScanPage

SOME, MANY = effort(6, 200), effort(18, 600)
LATENESS = 120 * SECOND
SKEW = 2 * SECOND


def is_last(version: FileVersion) -> bool:
    """Whether a version vouches for others: every fifth key does, in the middle of the listing too."""
    return version.key[-1] in "05"


class AnyScanner(Protocol):
    @property
    def cursor(self) -> str | None: ...
    def advance(self, page: SimulatedPage, *, now: float) -> Step: ...


Restart: TypeAlias = Callable[["History", StoredPosition | None], AnyScanner]
"""Makes the watcher that goes on from a committed position."""


@dataclass(kw_only=True)
class History:
    """One bucket, one watcher that crashes now and then, and the events that it committed."""

    seed: int
    start: Start
    restart: Restart
    longest_upload: int = LATENESS - SKEW
    min_age: int = 0
    hurried: list[SimulatedVersion] = field(default_factory=list)
    """The versions that were emitted last although another one that had been there before them was not emitted yet."""
    lies: bool = False
    """After the baseline, listings are cut or empty now and then."""
    host: DictHost = field(default_factory=DictHost)
    emitted: Counter[SimulatedVersion] = field(default_factory=Counter)
    began: Moment | None = None
    """The T0 that was committed first."""
    baseline_over: Moment | None = None
    first_look: Moment | None = None

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.bucket = SimulatedBucket(
            dice=self.dice, longest_upload=self.longest_upload, skew=self.dice.choice([-SKEW, 0, SKEW])
        )
        if self.start not in ("now", "all"):
            self.start = self.bucket.time + self.dice.randrange(200) * SECOND

    def play(self) -> History:
        for _ in range(self.dice.randrange(60)):
            self.bucket.happen()
        watcher = self._restart()
        for _ in range(400):
            match self.dice.randrange(10):
                case 0 | 1 | 2 | 3:
                    self.bucket.happen()
                case 4 if self.dice.random() < 0.3:
                    watcher = self._restart()
                case 4 if self.lies and self.baseline_over is not None:
                    self.bucket.lie()
                case 5 if isinstance(watcher, Scanner) and watcher.takes_hints:
                    watcher = self._hint(watcher, crash=self.dice.random() < 0.03)
                case _:
                    watcher = self._advance(watcher, crash=self.dice.random() < 0.03)
        self.bucket.settle()
        self.bucket.lists_below = None
        self.bucket.time += self.min_age + SKEW + 10 * SECOND
        for _ in range(80):  # several whole scans, more than a minute
            self.bucket.time += 2 * SECOND
            watcher = self._advance(watcher, crash=False)
        return self

    def _restart(self) -> AnyScanner:
        return self.restart(self, self.host.stored)

    def _advance(self, watcher: AnyScanner, *, crash: bool) -> AnyScanner:
        """Scan one page; a crash comes before the commit."""
        page = self.bucket.page(watcher.cursor, self.dice.randint(2, 7))
        self.first_look = self.first_look or self.bucket.time
        step = watcher.advance(page, now=self.bucket.time / SECOND)
        if crash:
            return self._restart()
        watcher = self._take(watcher, step, page)
        waiting = watcher.last if isinstance(watcher, Scanner) and page.last is None else None
        for version in () if waiting is None else waiting.ready:
            if self.dice.random() < 0.1:  # it cannot be read now
                continue
            assert isinstance(watcher, Scanner)
            last = watcher.emit_last([version], self.bucket.time / SECOND)
            if self.dice.random() < 0.03:
                return self._restart()
            self._compare_with_all_else(cast("list[SimulatedVersion]", last.versions))
            watcher = self._take(watcher, last, page)
        return watcher

    def _compare_with_all_else(self, last: list[SimulatedVersion]) -> None:
        due = [version for version in self.bucket.objects.values() if self._is_due(version) and not is_last(version)]
        open_ = [version for version in due if not self.emitted[version]]
        self.hurried += [
            each
            for each in last
            if any(version.visible < each.visible and version.modified <= each.modified for version in open_)
        ]

    def _hint(self, watcher: Scanner, *, crash: bool) -> AnyScanner:
        """Hint at keys, right or wrong, old or new."""
        page = self.bucket.page(None, len(KEYS))
        versions = [version for version in page.listed if version.key in self.dice.sample(KEYS, 4)]
        before = replace(watcher._state)
        step = watcher.look_up(versions, clock=page.clock, now=self.bucket.time / SECOND)
        assert watcher._state == before, "scans do not notice"
        return self._restart() if crash else self._take(watcher, step, page)

    def _take(self, watcher: AnyScanner, step: Step, page: SimulatedPage) -> AnyScanner:
        if step.position is not None:
            self._commit(step.position, page)
            self.emitted.update(cast("list[SimulatedVersion]", step.versions))
            if isinstance(watcher, Scanner):
                assert self.host.rows == {**watcher._handled.members, **watcher._handled.absent}, (
                    "differences add up to the set"
                )
        else:
            assert not step.versions
        return watcher

    def _commit(self, position: Position, page: SimulatedPage) -> None:
        self.host.commit(position)
        if self.began is None:
            self.began = page.clock
        if self.baseline_over is None and not ScanState.from_json(position.state).is_baseline:
            self.baseline_over = self.bucket.time

    @property
    def horizon(self) -> Moment | None:
        stored = self.host.stored
        return None if stored is None else ScanState.from_json(stored.state).horizon

    @property
    def repeated(self) -> list[SimulatedVersion]:
        return [version for version, times in self.emitted.items() if times > 1]

    @property
    def lost(self) -> list[SimulatedVersion]:
        return [
            version for version in self.bucket.objects.values() if self._is_due(version) and not self.emitted[version]
        ]

    @property
    def unwanted(self) -> list[SimulatedVersion]:
        return [version for version in self.emitted if self._is_old(version)]

    def _is_due(self, version: SimulatedVersion) -> bool:
        if self.start == "all":
            return True
        if self.start != "now":
            return version.modified >= self.start
        assert self.began is not None
        assert self.baseline_over is not None
        return version.modified >= self.began or version.visible > self.baseline_over

    def _is_old(self, version: SimulatedVersion) -> bool:
        assert self.first_look is not None
        if self.start == "all" or version.visible >= self.first_look:
            return False
        return version.modified < (self.began or 0 if self.start == "now" else self.start)


def histories(
    start: Literal["now", "all", "time"],
    algorithm: Callable[[random.Random], Algorithm],
    *,
    min_age: int = 0,
    longest_upload: int = LATENESS - SKEW,
    forget_after: int | None = None,
    tells_last: Callable[[random.Random], bool] = lambda _: False,
    scanner: type[Scanner] = Scanner,
    count: int,
) -> Iterator[History]:
    """`forget_after`: listings lie, and what is absent is kept for so long. `tells_last` is asked at each restart."""

    def restart(history: History, stored: StoredPosition | None) -> AnyScanner:
        now = history.bucket.time / SECOND
        made, kept_for = algorithm(history.dice), forget_after or 0
        last = is_last if tells_last(history.dice) else None
        return scanner(made, stored, start=history.start, min_age=min_age, now=now, forget_after=kept_for, is_last=last)

    for seed in range(count):
        begin: Start = 0 if start == "time" else start
        history = History(seed=seed, start=begin, restart=restart, min_age=min_age, longest_upload=longest_upload)
        history.lies = forget_after is not None
        yield history.play()


def window(_: random.Random) -> Algorithm:
    return WindowAlgorithm(LATENESS)


def strict(_: random.Random) -> Algorithm:
    return StrictAlgorithm()


def changing_lateness(dice: random.Random) -> Algorithm:
    return WindowAlgorithm(dice.choice([1, 2, 5]) * LATENESS)


def changing_mode(dice: random.Random) -> Algorithm:
    return dice.choice([window, strict])(dice)


@pytest.mark.parametrize("start", ["now", "all", "time"])
@pytest.mark.parametrize("min_age", [0, 20 * SECOND])
@pytest.mark.parametrize(
    ("algorithm", "count"), [(window, MANY), (strict, SOME), (changing_lateness, SOME), (changing_mode, SOME)]
)
def test_no_version_is_lost_or_comes_twice(
    start: Literal["now", "all", "time"], min_age: int, algorithm: Callable[[random.Random], Algorithm], count: int
) -> None:
    for history in histories(start, algorithm, min_age=min_age, count=count):
        assert (history.lost, history.repeated, history.unwanted) == ([], [], []), history.seed


@pytest.mark.parametrize("start", ["now", "all", "time"])
@pytest.mark.parametrize("min_age", [0, 20 * SECOND])
@pytest.mark.parametrize("algorithm", [window, strict, changing_lateness])
def test_a_version_that_is_emitted_last_comes_once_and_after_all_that_were_there_before_it(
    start: Literal["now", "all", "time"], min_age: int, algorithm: Callable[[random.Random], Algorithm]
) -> None:
    emitted = 0
    for history in histories(start, algorithm, min_age=min_age, tells_last=lambda _: True, count=MANY):
        assert (history.lost, history.repeated, history.unwanted) == ([], [], []), history.seed
        assert history.hurried == [], history.seed
        emitted += sum(map(is_last, history.emitted))
    assert emitted > MANY


@pytest.mark.parametrize("start", ["now", "all", "time"])
@pytest.mark.parametrize("algorithm", [window, strict, changing_mode])
def test_what_is_emitted_last_may_change_at_any_restart(
    start: Literal["now", "all", "time"], algorithm: Callable[[random.Random], Algorithm]
) -> None:
    for history in histories(start, algorithm, tells_last=lambda dice: dice.random() < 0.5, count=MANY):
        assert (history.lost, history.repeated, history.unwanted) == ([], [], []), history.seed


class EmitsLastWithTheFirstScan(Scanner):
    def advance(self, page: ScanPage, *, now: float) -> Step:
        step = super().advance(page, now=now)
        assert self.last is not None
        self.last._before = {*self.last._listed}
        return step


class ForgetsTheHorizonOfWhatWaits(Scanner):
    def _apply_rules(self, new: NewVersions) -> NewVersions:
        horizon = self._state.next_horizon
        new = super()._apply_rules(new)
        self._state = replace(self._state, next_horizon=horizon)
        return new


def test_the_simulation_detects_a_version_that_is_emitted_last_too_early() -> None:
    made = histories("all", strict, tells_last=lambda _: True, scanner=EmitsLastWithTheFirstScan, count=MANY)
    assert any(history.hurried for history in made)


def test_the_simulation_detects_a_horizon_that_passes_what_waits() -> None:
    made = histories("all", window, tells_last=lambda _: True, scanner=ForgetsTheHorizonOfWhatWaits, count=MANY)
    assert any(history.lost for history in made)


@pytest.mark.parametrize("start", ["now", "all"])
def test_strict_knows_no_lateness(start: Literal["now", "all"]) -> None:
    for history in histories(start, strict, longest_upload=5 * LATENESS, count=MANY):
        assert (history.lost, history.repeated, history.unwanted) == ([], [], []), history.seed


@pytest.mark.parametrize("start", ["now", "all", "time"])
@pytest.mark.parametrize("min_age", [0, 20 * SECOND])
def test_strict_repeats_nothing_that_a_listing_lacked_for_a_while(
    start: Literal["now", "all", "time"], min_age: int
) -> None:
    for history in histories(start, strict, min_age=min_age, forget_after=100_000 * SECOND, count=MANY):
        assert (history.lost, history.repeated, history.unwanted) == ([], [], []), history.seed


def test_the_simulation_detects_a_watcher_that_forgets_what_a_listing_lacks() -> None:
    repeats = [history.repeated for history in histories("all", strict, forget_after=0, count=SOME)]
    assert all(repeats)


@pytest.mark.parametrize("start", ["now", "all"])
def test_strict_keeps_what_is_absent_for_as_long_as_it_should_and_no_longer(start: Literal["now", "all"]) -> None:
    for history in histories(start, strict, forget_after=30 * SECOND, count=SOME):
        listed = {version.fingerprint: version.modified for version in history.bucket.objects.values()}
        assert history.host.rows == listed, "the last scans take longer"
        assert history.lost == []


@pytest.mark.parametrize("start", ["now", "all"])
def test_window_remembers_only_what_it_may_meet_again(start: Literal["now", "all"]) -> None:
    for history in histories(start, window, count=SOME):
        listed = {version.fingerprint: version.modified for version in history.bucket.objects.values()}
        horizon = history.horizon
        assert horizon is not None
        assert all(modified >= horizon for modified in history.host.rows.values())
        assert {member for member, modified in listed.items() if modified >= horizon} <= history.host.rows.keys()


@pytest.mark.parametrize("start", ["now", "all"])
def test_strict_forgets_what_is_no_longer_listed(start: Literal["now", "all"]) -> None:
    for history in histories(start, strict, count=SOME):
        listed = {version.fingerprint: version.modified for version in history.bucket.objects.values()}
        assert history.host.rows == listed


def test_window_misses_what_is_later_than_its_lateness() -> None:
    """The simulation reaches the bound, which is the reason for `mode: strict`."""
    made = list(histories("all", window, longest_upload=5 * LATENESS, count=MANY))
    assert sum(len(history.lost) for history in made) > 0
    assert all(history.repeated == [] for history in made)


class HighestSoFar:
    """A watcher that selects `LastModified > max`, as most do, with the same care for crashes as ours."""

    def __init__(self, stored: StoredPosition | None) -> None:
        self.highest = 0 if stored is None else ScanState.from_json(stored.state).horizon or 0
        self.of_scan = self.highest
        self.cursor: str | None = None

    def advance(self, page: SimulatedPage, *, now: float) -> Step:  # noqa: ARG002 - the interface
        later = [version for version in page.listed if version.modified > self.highest]
        self.of_scan = max([self.of_scan, *(version.modified for version in later)])
        self.cursor = page.last
        if page.last is None:
            self.highest = self.of_scan
        position = Position(watermark=self.highest, state=ScanState(horizon=self.highest).to_json())
        return Step(versions=later, watermark={}, position=position)


def test_the_simulation_detects_a_naive_watcher() -> None:
    lost = repeated = 0
    for seed in range(MANY):
        history = History(seed=seed, start="all", restart=lambda _history, stored: HighestSoFar(stored)).play()
        lost += len(history.lost)
        repeated += len(history.repeated)
    assert lost > 0
    assert repeated > 0
