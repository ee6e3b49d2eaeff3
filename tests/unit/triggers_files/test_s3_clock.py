"""The time at a bucket: no response, and no run of them, makes a horizon forget what is still to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from random import Random

import pytest

from tests.effort import effort
from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import SimulatedBucket
from triggers.errors import SourceChanged
from triggers.file_scan.rules.modes import WindowAlgorithm
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.versions import SECOND, Moment
from triggers.s3.clock import ENOUGH, TOLERANCE, ClockReading, DatedResponse, ServerClock

HOUR = 3600 * SECOND
T = 1_800_000_000 * SECOND


@dataclass(kw_only=True)
class Server:
    """Responses ten seconds apart; `asked` is by the clock that runs here."""

    clock: ServerClock = field(default_factory=ServerClock)
    asked: int = 0

    def __post_init__(self) -> None:
        self.clock.follow(timedelta(hours=1))

    def answer(self, skew: int = 0, *, after: int = 10 * SECOND, took: int = 0) -> ClockReading:
        self.asked += after
        date = (T + self.asked + skew) // SECOND * SECOND
        return self.clock.observe(DatedResponse(date=date, sent=self.asked, received=self.asked + took))

    @property
    def now(self) -> Moment:
        return T + self.asked


def settled() -> Server:
    server = Server()
    for _ in range(ENOUGH):
        reading = server.answer()
    assert reading.is_believed
    return server


def test_no_time_is_believed_before_enough_responses_agree() -> None:
    server = Server()
    assert [server.answer().is_believed for _ in range(4)] == [False, False, True, True]
    assert server.clock.finding is None


def test_one_date_far_ahead_moves_no_horizon() -> None:
    server = settled()
    wrong = server.answer(25 * HOUR)
    assert not wrong.is_believed
    assert wrong.moment <= server.now + TOLERANCE
    after = [server.answer() for _ in range(ENOUGH)]
    assert [reading.is_agreed for reading in after] == [False, False, True]
    assert not any(reading.is_believed for reading in after), "what the wrong clock stamped may still come"
    finding = server.clock.finding
    assert finding is not None
    assert "NTP" in finding.remedy
    assert server.answer(after=HOUR).is_believed
    assert server.clock.finding is None


@pytest.mark.parametrize("skew", [HOUR, -HOUR, 25 * HOUR])
def test_a_clock_that_was_set_is_believed_after_all_responses_agreed_for_lateness(skew: int) -> None:
    server = settled()
    readings = [server.answer(skew) for _ in range(30)]
    assert not any(reading.is_believed for reading in readings)
    assert readings[-1].moment <= server.now + min(skew, TOLERANCE)
    assert server.answer(skew, after=HOUR).is_believed
    assert server.answer(skew).moment == (server.now + skew) // SECOND * SECOND


def test_disagreeing_gateways_are_never_believed() -> None:
    server = settled()
    readings = [server.answer(number % 2 * HOUR, after=600 * SECOND) for number in range(50)]
    assert not any(reading.is_believed for reading in readings[1:])
    assert server.clock.finding is not None


def test_before_any_clock_is_trusted_the_lowest_counts() -> None:
    server = Server()
    server.answer(HOUR)
    server.answer()
    assert server.answer(HOUR).moment <= server.now


def test_a_slow_response_and_a_drifting_clock_are_no_disagreement() -> None:
    server = settled()
    assert server.answer(50 * SECOND, took=60 * SECOND).is_believed
    assert server.answer(after=61 * SECOND).is_believed
    for drift in range(40):
        assert server.answer(drift * SECOND).is_believed


def test_the_moment_is_not_later_than_the_listing() -> None:
    server = settled()
    reading = server.answer(7 * SECOND, took=8 * SECOND)
    assert reading.moment <= server.now


def no_skew(_number: int, _random: Random) -> int:
    return 0


def one_glitch(number: int, random: Random) -> int:
    """Some dates are a day ahead or back, never two in a row."""
    return random.choice([-25, 25]) * HOUR if number % 7 == 3 else 0


def two_gateways(number: int, _random: Random) -> int:
    return number % 2 * HOUR


def three_gateways(number: int, _random: Random) -> int:
    return (number % 3 - 1) * HOUR


@pytest.mark.parametrize("skew", [no_skew, one_glitch, two_gateways, three_gateways])
def test_no_version_is_lost_or_comes_twice_whatever_the_clocks_show(skew: Callable[[int, Random], int]) -> None:
    """Random histories; each restart asks again. A watcher that believes each Date loses files in all but the first."""
    for seed in range(effort(20, 400)):
        history = _History(seed=seed, skew=skew)
        assert history.play() == ([], []), seed


LATENESS = 2 * HOUR


@dataclass(kw_only=True)
class _History:
    seed: int
    skew: Callable[[int, Random], int]
    host: DictHost = field(default_factory=DictHost)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.bucket = SimulatedBucket(dice=self.random, longest_upload=LATENESS - 10 * SECOND)
        self.numbers = count(self.random.randrange(10))
        self.emitted: list[object] = []

    def play(self) -> tuple[Sequence[object], Sequence[object]]:
        for step in range(150):
            if step % 50 == 0:
                clock, scanner = self._start()
            self.bucket.time += self.random.choice([0, 60 * SECOND, 600 * SECOND])
            self.bucket.happen()
            scanner = self._scan(clock, scanner)
        self.bucket.settle()
        for _ in range(5):
            self.bucket.time += 60 * SECOND
            scanner = self._scan(clock, scanner)
        lost = [version for version in self.bucket.objects.values() if version not in self.emitted]
        return lost, [version for version in self.emitted if self.emitted.count(version) > 1]

    def _start(self) -> tuple[ServerClock, Scanner]:
        clock = ServerClock()
        clock.follow(timedelta(microseconds=LATENESS))
        while not clock.is_known:
            self._read(clock)
        return clock, self._resumed()

    def _resumed(self) -> Scanner:
        return Scanner(WindowAlgorithm(LATENESS), self.host.stored, start="all", min_age=0, now=self._seconds)

    def _read(self, clock: ServerClock) -> ClockReading:
        date = (self.bucket.time + self.skew(next(self.numbers), self.random)) // SECOND * SECOND
        return clock.observe(DatedResponse(date=date, sent=self.bucket.time, received=self.bucket.time))

    def _scan(self, clock: ServerClock, scanner: Scanner) -> Scanner:
        """Scan; a watcher that is blocked, for example by a date a day back, starts again."""
        reading = self._read(clock)
        page = replace(self.bucket.page(None, 1000), clock=reading.moment, is_clock_believed=reading.is_believed)
        try:
            step = scanner.advance(page, now=self._seconds)
        except SourceChanged:
            return self._resumed()
        if step.position is not None:
            self.host.commit(step.position)
        self.emitted += step.versions
        return scanner

    @property
    def _seconds(self) -> float:
        return self.bucket.time / SECOND
