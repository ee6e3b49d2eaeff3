"""The machine's clock jumps by an hour, forwards and back, for the daemon, its files' times and its database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.databases import both_in_long_form, migrate
from tests.effort import SEED, effort
from tests.servers import running_postgres
from tests.torture.results import Result, difference
from tests.torture.stepped_clock import SteppedClock, stepped_clock
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]
HOUR = 3600
STEPS = [HOUR, -HOUR, *[0, HOUR, 0, -HOUR] * effort(0, 10)]
"""The seconds by which the clock is ahead of the machine's, one step after the other."""
SECONDS_EACH = effort(2, 10)


@pytest.fixture
def clock() -> Iterator[SteppedClock]:
    with stepped_clock() as clock:
        yield clock


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"))
def test_a_clock_that_jumps_by_an_hour_causes_no_loss_and_no_repeat(
    tmp_path: Path,
    shop: str,
    clock: SteppedClock,
    dialect: str,
    monkeypatch: pytest.MonkeyPatch,
    record_result: Callable[[Result], None],
) -> None:
    with ExitStack() as stack:
        database = None
        if dialect == "postgresql":
            with monkeypatch.context() as patch:
                for name, value in clock.environment.items():
                    patch.setenv(name, value)
                database = stack.enter_context(running_postgres()).sqlalchemy_url()
            migrate(database)
        world = stack.enter_context(World(tmp_path, shop, database))
        world.daemons.environment.update(clock.environment)
        world.start()
        world.largest_gap()
        for offset in STEPS:
            with world.sources.load(SEED):
                time.sleep(SECONDS_EACH / 2)
                clock.set(offset)
                time.sleep(SECONDS_EACH / 2)
            world.settle()
        tally = world.write_and_settle()
        gap = world.largest_gap()
        span = world.metadata.time_span()
        assert world.daemons.stop() == 0
    steps = difference(tally, None)
    record_result(
        Result(
            fault="clock stepped by an hour", database=dialect, seed=SEED, times=len(STEPS), gap=f"{gap:.1f}", **steps
        )
    )
    assert (tally.lost, tally.repeated) == (0, 0)
    assert span > timedelta(seconds=1.5 * HOUR), "the clock of the database stood still"
