"""The alias example of Airflow's documentation: an asset that is only known when the job runs."""

from __future__ import annotations

import os

import anyio
import httpx

from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

CONFIGURATION = """
version: 1
settings: {api: {auth: none}}
aliases: {example-alias: {}}
jobs:
  asset-alias-producer:
    outlets: [{alias: example-alias}]
    spark: {application: produce.py, env: {SPARK_HOME: SPARK}}
  asset-alias-consumer:
    paused: true
    schedule: {alias: example-alias}
    inlets: [{alias: example-alias}]
    spark: {application: produce.py}
"""
PROGRAM = """
from asset_job import Asset, Metadata, run

with run() as r:
    rows = 5
    r.outlet_events["example-alias"].add(Asset(uri="s3://bucket/my-task"), {"rows": rows})
    r.outlet_events.add(Metadata("s3://bucket/my-task", {"rows": rows}, alias="example-alias"))
"""


async def test_an_asset_named_at_run_time_is_created_and_queued_for_jobs_that_wait_for_the_alias(tmp_path):
    (tmp_path / "watchers.yaml").write_text(CONFIGURATION.replace("SPARK}", f"{stand_in_spark(tmp_path)}}}"))
    (tmp_path / "produce.py").write_text(PROGRAM)
    port = free_port()
    environment = {**os.environ, "WATCHER_SETTINGS__API__PORT": str(port)}
    async with running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", environment) as daemon:
        async with httpx.AsyncClient(base_url=daemon.url) as client:
            path = "/api/v2/dags/asset-alias-producer/dagRuns"
            made = (await client.post(path, json={"logical_date": None})).raise_for_status().json()
            with anyio.fail_after(PATIENCE):
                while (run := await get(client, f"{path}/{made['dag_run_id']}"))["state"] not in {"success", "failed"}:
                    await anyio.sleep(0.3)
            assert run["state"] == "success", run["reason"]
            (asset,) = (await get(client, "/api/v2/assets"))["assets"]
            assert (asset["name"], [alias["name"] for alias in asset["aliases"]]) == (
                "s3://bucket/my-task",
                ["example-alias"],
            )
            (event,) = (await get(client, "/api/v2/assets/events"))["asset_events"]
            assert (event["extra"], event["source_run_id"]) == ({"rows": 5}, made["dag_run_id"])
            (queued,) = (await get(client, "/api/v2/dags/asset-alias-consumer/assets/queuedEvents"))["queued_events"]
            assert queued["asset_id"] == asset["id"]
        assert await daemon.stop() == 0
    assert processes_that_mention(tmp_path) == []
