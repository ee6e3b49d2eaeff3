"""examples/two-assets works as its README says: one asset arrives, the hook names the missing one; it arrives, the job runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync
from pyarrow import dataset

from tests.effort import PATIENCE
from tests.pages import a_clone, run_block, shell_blocks
from tests.receivers import web_hook
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]


async def test_a_job_waits_for_both_assets_and_an_alert_names_the_missing_one(tmp_path: Path) -> None:
    port, example = free_port(), a_clone(tmp_path, "two-assets")
    configuration = example / "watchers.yaml"
    configuration.write_text(configuration.read_text().replace("deadline: 2h", "deadline: 1s"))
    check, send = shell_blocks("examples/two-assets/README.md")
    checked = await run_sync(run_block, re.sub(".*watcher run.*", "", check), tmp_path, {})
    assert "is right" in checked
    with web_hook() as hook:
        settings = {"WATCHER_SETTINGS__API__PORT": str(port), "WATCHER_SETTINGS__API__AUTH": "none", "HOOK": hook.url}
        async with (
            running_daemon(configuration, f"http://127.0.0.1:{port}", {**os.environ, **settings}) as daemon,
            httpx.AsyncClient(base_url=daemon.url) as client,
        ):
            with anyio.fail_after(PATIENCE):
                while not hook.bodies:
                    await anyio.sleep(0.2)
                await run_sync(run_block, send, tmp_path, {})
                while (runs := await get(client, "/api/v2/dags/revenue/dagRuns"))["total_entries"] == 0 or len(
                    hook.bodies
                ) < 2:
                    await anyio.sleep(0.2)
                while (run := (await get(client, "/api/v2/dags/revenue/dagRuns"))["dag_runs"][0])["state"] in ACTIVE:
                    await anyio.sleep(0.2)
            assert run["state"] == "success", runs
            assert await daemon.stop() == 0
    assert [(body["alert"], body["state"]) for body in hook.bodies] == [
        ("waiting_too_long", "firing"),
        ("waiting_too_long", "resolved"),
    ]
    assert hook.bodies[0]["message"].startswith("`customers` has not come since ")
    rows = dataset.dataset(example / "revenue", exclude_invalid_files=True).to_table().to_pylist()
    assert sorted((row["name"], row["amount"]) for row in rows) == [("ada", 6.5), ("barbara", 1.0)]


ACTIVE = {"queued", "running"}
