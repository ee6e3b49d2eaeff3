"""A real daemon hosts misbehaving triggers beside a witness that keeps its rhythm, a table and a folder."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.databases import both_in_long_form
from tests.effort import LONG, PATIENCE, SEED, effort
from tests.torture.daemons import until
from tests.torture.results import Result, difference
from tests.torture.rhythm import rhythm
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]

RAISING = [
    *("constructor raises", "check raises", "raises"),
    *("constructor raises-cancelled", "check raises-cancelled", "raises-cancelled", "cancels-its-task"),
    *("constructor raises-exit", "check raises-exit", "raises-exit", "exits"),
    *("constructor raises-interrupt", "check raises-interrupt", "raises-interrupt", "raises-after-a-batch"),
    *("raises-memory", "raises-recursion", "raises-group", "raises-unspeakable", "raises-generator-exit"),
]
HANGING = ["check hangs", "hangs"]
GARBAGE = [
    *("yields-garbage", "yields-none", "yields-nan", "yields-object", "yields-surrogate", "yields-no-event"),
    *("yields-many", "yields-much"),
]
BLOCKING = ["spins", "check spins", "constructor spins"]
PATIENT = ["never-awaits", "sleeps", "check sleeps"]
"""Behaviours that are harmless in a process of their own: the daemon just waits for those that never await or that sleep."""
QUICK = [*("constructor raises", "check raises", "raises", "raises-cancelled", "raises-exit", "raises-interrupt"),
         *("raises-memory", "raises-recursion", "yields-garbage", "yields-many", "yields-much", "leaks", "dies")]  # fmt: skip
"""Behaviours that fail fast. The others have a minute to answer: a process starts slowly on a busy machine."""
SLOW = ["check hangs", "hangs", "spins", "ignores-cancellation", "dies-behind"]
OTHERS = [*RAISING, *HANGING, *GARBAGE, *BLOCKING, "check dies"]
ISOLATED = [*dict.fromkeys([*QUICK, *SLOW, *(OTHERS if LONG else ())])]
LIGHT = 0.2
"""The share of the full load: the subject here is the neighbours."""
BOUNDS = {"poll_timeout": "2s", "grace": "3s"}
BOUNDS_OF_CHILDREN = {"poll_timeout": "10s", "isolation": {"memory_mb": 128}}
Record = Callable[[Result], None]


def hostile(behaviours: Iterable[str], isolation: str) -> Mapping[str, Any]:
    """Return a watcher for each behaviour, named after it."""
    keys = {"trigger": "unruly.UnrulyTrigger", "isolation": isolation}
    return {name_of(does): {**keys, "does": does} for does in behaviours}


def name_of(does: str) -> str:
    return does.replace(" ", ".")


def errors(world: World) -> dict[str, str]:
    """Return the error of each failing watcher, from the log."""
    return {record["watcher"]: record["error"] for record in world.daemons.records("watcher.failed")}


def have_failed(world: World, behaviours: Iterable[str]) -> bool:
    return {name_of(does) for does in behaviours} <= errors(world).keys()


def result(world: World, fault: str, dialect: str, count: int, gap: str) -> Result:
    steps = difference(world.tally(), None)
    return Result(fault=fault, database=dialect, seed=SEED, times=count, gap=gap, **steps)


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
def test_beside_isolated_hostile_triggers_the_witness_never_misses_two_polls(
    tmp_path: Path, shop: str, database_url: str, dialect: str, record_result: Record
) -> None:
    neighbours = hostile([*ISOLATED, *PATIENT], "process")
    with World(tmp_path, shop, database_url, look_every=1.0, hostile=neighbours, triggerer=BOUNDS_OF_CHILDREN) as world:
        process = world.daemons.start()
        until(lambda: world.daemons.watchers()["witness"]["state"] == "running")
        with rhythm(world.sources, process.pid) as measured, world.sources.load(SEED, LIGHT):
            until(lambda: have_failed(world, ISOLATED if LONG else QUICK))
            time.sleep(effort(3, 300))
            missed, gap = measured.missed(), str(measured)
        tally = world.write_and_settle()
        watchers = world.daemons.watchers()
        record_result(result(world, "hostile neighbours, isolated", dialect, len(neighbours), gap))
        assert world.daemons.stop() == 0
    assert (tally.lost, tally.repeated, missed) == (0, 0, [])
    assert {watchers[name]["state"] for name in ("witness", "isolated", "rows", "files")} == {"running"}
    assert "128 MB is the limit" in errors(world)["leaks"]
    assert errors(world).keys().isdisjoint(map(name_of, PATIENT))
    assert kept_busy_by(world, ISOLATED) == set()


def kept_busy_by(world: World, behaviours: Iterable[str]) -> set[str]:
    """Return which of these watchers were reported for blocking the event loop."""
    names = {record.get("watcher") for record in world.daemons.records("loop.blocked")}
    return {name_of(does) for does in behaviours} & names


@pytest.mark.parametrize("dialect", both_in_long_form("sqlite"), indirect=True)
def test_whatever_a_trigger_raises_or_yields_fails_only_its_own_watcher(
    tmp_path: Path, shop: str, database_url: str, dialect: str, record_result: Record
) -> None:
    """The triggers run in the daemon's own process."""
    harmless = [*RAISING, *HANGING, *GARBAGE]
    behaviours = hostile([*harmless, "never-awaits", "floods", "dies-behind"], "none")
    with World(tmp_path, shop, database_url, look_every=1.0, hostile=behaviours, triggerer=BOUNDS) as world:
        process = world.daemons.start()
        with rhythm(world.sources, process.pid) as measured, world.sources.load(SEED, LIGHT):
            until(lambda: have_failed(world, harmless))
            gap = str(measured)
        tally = world.write_and_settle()
        record_result(result(world, "hostile neighbours, not isolated", dialect, len(behaviours), gap))
        assert world.daemons.stop() == 0
    assert (tally.lost, tally.repeated) == (0, 0)
    sentences = errors(world)
    assert sentences["hangs"].startswith("the first batch took longer than 2 s")
    assert sentences["raises-exit"].startswith("SystemExit was raised")
    assert "100000 events" in sentences["yields-many"]


