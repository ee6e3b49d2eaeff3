"""The daemon and shims are killed again and again: each try is started once, none is missing, no orphan writes.

The daemon is the real one. Most kills hit a stand-in for Spark, so that hundreds of tries fit into minutes. A few runs use
Spark, and while one of them lives, its shim is killed first.
WATCHER_TEST_LONG=1 kills 200 times. WATCHER_TEST_SEED repeats a history; the seed is printed.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from string import Template

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE, SEED, effort
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.processes import signal_tagged

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = effort(5, 200)
REAL_RUNS = effort(1, 10)
RUNS_PER_KILL = 3
ON_SPARK = "load_on_spark"
CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  api: {port: $port, auth: none}
  scheduler: {parallelism: 4}
assets:
  orders: {uri: "file:///data/orders"}
jobs:
$jobs""")
JOB_OF = Template("""\
  $name:
    outlets: [orders]
    max_active_runs: 4
    retries: 1000
    retry_delay: 100ms
    spark: {application: job.py, master: "local[1]", env: {FOLDER: $folder, WORK: "$work", $spark_home}}
""")
JOB = """\
import json, os, subprocess, sys
from pathlib import Path

folder, context = os.environ["FOLDER"], json.loads(Path(os.environ["ASSET_JOB_CONTEXT"]).read_text())
identity = f"{context['run_id']} {context['try_number']}"
with open(f"{folder}/starts", "a") as starts:
    starts.write(f"{identity}\\n")
# It leaves the shim's lock and the try's tag behind: when the shim is killed, nobody will find it.
orphan = [sys.executable, f"{folder}/orphan.py", context["api"], context["token"], identity, f"{folder}/refused"]
subprocess.Popen(orphan, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 start_new_session=True)

from asset_job import run

with run() as r:
    r.asset_store.set(context["run_id"], {"by": "job", "identity": identity})
    exec(os.environ["WORK"])
    r.asset_store.set(context["run_id"], {"by": "job", "identity": identity})
"""
ORPHAN = """\
import json, sys, time, urllib.error, urllib.request
from urllib.parse import quote
api, token, identity, refused = sys.argv[1:]
url = f"{api}/execution/store/asset/by-name/value?name=orders&key={quote(identity.split()[0])}"
body = json.dumps({"value": {"by": "orphan", "identity": identity}}).encode()
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
deadline = time.monotonic() + 120
while time.monotonic() < deadline:
    time.sleep(0.05)
    try:
        urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT"), timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404, 409):
            with open(refused, "a") as file:
                file.write(f"{identity} {error.code}\\n")
            break
    except OSError:
        pass  # the daemon is away
"""
QUICK = "import random, time; time.sleep(random.random() / 2)"
REAL = "assert r.spark.range(3).count() == 3"


@dataclass(frozen=True)
class World:
    folder: Path
    daemon: Daemon
    random: Random
    hit: set[str] = field(default_factory=set)
    """The tags of tries whose shim was killed."""

    async def trigger(self, runs: int, job: str = "load") -> None:
        async with httpx.AsyncClient(base_url=self.daemon.url, timeout=60) as client:
            for _ in range(runs):
                (await client.post(f"/api/v2/dags/{job}/dagRuns", json={"logical_date": None})).raise_for_status()

    async def kill_daemon(self) -> None:
        await self.daemon.kill()
        await self.daemon.start()

    async def kill_shim(self) -> bool:
        """Kill a shim and, in half of the cases, all other processes of its try. Return False if none runs."""
        living = [
            one
            for one in map(TryFolder, self.folder.glob("home/runs/*/*/*"))
            if one.started() and not one.exit_record()
        ]
        self.random.shuffle(living)
        living.sort(key=lambda one: one.path.parts[-3] != ON_SPARK)
        everything = self.random.random() < 0.5
        for one in living:
            tag, shim = f"run-{one.path.parent.name}-{one.path.name}", one.shim_process()
            if shim is not None and await run_sync(partial(signal_tagged, tag, SIGKILL, only=shim)):
                self.hit.add(tag)
                if everything:
                    await run_sync(signal_tagged, tag, SIGKILL)
                return True
        return False

    async def all_succeed(self) -> int:
        async with httpx.AsyncClient(base_url=self.daemon.url, timeout=60) as client:
            with anyio.fail_after(PATIENCE):
                while True:
                    found = await get(client, "/api/v2/dags/~/dagRuns", state="success", limit=1)
                    every = await get(client, "/api/v2/dags/~/dagRuns", limit=1)
                    if found["total_entries"] == every["total_entries"]:
                        return int(every["total_entries"])
                    await anyio.sleep(0.2)


