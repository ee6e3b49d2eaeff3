"""Airflow's own client, which is strict about what it reads, speaks to us over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.service.api.application import Api
from watcher.api import create_app
from watcher.http_server import listen, serve

client = pytest.importorskip("airflow_client.client", reason="apache-airflow-client is not installed")

Call = Callable[..., Any]


@pytest.fixture
async def call(api: Api) -> AsyncIterator[Call]:
    """Calls a method of one of the client's APIs in a thread."""
    bound = listen("127.0.0.1", 0)
    configuration = client.Configuration(host=f"http://127.0.0.1:{bound.getsockname()[1]}")

    async def in_thread(kind: str, method: str, *arguments: Any, **more: Any) -> Any:
        with client.ApiClient(configuration) as connected:
            return await anyio.to_thread.run_sync(
                partial(getattr(getattr(client, kind)(connected), method), *arguments, **more)
            )

    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(serve, create_app(api.context), bound))
        yield in_thread
        tasks.cancel_scope.cancel()


async def test_assets_events_and_their_store(api: Api, call: Call) -> None:
    asset_id = api.asset_ids["orders"]
    [asset] = (await call("AssetApi", "get_assets", name_pattern="orders")).assets
    assert (asset.id, asset.producing_tasks[0].task_id) == (asset_id, "load")

    body = client.CreateAssetEventsBody(asset_id=asset_id, extra={"n": 1})
    created = await call("AssetApi", "create_asset_event", body)
    assert created.extra == {"n": 1, "from_rest_api": True}
    one = await api.start_try()
    await one.done("POST", "tries/finish", body={"state": "success"})
    events = (await call("AssetApi", "get_asset_events", asset_id=asset_id)).asset_events
    assert [event.source_dag_id for event in events] == [None, "load_orders"]
    assert (await call("AssetApi", "get_asset", asset_id)).last_asset_event.id == events[-1].id

    entry = {"asset_id": asset_id, "key": "a/b"}
    value = client.AssetStateStoreBody(value={"x": [1]})
    await call("AssetStateStoreApi", "set_asset_state_store", **entry, asset_state_store_body=value)
    assert (await call("AssetStateStoreApi", "get_asset_state_store", **entry)).last_updated_by.kind == "api"
    assert (await call("AssetStateStoreApi", "list_asset_state_store", asset_id)).total_entries == 1
    await call("AssetStateStoreApi", "delete_asset_state_store", **entry)
    await call("AssetStateStoreApi", "clear_asset_state_store", asset_id)


async def test_dags_runs_and_logs(api: Api, call: Call) -> None:
    assert [dag.dag_id for dag in (await call("DAGApi", "get_dags")).dags] == ["load_orders", "report"]
    assert (await call("DAGApi", "patch_dag", "report", client.DAGPatchBody(is_paused=True))).is_paused
    assert (await call("DAGApi", "get_dag", "report")).is_paused

    run = await call(
        "DagRunApi",
        "trigger_dag_run",
        "load_orders",
        client.TriggerDAGRunPostBody(dag_run_id="mine", logical_date=None),
    )
    assert (run.state, run.run_type) == ("queued", "manual")
    one = await api.start_try("mine")
    await one.put("orders", "k", 1)
    [found] = (await call("DagRunApi", "get_dag_runs", "load_orders")).dag_runs
    assert (found.dag_run_id, found.state) == ("mine", "running")
    assert (await call("DagRunApi", "get_dag_run", "load_orders", "mine")).dag_run_id == "mine"
    [task] = (await call("TaskInstanceApi", "get_task_instances", "load_orders", "mine")).task_instances
    assert (task.task_id, task.state) == ("load", "queued")
    log = await call("TaskInstanceApi", "get_log", "load_orders", "mine", "load", 1)
    assert "store.written" in str(log)


async def test_the_whole(call: Call) -> None:
    assert (await call("MonitorApi", "get_health")).metadatabase.status == "healthy"
    assert (await call("VersionApi", "get_version")).version
