"""Airflow's own client, unmodified, works with a daemon: runs that it starts run, and its answers are right."""

from __future__ import annotations

import os
from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.effort import PATIENCE
from tests.lazy_imports import lazy_importorskip
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

client = lazy_importorskip("airflow_client.client", reason="apache-airflow-client is not installed")

CONFIGURATION = """
version: 1
settings: {api: {auth: none}}
assets: {landing: {}, orders: {}}
jobs:
  load:
    schedule: landing
    outlets: [orders]
    spark: {application: load.py, env: {SPARK_HOME: SPARK}}
"""
PROGRAM = """
from asset_job import run

with run() as r:
    r.asset_store["orders"].set("asked", {"conf": r.conf, "day": r.logical_date, "until": r.data_interval_end})
    if r.conf.get("fail"):
        raise ValueError("as it was asked to")
    r.outlet_events["orders"].extra = {"try": r.try_number}
"""
DAY = "2026-11-20T00:00:00Z"


class Client:
    """Calls methods of the client's APIs in threads, because a call may wait for a run."""

    def __init__(self, url):
        self._configuration = client.Configuration(host=url)

    async def __call__(self, kind, method, *arguments, **more):
        def ask():
            with client.ApiClient(self._configuration) as connected:
                return getattr(getattr(client, kind)(connected), method)(*arguments, **more)

        return await anyio.to_thread.run_sync(ask)

    async def start(self, **request):
        body = client.TriggerDAGRunPostBody.from_dict({"logical_date": None, **request})
        return (await self("DagRunApi", "trigger_dag_run", "load", body)).dag_run_id

    async def end(self, run_id):
        """Wait for the end of a run and return its state."""
        with anyio.fail_after(PATIENCE):
            await self("DagRunApi", "wait_dag_run_until_finished", "load", run_id, interval=0.5)
        return (await self("DagRunApi", "get_dag_run", "load", run_id)).state


@pytest.mark.slow
async def test_airflows_client_drives_a_daemon(tmp_path):
    (tmp_path / "watchers.yaml").write_text(CONFIGURATION.replace("SPARK}", f"{stand_in_spark(tmp_path)}}}"))
    (tmp_path / "load.py").write_text(PROGRAM)
    port = free_port()
    environment = {**os.environ, "WATCHER_SETTINGS__API__PORT": str(port)}
    async with running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", environment) as daemon:
        call = Client(daemon.url)
        await _a_run_gets_the_configuration_it_was_started_with(call)
        await _a_failed_run_is_cleared_and_deleted(call)
        await _an_event_has_its_run(call)
        assert await daemon.stop() == 0


async def _a_run_gets_the_configuration_it_was_started_with(call):
    run_id = await call.start(conf={"n": [1]}, logical_date=DAY)
    assert await call.end(run_id) == "success"
    orders = {asset.name: asset for asset in (await call("AssetApi", "get_assets")).assets}["orders"]
    entry = await call("AssetStateStoreApi", "get_asset_state_store", key="asked", asset_id=orders.id)
    day = DAY.replace("Z", "+00:00")
    assert entry.value == {"conf": {"n": [1]}, "day": day, "until": day}
    assert (entry.last_updated_by.kind, entry.last_updated_by.run_id) == ("task", run_id)
    [event] = (await call("AssetApi", "get_asset_events", asset_id=orders.id)).asset_events
    assert (event.extra, event.source_run_id) == ({"try": 1}, run_id)


async def _a_failed_run_is_cleared_and_deleted(call):
    run_id = await call.start(conf={"fail": True})
    assert await call.end(run_id) == "failed"
    body = client.ClearTaskInstancesBody(dag_run_id=run_id, dry_run=False)
    assert (await call("TaskInstanceApi", "post_clear_task_instances", "load", body)).total_entries == 1
    assert await call.end(run_id) == "failed"
    tries = (await call("TaskInstanceApi", "get_task_instance_tries", "load", run_id, "load")).task_instances
    assert [(each.try_number, each.state) for each in tries] == [(1, "failed"), (2, "failed")]
    log = str(await call("TaskInstanceApi", "get_log", "load", run_id, "load", 2, full_content=True))
    assert "as it was asked to" in log
    delete = partial(call, "DagRunApi", "delete_dag_run", "load", run_id)
    with anyio.fail_after(PATIENCE):
        while True:  # its process may still be ending
            try:
                await delete()
            except client.exceptions.ConflictException:
                await anyio.sleep(0.2)
            else:
                break
    with pytest.raises(client.exceptions.NotFoundException):
        await delete()
    assert run_id not in {run.dag_run_id for run in (await call("DagRunApi", "get_dag_runs", "~")).dag_runs}


async def _an_event_has_its_run(call):
    landing = (await call("AssetApi", "get_assets", name_pattern="landing")).assets[0]
    event = await call("AssetApi", "create_asset_event", client.CreateAssetEventsBody(asset_id=landing.id))
    with anyio.fail_after(PATIENCE):
        while not (page := await call("DagRunApi", "get_dag_runs", "load", consuming_asset_pattern="landing")).dag_runs:
            await anyio.sleep(0.2)
    [run] = page.dag_runs
    assert (await call.end(run.dag_run_id), run.run_type) == ("success", "asset_triggered")
    upstream = await call("DagRunApi", "get_upstream_asset_events", "load", run.dag_run_id)
    assert [each.id for each in upstream.asset_events] == [event.id]
    assert upstream.asset_events[0].created_dagruns[0].run_id == run.dag_run_id
