"""Simulated writers, restarts and crashes: the ledger loses nothing and repeats nothing, and each of its rules is needed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import effort
from tests.unit.triggers_postgres.visibility_model import LedgerPoller, NaivePoller, simulate
from triggers.postgres.by_id import ledger
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.server.locks import LockSet


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=effort(30, 1000))
def test_nothing_is_lost_and_nothing_repeated(random: Random) -> None:
    outcome = simulate(random, LedgerPoller, polls=15)

    assert not outcome.lost
    assert not outcome.repeated
    assert not outcome.unwanted
    assert outcome.settled


@pytest.mark.parametrize("seed", range(effort(15, 300)))
def test_nothing_is_lost_or_repeated_in_long_runs(seed: int) -> None:
    outcome = simulate(Random(seed), LedgerPoller, polls=120)

    assert outcome.rows > 0
    assert (outcome.lost, outcome.repeated, outcome.unwanted) == (frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize("seed", range(effort(8, 100)))
def test_nothing_is_lost_while_few_gaps_are_allowed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST_GAPS", 2)
    outcome = simulate(Random(seed), LedgerPoller, polls=120)

    assert (outcome.lost, outcome.repeated, outcome.unwanted) == (frozenset(), frozenset(), frozenset())


class ForgetsThePrepared(LedgerPoller):
    def holders(self) -> LockSet:
        locks = super().holders()
        holders = {name: pid for name, pid in locks.holders.items() if not name.startswith("-1/")}
        return LockSet(boot=locks.boot, at=locks.at, holders=holders)


class TakesACutReadForAWholeOne(LedgerPoller):
    def read(self, ids: list[int], fresh_limit: int, late_limit: int) -> tuple[Ledger, bool]:
        return self.ledger.read(ids, fresh_limit=fresh_limit, late_limit=late_limit + 1, gaps_read=self.gaps_read)


class TakesUnreadGapsForReadOnes(LedgerPoller):
    def read(self, ids: list[int], fresh_limit: int, late_limit: int) -> tuple[Ledger, bool]:
        return self.ledger.read(ids, fresh_limit=fresh_limit, late_limit=late_limit)


class ListsHoldersAfterTheRows(LedgerPoller):
    def rows(self, fresh_limit: int, late_limit: int) -> list[int]:
        rows = super().rows(fresh_limit, late_limit)
        self.others_work()
        self.ledger = self.ledger.locked(self.holders()) if self.ledger.gaps else self.ledger
        return rows


class ListsHoldersOfTheRowsBefore(LedgerPoller):
    """Uses a list that was read before the rows instead of after them."""

    def poll(self) -> None:
        self._before = self.table.lock_holders()
        for _ in range(5):
            self.others_work()
        super().poll()

    def read(self, ids: list[int], fresh_limit: int, late_limit: int) -> tuple[Ledger, bool]:
        after, cut = super().read(ids, fresh_limit, late_limit)
        return after.locked(self._before), cut


@pytest.mark.parametrize(
    "poller_class",
    [
        NaivePoller,
        ForgetsThePrepared,
        TakesACutReadForAWholeOne,
        TakesUnreadGapsForReadOnes,
        ListsHoldersAfterTheRows,
        ListsHoldersOfTheRowsBefore,
    ],
)
def test_a_poller_that_breaks_a_rule_loses_rows_in_the_same_runs(poller_class: type[LedgerPoller]) -> None:
    assert any(simulate(Random(seed), poller_class, polls=120).lost for seed in range(100))
