"""Triggers that misbehave in processes of their own do not disturb a witness, a watcher in the daemon's process.

The tests never assert how often the witness polls: `bench/isolation.py` measures that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from store.database import Database
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.service.isolation.hosting import Host, configured, counted, descendants, gone, hosting
from watcher.features.isolation.fork_server import ForkServer

pytestmark = [pytest.mark.service, pytest.mark.slow]
WITNESS = {"trigger": "hostile.Witness", "isolation": "none", "interval": "50ms"}
RAISED = {
    "key_error": "the trigger raised KeyError: 'a key'",
    "cancelled": "the trigger raised CancelledError",
    "system_exit": "the trigger raised SystemExit: 3",
    "keyboard_interrupt": "the trigger raised KeyboardInterrupt",
    "memory_error": "the trigger raised MemoryError: 128 MB is the limit, settings.triggerer.isolation.memory_mb",
    "recursion": "the trigger raised RecursionError",
    "exit": "the trigger's process ended with exit code 5",
    "abort": "the trigger's process was killed by SIGABRT",
    "background": "the trigger raised KeyError: 'in the background'",
    "background_exit": "the trigger raised SystemExit: 7",
    "leak": "128 MB is the limit",
    "leak_shared": "128 MB is the limit; fix its leak, or raise settings.triggerer.isolation.memory_mb",
}
GARBAGE = {
    "text": "the trigger raised AttributeError: 'str' object has no attribute",
    "not_json": "the trigger raised TypeError: Object of type object is not JSON serializable",
    "many": "a batch of 100000 events, and 10000 is the limit; let it yield smaller batches, or raise "
    "settings.triggerer.batch.max_events",
    "large": "a batch of more than 16000000 bytes; let it yield smaller batches, or raise "
    "settings.triggerer.batch.max_bytes",
    "rows": "the trigger changed 1100000 rows of its position at once, and 1000000 is the limit",
    "protocol": "the trigger's process broke the protocol: a frame of 4294967295 bytes was announced",
}
HANGS = ("sleep", "spin", "spin_in_c", "hang", "swallow_cancellation", "print", "ignore_signals")


def hostile(behaviour: str, **keys: Any) -> dict[str, Any]:
    return {"trigger": "hostile.Counter", "behaviour": behaviour, "interval": "50ms", **keys}


async def witness_continues(host: Host) -> None:
    """Wait until the witness has emitted ten more events."""
    await host.counted("witness", len(await counted(host.database, "witness")) + 10)


@on_both
async def test_a_failing_trigger_does_not_disturb_other_watchers(
    database: Database, server: ForkServer, tmp_path: Path, dialect: str
) -> None:
    some = RAISED if dialect == "sqlite" else {name: RAISED[name] for name in ("cancelled", "system_exit", "exit")}
    watchers = {"witness": WITNESS, **{name: hostile(name) for name in some}}
    configuration = configured(tmp_path, watchers, server, isolation={"memory_mb": 128})
    async with hosting(database, configuration, server) as host:
        for name, sentence in some.items():
            await host.failing(name, sentence)
        await witness_continues(host)
        assert (await host.watcher("witness")).error is None


@pytest.mark.parametrize("at", ["init", "check"])
async def test_a_trigger_that_fails_in_its_constructor_or_check_does_not_disturb_other_watchers(
    database: Database, server: ForkServer, tmp_path: Path, at: str
) -> None:
    some = {name: RAISED[name] for name in ("key_error", "cancelled", "system_exit", "exit", "recursion")}
    watchers = {"witness": WITNESS, **{name: hostile(name, at=at) for name in some}}
    async with hosting(database, configured(tmp_path, watchers, server), server) as host:
        for name, sentence in some.items():
            await host.failing(name, sentence)
        await witness_continues(host)


async def test_a_malformed_or_oversized_batch_commits_nothing(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    watchers = {"witness": WITNESS, **{name: hostile(name, trigger="hostile.Garbage") for name in GARBAGE}}
    async with hosting(database, configured(tmp_path, watchers, server), server) as host:
        for name, sentence in GARBAGE.items():
            await host.failing(name, sentence)
            assert (await host.watcher(name)).position_version == 0
        await witness_continues(host)


@pytest.mark.parametrize("at", ["check", "poll"])
async def test_a_trigger_that_never_answers_is_reported_and_its_process_is_ended(
    database: Database, server: ForkServer, tmp_path: Path, at: str
) -> None:
    watchers = {"witness": WITNESS, **{name: hostile(name, at=at) for name in HANGS}}
    configuration = configured(tmp_path, watchers, server, poll_timeout="4s")
    async with hosting(database, configuration, server, grace=0.5) as host:
        for name in HANGS:
            await host.failing(
                name, "the source did not answer" if (name, at) == ("hang", "poll") else "took longer than"
            )
        await witness_continues(host)
        processes = {process for name in HANGS if (process := host.process_of(name)) is not None}
    await gone(processes)


async def test_a_trigger_that_blocks_after_its_first_batch_is_ended(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    good.touch()
    watchers = {name: hostile(name, until=str(good)) for name in ("spin", "spin_in_c")}
    configuration = configured(tmp_path, watchers, server, poll_timeout="8s")
    async with hosting(database, configuration, server, grace=0.5) as host:
        for name in watchers:
            await host.counted(name, 2)
        good.unlink()
        for name in watchers:
            await host.failing(name, "does not answer and keeps its process busy")


async def test_a_trigger_that_recovers_continues_at_its_position(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    watchers = {"moody": hostile("exit", until=str(good))}
    async with hosting(database, configured(tmp_path, watchers, server), server) as host:
        await host.failing("moody", "exit code 5")
        good.touch()
        await host.counted("moody", 5)
        assert (await host.watcher("moody")).error is None


async def test_a_killed_daemon_leaves_no_process_behind(tmp_path: Path) -> None:
    """The children end by themselves, whatever they are doing: no host is left to end them."""
    good = tmp_path / "good"
    good.touch()
    names = ("", *HANGS)
    watchers = {f"w{index}": hostile(name, until=str(good)) for index, name in enumerate(names)}
    configured(tmp_path, watchers)
    program = [sys.executable, "-m", "watcher", "run", "--config", str(tmp_path / "watchers.yaml")]
    async with await anyio.open_process(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        with anyio.fail_after(PATIENCE):
            while len(below := descendants(daemon.pid)) < len(names) + 1:
                await anyio.sleep(0.1)
        good.unlink()
        await anyio.sleep(1)  # each is doing what its behaviour says by now
        daemon.kill()
    await gone(below)
