"""SIGKILL and SIGTERM at any moment under load: each row and each file is in exactly one event."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.databases import both_in_long_form
from tests.e2e.watching import processes_that_mention
from tests.effort import SEED, effort
from tests.torture.daemons import STOPPED
from tests.torture.results import Result, difference
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = effort(3, 200)


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
def test_a_daemon_killed_at_any_moment_loses_and_repeats_nothing(
    tmp_path: Path, shop: str, database_url: str, dialect: str, record_result: Callable[[Result], None]
) -> None:
    dice, codes = Random(SEED), list[tuple[signal.Signals, int]]()
    with World(tmp_path, shop, database_url) as world:
        with world.sources.load(SEED):
            for _ in range(KILLS):
                world.daemons.start()
                world.daemons.wait_for_any_moment(dice)
                number = dice.choice([signal.SIGKILL, signal.SIGTERM])
                codes.append((number, world.daemons.stop(number)))
        world.start()
        world.settle()
        world.daemons.stop(signal.SIGKILL)
        world.start()
        tally = world.write_and_settle()
        gap = world.largest_gap()
        assert world.daemons.stop() == 0
    kills = [number for number, _ in codes]
    record_result(
        Result(
            fault=f"SIGKILL {kills.count(signal.SIGKILL) + 1}, SIGTERM {kills.count(signal.SIGTERM) + 1}",
            database=dialect,
            seed=SEED,
            times=len(kills) + 2,
            gap=f"{gap:.1f}",
            **difference(tally, None),
        )
    )
    assert (tally.lost, tally.repeated) == (0, 0)
    assert {code for number, code in codes if number == signal.SIGTERM} <= STOPPED
    assert processes_that_mention(tmp_path) == []
