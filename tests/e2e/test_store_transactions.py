"""A job's transactions through the SDK, the Execution API and the database, with two tries of one run."""

from __future__ import annotations

import json
import os

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

CONFIGURATION = """
version: 1
settings:
  api: {auth: none, port: PORT}
assets: {orders: {}}
jobs:
  load_orders:
    outlets: [orders]
    retries: 1
    retry_delay: 0s
    spark: {application: job.py, args: ["FOLDER"], env: {SPARK_HOME: SPARK}}
"""
JOB = """
import json, pathlib, sys, time
from asset_job import StoreConflict, run

folder = pathlib.Path(sys.argv[1])

def work(r, moves):
    with r.asset_store["orders"].transaction() as t:
        seen = t.get("seen", 0)
        t["seen"], t["by_try"] = seen + 1, r.try_number
        t.increment("total", 10)
        t.delete("old")
        if moves:
            (folder / "read").touch()
            while not (folder / "moved").exists():
                time.sleep(0.05)
    return t.values

with run() as r:
    told = []
    try:
        told.append(work(r, moves=r.try_number == 1))
    except StoreConflict as error:
        told += [str(error), r.asset_store["orders"].get("total", "nothing"), work(r, moves=False)]
    (folder / f"told_{r.try_number}.json").write_text(json.dumps(told))
    if r.try_number == 1:
        raise RuntimeError("after the transaction")
"""


@pytest.mark.slow
async def test_a_conflict_changes_nothing_and_a_retry_adds_nothing_twice(tmp_path):
    port = free_port()
    text = CONFIGURATION.replace("PORT", str(port)).replace("FOLDER", str(tmp_path))
    (tmp_path / "watchers.yaml").write_text(text.replace("SPARK}", f"{stand_in_spark(tmp_path)}}}"))
    (tmp_path / "job.py").write_text(JOB)
    async with (
        running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", os.environ) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        [orders] = (await get(client, "/api/v2/assets"))["assets"]
        store = f"/api/v2/assets/{orders['id']}/store"
        for key in ("old", "seen"):
            (await client.put(f"{store}/{key}", json={"value": 5})).raise_for_status()
        started = await client.post(
            "/api/v2/dags/load_orders/dagRuns", json={"logical_date": None, "dag_run_id": "once"}
        )
        started.raise_for_status()
        with anyio.fail_after(PATIENCE):
            while not (tmp_path / "read").exists():
                await anyio.sleep(0.1)
        (await client.put(f"{store}/seen", json={"value": 7})).raise_for_status()
        (tmp_path / "moved").touch()
        with anyio.fail_after(PATIENCE):
            while (await get(client, "/api/v2/dags/load_orders/dagRuns/once"))["state"] != "success":
                await anyio.sleep(0.1)

        refusal, total, values = json.loads((tmp_path / "told_1.json").read_text())
        assert "seen" in refusal
        assert (total, values) == ("nothing", {"total": 10})
        assert json.loads((tmp_path / "told_2.json").read_text()) == [{"total": 10}]
        entries = {entry["key"]: entry for entry in (await get(client, store))["asset_store"]}
        assert {key: entry["value"] for key, entry in entries.items()} == {"seen": 9, "by_try": 2, "total": 10}
        assert await daemon.stop() == 0