@pytest.mark.parametrize("does", ["check spins", *(["sleeps"] if LONG else [])])
def test_a_trigger_that_blocks_the_event_loop_is_named_and_sigterm_still_ends_the_process(
    tmp_path: Path, shop: str, does: str
) -> None:
    with World(tmp_path, shop, hostile=hostile([does], "none"), triggerer=BOUNDS) as world:
        process = world.daemons.start()
        until(lambda: kept_busy_by(world, [does]) == {name_of(does)})
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
    [blocked] = [record for record in world.daemons.records("loop.blocked") if record.get("watcher") == name_of(does)]
    assert "unruly.py" in "".join(blocked["stack"])
    [overdue] = world.daemons.records("daemon.stop_overdue")
    assert f"watcher {name_of(does)}" in overdue["watchers"]


def test_a_trigger_that_ignores_its_cancellation_delays_no_other_and_is_named(tmp_path: Path, shop: str) -> None:
    with World(tmp_path, shop, hostile=hostile(["ignores-cancellation"], "none"), triggerer=BOUNDS) as world:
        process = world.daemons.start()
        until(lambda: world.daemons.watchers()["ignores-cancellation"]["state"] == "starting")
        world.daemons.post("/api/v2/watchers/ignores-cancellation/pause")
        for _ in range(3):
            tally = world.write_and_settle()
        until(lambda: bool(world.daemons.records("watcher.not_stopping")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
    assert (tally.lost, tally.repeated) == (0, 0)
    assert world.daemons.records("daemon.stop_overdue")[0]["watchers"] == ["watcher ignores-cancellation"]
