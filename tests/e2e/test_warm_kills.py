"""The daemon, shims and warm drivers are killed before and after the hand-over: each try is started once.

This is test_kills.py with drivers that were started ahead, most of them without Spark. WATCHER_TEST_LONG=1 kills 200 times.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from signal import SIGKILL

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from tests.e2e.test_kills import World, assert_each_once, assert_no_orphan_wrote, rows, write_world
from tests.e2e.watching import processes_that_mention, programs_at_once_that_mention
from tests.effort import PATIENCE, SEED, effort
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port
from watcher.submit.local.processes import TAG_VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = effort(4, 200)
REAL_KILLS = effort(0, 10)
DRIVERS_AT_MOST = 4
RUNS_PER_ROUND = 2


class WarmWorld(World):
    def drivers(self) -> list[str]:
        """Return the command lines of drivers that wait, run, start or end."""
        return [line for line in programs_at_once_that_mention(self.folder) if _is_driver(line)]

    async def kill_something_warm(self) -> str | None:
        """Kill a shim or a driver that waits or was handed a try. Return which, None if there is none."""
        folders = list(self.folder.glob("home/warm/*"))
        self.random.shuffle(folders)
        for folder in folders:
            before, processes = _try_of(folder), await run_sync(_tagged, f"warm-{folder.name}")
            if processes:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(processes), SIGKILL)
                self.hit.update(tag for tag in (before, _try_of(folder)) if tag)
                return "used" if before else "waiting"
        return None

    async def some_wait(self) -> bool:
        """Give the daemon time to have a driver ready. Return whether it has."""
        with anyio.move_on_after(PATIENCE):
            while not await self.ready():
                await anyio.sleep(0.05)
            return True
        return False

    async def ready(self) -> int:
        async with httpx.AsyncClient(base_url=self.daemon.url, timeout=60) as client:
            text = (await client.get("/metrics")).text
        return int(float(text.partition('watcher_warm_drivers{state="ready"} ')[2].partition("\n")[0]))


def _is_driver(line: str) -> bool:
    """Return whether this is a driver's own process, not its JVM, whose command line has the same words."""
    program = line.partition(" ")[0]
    return "python" in program and ("warm_program.py" in line or "job.py" in line) and "-submit" not in line


def _tagged(tag: str) -> list[int]:
    processes = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{TAG_VARIABLE}={tag}".encode() in environment.read_bytes().split(b"\0"):
                processes.append(int(environment.parent.name))
    return processes


def _try_of(folder: Path) -> str | None:
    try:
        one_try = (folder / "try").readlink()
    except OSError:
        return None
    return f"run-{one_try.parent.name}-{one_try.name}"


def write_warm_world(folder: Path, port: int, *, real: bool) -> Path:
    configuration = write_world(folder, port, jobs={"load": real})
    text = configuration.read_text()
    memory = f"parallelism: 4, driver_memory_mb: 100, memory_mb: {DRIVERS_AT_MOST}00, warm_memory_mb: 200"
    text = text.replace("parallelism: 4", memory).replace("spark: {", "spark: {warm: 2, ")
    configuration.write_text(text)
    return configuration


async def watch_memory(world: WarmWorld, most: list[str]) -> None:
    """Note the largest set of drivers that ever lived at the same time."""
    while True:
        if len(drivers := await run_sync(world.drivers)) > len(most):
            most[:] = drivers
        await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("real", "kills"),
    [
        (False, KILLS),
        pytest.param(True, REAL_KILLS, marks=pytest.mark.skipif(not REAL_KILLS, reason="WATCHER_TEST_LONG")),
    ],
    ids=["stand-in", "spark"],
)
async def test_sigkill_before_and_after_the_hand_over_starts_each_try_once(
    tmp_path: Path, real: bool, kills: int
) -> None:
    print(f"WATCHER_TEST_SEED={SEED}")  # noqa: T201  shown when the test fails
    port, killed, warm_starts = free_port(), Counter[str](), 0
    most: list[str] = []
    configuration = write_warm_world(tmp_path, port, real=real)
    async with (
        running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon,
        anyio.create_task_group() as tasks,
    ):
        world = WarmWorld(tmp_path, daemon, Random(SEED))
        tasks.start_soon(watch_memory, world, most)
        while killed.total() < kills:
            if world.random.random() < 0.5:
                await world.some_wait()
            await world.trigger(RUNS_PER_ROUND)
            await anyio.sleep(world.random.uniform(0, 6.0 if real else 0.7))
            match world.random.choice(["daemon", "shim", "warm", "warm"]):
                case "warm" if kind := await world.kill_something_warm():
                    killed[kind] += 1
                case "shim" if await world.kill_shim():
                    killed["shim"] += 1
                case _:
                    await world.kill_daemon()
                    killed["daemon"] += 1
        assert await world.some_wait(), "what was killed is replaced"
        runs = await world.all_succeed()
        with anyio.fail_after(PATIENCE):
            while rows(tmp_path, "SELECT run_id", "WHERE ended_at IS NULL"):
                await anyio.sleep(0.1)
            while any("orphan.py" in command for command in processes_that_mention(tmp_path)):
                await anyio.sleep(0.1)
        tasks.cancel_scope.cancel()
        assert await daemon.stop() == 0
    assert processes_that_mention(tmp_path) == []
    assert list(tmp_path.glob("home/warm/*")) == []
    warm_starts = sum('"warm"' in str(handle) for (handle,) in rows(tmp_path, "SELECT handle"))
    assert warm_starts
    tries, refused = assert_each_once(tmp_path, world.hit), assert_no_orphan_wrote(tmp_path)
    assert len(most) <= DRIVERS_AT_MOST, most
    shown = f"{dict(killed)}, {runs} runs, {tries} tries, {warm_starts} of them warm, {refused} orphans refused"
    print(f"{shown}, at most {len(most)} drivers at a time")  # noqa: T201
