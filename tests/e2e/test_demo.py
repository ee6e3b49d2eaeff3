"""The demo, real from end to end, with a SIGKILL in the middle of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import anyio
import httpx
import pytest

from tests.e2e.watching import processes_that_mention
from tests.effort import LONG, PATIENCE
from tests.pages import not_activated, run_block
from watcher.features.demo.command import World, correct, demo_world, result_of, settled
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.features.demo.setting import JOBS

pytestmark = [pytest.mark.service, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def record_every_application(world: World) -> Path:
    """Let Spark itself write one event log for each application that starts. Return the folder of the logs."""
    folder = world.setting.configuration.parent / "applications"
    folder.mkdir()
    text = world.setting.configuration.read_text()
    conf = f'conf: {{spark.eventLog.enabled: "true", spark.eventLog.dir: "file://{folder}"}}'
    world.setting.configuration.write_text(text.replace("master: local[2]", f"master: local[2]\n      {conf}"))
    return folder


async def tries(client: httpx.AsyncClient) -> int:
    """Return the number of tries of all runs of the demo's jobs."""
    total = 0
    for dag_id in JOBS:
        for run in (await get(client, f"/api/v2/dags/{dag_id}/dagRuns", limit=100))["dag_runs"]:
            path = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}/taskInstances"
            total += sum(task["try_number"] for task in (await get(client, path))["task_instances"])
    return total


async def until_more_is_seen(daemon: Daemon) -> None:
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        before = (await get(client, "/api/v2/assets/events", limit=1))["total_entries"]
        with anyio.fail_after(PATIENCE):
            while (await get(client, "/api/v2/assets/events", limit=1))["total_entries"] < before + 2:
                await anyio.sleep(0.1)


async def until_a_job_runs(daemon: Daemon) -> None:
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        with anyio.fail_after(PATIENCE):
            while True:
                for dag_id in JOBS:
                    runs = (await get(client, f"/api/v2/dags/{dag_id}/dagRuns"))["dag_runs"]
                    if any(run["state"] == "running" for run in runs):
                        return
                await anyio.sleep(0.2)


async def writers_with_their_lines(client: httpx.AsyncClient) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the last writer of each kind, and the page to which its link leads."""
    found = {}
    for asset in (await get(client, "/api/v2/assets"))["assets"]:
        for entry in (await get(client, f"/api/v2/assets/{asset['id']}/store"))["asset_store"]:
            writer = entry["last_updated_by"]
            found[writer["kind"]] = writer, (await client.get(writer["log_url"])).raise_for_status().text
    return found


@pytest.mark.skipif(not LONG, reason="WATCHER_TEST_LONG: e2e/test_kills.py and test_ingest.py are the short form")
@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
async def test_kill_minus_nine_in_the_middle_of_the_load_loses_repeats_and_duplicates_nothing(database):
    async with demo_world(database, load_seconds=PATIENCE) as world:
        world.setting.environment["WATCHER_SETTINGS__API__AUTH"] = "none"
        applications = record_every_application(world)
        folder = world.setting.configuration.parent
        async with running_daemon(world.setting.configuration, world.setting.url, world.setting.environment) as daemon:
            async with anyio.create_task_group() as load:
                load.start_soon(world.shop.write)
                await until_a_job_runs(daemon)
                await daemon.kill()
                await daemon.start()
                await until_more_is_seen(daemon)
                await daemon.kill()
                await daemon.start()
                world.shop.close()
            async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
                await correct(client)
                await settled(client, world)
                result = await result_of(client, world, 0)
                tried = await tries(client)
                writers = await writers_with_their_lines(client)
        started = [path for path in applications.iterdir() if not path.name.startswith(".")]
        left = processes_that_mention(folder)
    assert (result.files.lost, result.files.repeated) == (0, 0)
    assert (result.rows.lost, result.rows.repeated) == (0, 0)
    assert result.files.seen > 20
    assert result.rows.seen > 100
    assert result.runs["failed"] == 0
    assert result.runs["success"] >= 2
    assert len(started) == tried, "Spark applications that started, against tries that the daemon meant to start"
    assert left == []
    fields = ("dag_id", "run_id", "task_id", "map_index", "watcher", "actor")
    given = {kind: {name for name in fields if writer[name] is not None} for kind, (writer, _) in writers.items()}
    assert given == {"task": {"dag_id", "run_id", "task_id", "map_index"}, "watcher": {"watcher"}, "api": {"actor"}}
    for writer, lines in writers.values():
        assert writer["write_id"] in lines


def test_the_demo_ends_with_a_line_of_json():
    done = subprocess.run(
        [sys.executable, "-m", "watcher", "demo", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert set(last) == {"files", "rows", "runs", "store_writes", "seconds"}
    for counted in (last["files"], last["rows"]):
        assert counted["written"] > 0
        assert counted == {"written": counted["written"], "seen": counted["written"], "lost": 0, "repeated": 0}
    assert last["runs"]["success"] >= 2
    assert last["runs"]["failed"] == 0
    assert all(last["store_writes"][kind] > 0 for kind in ("watcher", "task", "api"))


def test_the_demo_stays_with_its_pages_a_link_and_two_commands_until_ctrl_c(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            [sys.executable, "-m", "watcher", "demo", "--keep"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": "/tmp"},  # noqa: S108  everybody's
        )
    try:
        until = monotonic() + 600
        while "Ctrl-C ends it" not in output.read_text():
            assert demo.poll() is None, output.read_text()
            assert monotonic() < until, output.read_text()
            sleep(0.5)
        said = output.read_text()
        [link] = re.findall(r"five minutes: (http://\S+/sign-in\?link=\S+)", said)
        [pages] = re.findall(r"the pages: (http://\S+/)", said)
        assert link.startswith(pages)
        assert httpx.get(link).is_success
        status, opened = re.findall(r"^  (\S*watcher (?:status|open) -c \S+)$", said, re.MULTILINE)
        for command in (status, opened):
            assert run_block(command, tmp_path, not_activated())
        assert [line for line in said.splitlines() if "Warning" in line or "retry_scheduled" in line] == []
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE) == 0, output.read_text()
