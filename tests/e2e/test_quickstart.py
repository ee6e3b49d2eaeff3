"""The quickstart works as its README says: without services and credentials. SIGTERM ends it and leaves no process behind."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE
from tests.pages import a_clone, run_block, shell_blocks
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = "examples/quickstart/README.md"


async def test_sigterm_in_a_job_leaves_no_process_and_the_file_becomes_a_recorded_write_after_a_restart(tmp_path: Path):
    port, quickstart = free_port(), a_clone(tmp_path, "quickstart")
    environment = {**os.environ, "WATCHER_SETTINGS__API__PORT": str(port), "BROWSER": "true"}

    async def as_written(block: str, folder: Path) -> str:
        """Run a block of the README, without the daemon, which the test starts, and without curl if it is not installed."""
        left_out = r".*watcher run\b.*" if shutil.which("curl") else r".*watcher run\b.*|curl .*"
        block = re.sub(f"^(?:{left_out})$", "", block, flags=re.MULTILINE).replace(":8795", f":{port}")
        return await run_sync(run_block, block, folder, environment)

    check, look = shell_blocks(PAGE)
    assert "is right" in await as_written(check, tmp_path)
    words = ("token", "create", "--subject", "me", "--role", "admin", "-c", str(quickstart / "watchers.yaml"))
    token = (await anyio.run_process([sys.executable, "-m", "watcher", *words])).stdout.decode().strip()
    async with (
        running_daemon(quickstart / "watchers.yaml", f"http://127.0.0.1:{port}", environment) as daemon,
        httpx.AsyncClient(base_url=daemon.url, headers={"Authorization": f"Bearer {token}"}) as client,
    ):
        await until_the_run_is(client, "running")
        assert await daemon.stop() == 0
        assert processes_that_mention(quickstart) == []
        await daemon.start()
        await until_the_run_is(client, "success")
        entry = await last_write_of_a_task(client)
        writer = entry["last_updated_by"]
        assert (writer["dag_id"], writer["task_id"], writer["map_index"]) == ("load_orders", "load_orders", -1)
        lines = (await client.get(writer["log_url"])).raise_for_status().text
        assert writer["write_id"] in lines
        assert "last_load" in await as_written(look, tmp_path)
        assert (quickstart / "inbox" / "tuesday.csv").exists()
        assert await daemon.stop() == 0
    assert processes_that_mention(quickstart) == []


async def last_write_of_a_task(client: httpx.AsyncClient):
    for asset in (await get(client, "/api/v2/assets"))["assets"]:
        for entry in (await get(client, f"/api/v2/assets/{asset['id']}/store"))["asset_store"]:
            if (entry["last_updated_by"] or {}).get("kind") == "task":
                return entry
    return None


async def until_the_run_is(client: httpx.AsyncClient, state: str) -> None:
    with anyio.fail_after(PATIENCE):
        while [run["state"] for run in (await get(client, "/api/v2/dags/load_orders/dagRuns"))["dag_runs"]] != [state]:
            await anyio.sleep(0.2)
