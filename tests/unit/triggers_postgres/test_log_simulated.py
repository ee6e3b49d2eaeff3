"""Simulated transactions, crashes and restores: mode `log` reports every change once, and each of its rules is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import effort
from tests.unit.triggers_postgres.log_model import TABLE, LogOutcome, LogPoller, simulate
from triggers.changes.log_position import ChangeStream, LogPosition


def is_exact(outcome: LogOutcome) -> bool:
    """Whether every change was reported once and in order, or the poller is blocked because something reported is gone."""
    is_blocked_with_reason = outcome.is_blocked == bool(outcome.taken_back)
    return outcome.in_order and is_blocked_with_reason and not (outcome.lost or outcome.repeated)


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=effort(30, 1000))
def test_nothing_is_lost_and_nothing_repeated(random: Random) -> None:
    outcome = simulate(random, LogPoller, polls=30)

    assert is_exact(outcome), outcome
    assert not outcome.is_blocked, "an ordinary crash blocks nothing"


@pytest.mark.parametrize("seed", range(effort(60, 2000)))
def test_nothing_is_lost_where_a_copy_takes_the_place_of_the_server(seed: int) -> None:
    outcome = simulate(Random(seed), LogPoller, polls=60, restores=True)

    assert is_exact(outcome), outcome


def test_the_simulated_copies_take_back_what_was_reported() -> None:
    outcomes = [simulate(Random(seed), LogPoller, polls=60, restores=True) for seed in range(60)]
    assert sum(outcome.is_blocked for outcome in outcomes) > 5
    assert sum(not outcome.is_blocked for outcome in outcomes) > 5


class ForgetsTheIndex(LogPoller):
    """Reports a divided transaction from its beginning."""

    def position(self) -> LogPosition:
        return replace(super().position(), part=None, index=0)


class AdvancesIntoATransaction(LogPoller):
    """Advances the slot to the commit of a transaction that was reported in part."""

    def advances_to(self) -> int:
        position = self.position()
        return position.end if position.part is None else position.part.lsn + 48

    def poll(self, *, crash_after: int | None = None) -> None:
        super().poll(crash_after=crash_after)
        if crash_after is not None:
            self.server.advance(self.advances_to())


class AdvancesBeforeTheCommit(LogPoller):
    """Advances the slot to what it has read, whether it is committed or not."""

    def poll(self, *, crash_after: int | None = None) -> None:
        super().poll(crash_after=crash_after)
        self.server.advance(self.server.lsn)


class DoesNotStopAtWhatWasReported(LogPoller):
    """Reads a few transactions at a time also before it came to the last one that was reported."""

    def limits(self, _position: LogPosition) -> tuple[int | None, int | None]:
        return None, 7


class TrustsLsns(LogPoller):
    """Skips what lies below the position, whichever transactions that are."""

    def position(self) -> LogPosition:
        return replace(super().position(), last=None)

    def stream(self, position: LogPosition) -> ChangeStream:
        return ChangeStream(position, TABLE, max(self.server.confirmed, position.end))

    def handed_out(self, upto: int | None, count: int | None) -> Iterator[tuple[int, bytes]]:
        below = self.position().end
        skips = False
        for lsn, data in super().handed_out(upto, count):
            if data[:1] == b"B":
                skips = int.from_bytes(data[1:9]) < below
            if not skips:
                yield lsn, data


@pytest.mark.parametrize(
    ("poller", "restores"),
    [
        (ForgetsTheIndex, False),
        (AdvancesIntoATransaction, False),
        (AdvancesBeforeTheCommit, False),
        (TrustsLsns, True),
    ],
)
def test_a_poller_that_breaks_a_rule_fails_in_the_same_runs(poller: type[LogPoller], restores: bool) -> None:
    outcomes = [simulate(Random(seed), poller, polls=60, restores=restores) for seed in range(60)]

    assert not all(is_exact(outcome) for outcome in outcomes)


def test_reading_a_few_at_a_time_before_what_was_reported_gets_stuck() -> None:
    outcomes = [simulate(Random(seed), DoesNotStopAtWhatWasReported, polls=60) for seed in range(60)]

    assert any(outcome.lost for outcome in outcomes)
