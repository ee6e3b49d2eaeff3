"""A worker backend keeps a job's values outside: through the daemon, the job and the database."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

SECRET = "a value that belongs to the execution plane"
CONFIGURATION = """
version: 1
settings:
  api: {auth: none, port: PORT}
  store: {clear_on_success: true}
  workers:
    state_store_backend: asset_job.storage.ObjectStorageStateBackend
    options: {url: "URL", threshold_bytes: 20, compression: gzip}
assets: {orders: {}}
jobs:
  load_orders:
    outlets: [orders]
    spark: {application: job.py, args: ["FOLDER"], env: {SPARK_HOME: "SPARK"}}
"""
JOB = f"""
import json, pathlib, sys, time
from asset_job import run

folder = pathlib.Path(sys.argv[1])
with run() as r:
    orders = r.asset_store["orders"]
    value = {{"text": {SECRET!r}, "rows": 3}}
    r.task_store.set("state", value)
    orders.set("summary", value)
    orders.set("small", 3)
    (folder / "wrote").touch()
    while not (folder / "seen").exists():
        time.sleep(0.05)
    read = [r.task_store.get("state"), orders.get("summary"), orders.get("small"), orders.get("plain")]
    (folder / "read.json").write_text(json.dumps(read))
    orders.delete("summary")
"""


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def until(exists: Path, client: httpx.AsyncClient, run: str) -> None:
    with anyio.fail_after(PATIENCE):
        while not exists.exists():
            assert (await get(client, run))["state"] != "failed"
            await anyio.sleep(0.1)


@pytest.mark.slow
async def test_only_references_reach_the_database_and_success_leaves_nothing_outside(tmp_path):
    port, outside = free_port(), tmp_path / "outside"
    places = {"PORT": str(port), "URL": outside.as_uri(), "FOLDER": str(tmp_path)}
    text = CONFIGURATION.replace('"SPARK"', str(stand_in_spark(tmp_path)))
    for name, place in places.items():
        text = text.replace(name, place)
    (tmp_path / "watchers.yaml").write_text(text)
    (tmp_path / "job.py").write_text(JOB)
    async with (
        running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", os.environ) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        [orders] = (await get(client, "/api/v2/assets"))["assets"]
        store = f"/api/v2/assets/{orders['id']}/store"
        looks_like_one = f"{outside.as_uri()}/asset/orders/summary.json.gz"
        (await client.put(f"{store}/plain", json={"value": looks_like_one})).raise_for_status()
        started = await client.post(
            "/api/v2/dags/load_orders/dagRuns", json={"logical_date": None, "dag_run_id": "once"}
        )
        started.raise_for_status()
        run = "/api/v2/dags/load_orders/dagRuns/once"
        await until(tmp_path / "wrote", client, run)

        state = await get(client, f"{run}/taskInstances/job/state-store/state")
        entries = {entry["key"]: entry for entry in (await get(client, store))["asset_store"]}
        kept = {str(path.relative_to(outside)) for path in files(outside)}
        assert {one["value"].removeprefix(f"{outside.as_uri()}/") for one in (state, entries["summary"])} == kept
        assert (state["is_ref"], entries["summary"]["is_ref"]) == (True, True)
        assert [entries[key]["is_ref"] for key in ("small", "plain")] == [False, False]
        in_the_home = [path for path in files(tmp_path / ".watcher") if SECRET.encode() in path.read_bytes()]
        assert in_the_home == []

        (tmp_path / "seen").touch()
        with anyio.fail_after(PATIENCE):
            while (await get(client, run))["state"] != "success":
                await anyio.sleep(0.1)
        value = {"text": SECRET, "rows": 3}
        assert json.loads((tmp_path / "read.json").read_text()) == [value, value, 3, looks_like_one]
        with anyio.fail_after(PATIENCE):  # the daemon deletes the reference first, then the job removes the value
            while files(outside):
                await anyio.sleep(0.1)
        assert (await get(client, f"{run}/taskInstances/job/state-store"))["task_state_store"] == []
        assert {entry["key"] for entry in (await get(client, store))["asset_store"]} == {"small", "plain"}
        assert await daemon.stop() == 0