def write_world(folder: Path, port: int, *, jobs: Mapping[str, bool]) -> Path:
    """Write the configuration. `jobs` says of each job whether it uses real Spark."""
    (folder / "job.py").write_text(JOB)
    (folder / "orphan.py").write_text(ORPHAN)
    stand_in = "" if all(jobs.values()) else f"SPARK_HOME: {stand_in_spark(folder)}"
    texts = (
        JOB_OF.substitute(name=name, folder=folder, work=REAL if real else QUICK, spark_home="" if real else stand_in)
        for name, real in jobs.items()
    )
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.substitute(port=port, jobs="".join(texts)))
    return configuration


async def test_sigkill_at_any_moment_starts_each_try_once_and_no_orphan_writes(tmp_path: Path) -> None:
    print(f"WATCHER_TEST_SEED={SEED}")  # noqa: T201  shown when the test fails
    port = free_port()
    configuration = write_world(tmp_path, port, jobs={"load": False, ON_SPARK: True})
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        world = World(tmp_path, daemon, Random(SEED))
        killed: Counter[str] = Counter()
        while killed.total() < KILLS:
            if killed.total() % (KILLS // REAL_RUNS) == 0:
                await world.trigger(1, ON_SPARK)
            await world.trigger(RUNS_PER_KILL)
            await anyio.sleep(world.random.uniform(0, 1.0))
            if world.random.random() < 0.4 and await world.kill_shim():
                killed["shim"] += 1
            else:
                await world.kill_daemon()
                killed["daemon"] += 1
        runs = await world.all_succeed()
        with anyio.fail_after(PATIENCE):
            while rows(
                tmp_path, "SELECT run_id", "WHERE ended_at IS NULL"
            ):  # a process ends a moment after its success is stored
                await anyio.sleep(0.1)
            while any("orphan.py" in command for command in processes_that_mention(tmp_path)):
                await anyio.sleep(0.1)
        assert await daemon.stop() == 0
    assert processes_that_mention(tmp_path) == []
    tries, refused = assert_each_once(tmp_path, world.hit), assert_no_orphan_wrote(tmp_path)
    print(f"{dict(killed)}, {runs} runs, {tries} tries, {refused} orphans refused")  # noqa: T201


def assert_each_once(folder: Path, hit: set[str]) -> int:
    """Check that each try began once. A try whose shim was killed may have ended before its job began."""
    tries = rows(folder, "SELECT run_id, a.try_number, tag, finish_state")
    started = Counter(tuple(line.split()) for line in (folder / "starts").read_text().splitlines())
    assert set(started.values()) == {1}
    known = {(run_id, str(number)): tag for run_id, number, tag, *_ in tries}
    assert set(started) <= set(known)
    assert {tag for identity, tag in known.items() if identity not in started} <= hit
    succeeded = Counter(run_id for run_id, *_, finish_state in tries if finish_state == "success")
    assert set(succeeded) == {run_id for run_id, *_ in tries}
    assert set(succeeded.values()) == {1}
    return len(tries)


def assert_no_orphan_wrote(folder: Path) -> int:
    """Check that no try wrote after a later try had, and that each refused try was refused for the right reason."""
    last: dict[str, int] = {}
    with closing(sqlite3.connect(folder / "home" / "watcher.db")) as database:
        written = database.execute(
            "SELECT key, run_id, try_number FROM asset_store_history ORDER BY key, version"
        ).fetchall()
    assert written
    for key, run_id, number in written:
        assert key == run_id
        assert number >= last.get(key, 0), (key, number)
        last[key] = number
    refused = (folder / "refused").read_text().splitlines() if (folder / "refused").exists() else []
    assert {line.split()[-1] for line in refused} <= {"403", "409"}
    return len(refused)


def rows(folder: Path, select: str, where: str = "") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "home" / "watcher.db")) as database:
        joined = "FROM task_try a JOIN task_instance t ON t.id = a.task_instance_id"
        return database.execute(f"{select} {joined} {where}").fetchall()
