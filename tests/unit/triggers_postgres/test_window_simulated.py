"""Simulated writers, restarts and crashes: the window reports every newest version once, and each of its rules is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import effort
from tests.unit.triggers_postgres.updates_model import (
    DrainingPoller,
    Version,
    WindowPoller,
    clock_at,
    moment_of,
    simulate,
)
from triggers.postgres.by_update.window import TransactionSnapshot, VersionWindow
from triggers.postgres.server.locks import LockSet


@pytest.mark.parametrize("poller_class", [WindowPoller, DrainingPoller])
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=effort(30, 1000))
def test_nothing_is_lost_and_nothing_repeated(poller_class: type[WindowPoller], random: Random) -> None:
    outcome = simulate(random, poller_class, polls=15)

    assert (outcome.lost, outcome.repeated, outcome.unwanted) == (frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize("poller_class", [WindowPoller, DrainingPoller])
@pytest.mark.parametrize("seed", range(effort(15, 300)))
def test_nothing_is_lost_or_repeated_in_long_runs(seed: int, poller_class: type[WindowPoller]) -> None:
    outcome = simulate(Random(seed), poller_class, polls=120)

    assert (outcome.lost, outcome.repeated, outcome.unwanted) == (frozenset(), frozenset(), frozenset())
    assert outcome.versions > 100
    assert outcome.floor != "-infinity"


LATENESSES = [1, 60, 3600]


@pytest.mark.parametrize("poller_class", [WindowPoller, DrainingPoller])
@pytest.mark.parametrize("lateness", LATENESSES)
@pytest.mark.parametrize("seed", range(effort(5, 100)))
def test_clients_whose_clocks_are_behind_lose_and_repeat_nothing(
    seed: int, lateness: int, poller_class: type[WindowPoller]
) -> None:
    outcome = simulate(Random(seed), poller_class, polls=120, lateness=lateness)

    assert (outcome.lost, outcome.repeated, outcome.unwanted) == (frozenset(), frozenset(), frozenset())
    assert outcome.versions > 100
    assert outcome.floor != "-infinity"


class BelievesAllClocks(WindowPoller):
    """Lets the floor follow the server's clock alone."""

    def poll(self) -> int:
        self.lateness = timedelta(0)
        return super().poll()


@pytest.mark.parametrize("lateness", LATENESSES)
def test_a_poller_that_believes_the_clocks_of_clients_loses_rows(lateness: int) -> None:
    runs = [simulate(Random(seed), BelievesAllClocks, polls=60, lateness=lateness) for seed in range(30)]

    assert any(run.lost for run in runs)
    assert not any(run.repeated for run in runs)


MINUTE = timedelta(minutes=1)


def quiet(at: int) -> LockSet:
    return LockSet(boot="1", at=moment_of(at), holders={})


def poll(window: VersionWindow, at: int) -> VersionWindow:
    return window.alive(quiet(at), MINUTE).read(TransactionSnapshot(xmin=at, xmax=at), [])


def test_a_floor_that_was_stored_without_a_margin_is_kept_for_one_read_and_goes_back_then() -> None:
    state = VersionWindow(xmin=900, floor=moment_of(990), boot="1").to_state()
    window = VersionWindow.from_state(state, [])

    assert window.alive(quiet(1000), MINUTE).floor == moment_of(990)
    assert poll(window, 1000).floor == moment_of(940)
    assert poll(poll(window, 1000), 1010).floor == moment_of(950)


def test_a_start_at_a_time_reads_above_it_and_then_as_far_back_as_clocks_may_be() -> None:
    recent, long_ago, future = (VersionWindow(floor=moment_of(at), next_floor=moment_of(at)) for at in (990, 5, 2000))

    assert recent.alive(quiet(1000), MINUTE).floor == moment_of(990)
    assert poll(recent, 1000).floor == moment_of(940)
    assert poll(long_ago, 1000).floor == moment_of(940)
    assert poll(future, 1000).floor == moment_of(2000)


def test_a_clock_of_the_server_that_went_back_takes_the_clocks_of_clients_with_it() -> None:
    window = VersionWindow(xmin=900, floor=moment_of(940), next_floor=moment_of(950))

    assert window.set_back(moment_of(970), MINUTE).floor == moment_of(910)
    assert window.set_back(moment_of(970), MINUTE).next_floor == moment_of(910)
    assert window.set_back("-infinity", MINUTE).floor == "-infinity"


class ByTimeAlone(WindowPoller):
    """The poller that everybody writes first: `updated_at > last`."""

    def poll(self) -> int:
        last = clock_at(self.window.floor)
        rows = [row for row in self.server.versions.values() if row.updated_at > last]
        self.window = VersionWindow(floor=moment_of(max([last, *(row.updated_at for row in rows)])))
        self.others_work()
        self._finish(rows)
        return len(rows)


class FloorOfNow(WindowPoller):
    """Lets the floor follow the clock, whatever transactions are open."""

    def living(self) -> LockSet:
        living = super().living()
        return LockSet(boot=living.boot, at=living.at, holders={})


class ForgetsThePrepared(WindowPoller):
    def living(self) -> LockSet:
        living = super().living()
        names = {name: pid for name, pid in living.holders.items() if pid is not None}
        return LockSet(boot=living.boot, at=living.at, holders=names)


class FloorBeforeTheRows(WindowPoller):
    """Uses the new floor for the rows that may still lie below it."""

    def poll(self) -> int:
        self.window = self.window.alive(self.living(), self.lateness)
        self.window = VersionWindow.from_state(
            {**self.window.to_state(), "floor": self.window.next_floor}, self.window.handled
        )
        return super().poll()


class FloorWithAPart(DrainingPoller):
    """Lets the floor hide parts that are still to come."""

    def part(self, snapshot: TransactionSnapshot, some: list[tuple[int, Version]]) -> VersionWindow:
        window = super().part(snapshot, some)
        return replace(window, floor=window.next_floor)


class PassesThoseWhoCameBetween(DrainingPoller):
    """Continues within a transaction as if no earlier transaction had ended in the meantime."""

    def part(self, snapshot: TransactionSnapshot, some: list[tuple[int, Version]]) -> VersionWindow:
        self.window = replace(self.window, handled=self.window._with({xid for xid, _ in some}), part=None)
        return super().part(snapshot, some)


@pytest.mark.parametrize(
    "poller_class",
    [ByTimeAlone, FloorOfNow, ForgetsThePrepared, FloorBeforeTheRows, FloorWithAPart, PassesThoseWhoCameBetween],
)
def test_a_poller_that_breaks_a_rule_loses_rows_in_the_same_runs(poller_class: type[WindowPoller]) -> None:
    assert any(simulate(Random(seed), poller_class, polls=60).lost for seed in range(100))


class ForgetsWhatItHandled(WindowPoller):
    def read(self, snapshot: TransactionSnapshot, rows: list[Version]) -> VersionWindow:
        return super().read(snapshot, rows[:0])


def test_a_poller_that_forgets_handled_xids_repeats_rows() -> None:
    assert any(simulate(Random(seed), ForgetsWhatItHandled, polls=60).repeated for seed in range(10))


class ForgetsWhereItBrokeOff(DrainingPoller):
    def part(self, snapshot: TransactionSnapshot, some: list[tuple[int, Version]]) -> VersionWindow:
        return replace(super().part(snapshot, some), part=None)


def test_a_poller_that_forgets_where_its_last_part_ended_repeats_rows() -> None:
    assert any(simulate(Random(seed), ForgetsWhereItBrokeOff, polls=60).repeated for seed in range(10))
