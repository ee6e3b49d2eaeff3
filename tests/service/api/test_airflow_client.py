"""Airflow's own client, which validates what it reads, uses the API over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from store.database import schema
from tests.lazy_imports import lazy_importorskip
from tests.service.api.application import Api
from watcher.serving.api import create_app
from watcher.serving.http_server import listen, serve

client = lazy_importorskip("airflow_client.client", reason="apache-airflow-client is not installed")

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


async def test_partition_keys_are_read_and_filtered(api: Api, call: Call) -> None:
    landing = api.asset_ids["landing"]
    for key in ("2026-11-20|eu", None):
        body = client.CreateAssetEventsBody(asset_id=landing, extra={}, partition_key=key)
        assert (await call("AssetApi", "create_asset_event", body)).partition_key == key
    events = (await call("AssetApi", "get_asset_events", asset_id=landing)).asset_events
    assert [event.partition_key for event in events] == ["2026-11-20|eu", None]

    for run_id, key in (("eu", "2026-11-20|eu"), ("us", "2026-11-20|us"), ("none", None)):
        run = client.TriggerDAGRunPostBody(dag_run_id=run_id, logical_date=None, partition_key=key)
        assert (await call("DagRunApi", "trigger_dag_run", "load_orders", run)).partition_key == key

    async def listed(**query: str) -> list[tuple[str, str | None]]:
        runs = (await call("DagRunApi", "get_dag_runs", "load_orders", order_by=["dag_run_id"], **query)).dag_runs
        return [(run.dag_run_id, run.partition_key) for run in runs]

    assert await listed(partition_key_pattern="20|e") == [("eu", "2026-11-20|eu")]
    assert await listed(partition_key_pattern="eu|us") == []
    assert [run_id for run_id, _ in await listed(partition_key_prefix_pattern="2026-11-20")] == ["eu", "us"]
    assert len(await listed()) == 3


async def test_jobs_runs_and_logs(api: Api, call: Call) -> None:
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


async def test_a_run_is_triggered_changed_and_deleted(api: Api, call: Call) -> None:
    run = ("load_orders", "mine")
    body = client.TriggerDAGRunPostBody(dag_run_id="mine", logical_date=None, conf={"day": 1})
    assert (await call("DagRunApi", "trigger_dag_run", "load_orders", body)).conf == {"day": 1}
    one = await api.start_try("mine")
    claim = await one.done("POST", "tries/claim", body={"nonce": "n"})
    assert claim["conf"] == {"day": 1}
    assert (await call("DagRunApi", "get_upstream_asset_events", *run)).total_entries == 0
    assert (await call("TaskInstanceApi", "get_task_instance_dependencies", *run, "load")).dependencies == []
    assert (await call("ExtraLinksApi", "get_extra_links", *run, "load")).total_entries == 0

    await one.done("POST", "tries/finish", body={"state": "success"})
    assert "success" in str(await call("DagRunApi", "wait_dag_run_until_finished", *run, interval=1))
    [of_run] = (await call("TaskInstanceApi", "get_task_instance_tries", *run, "load")).task_instances
    assert (of_run.try_number, of_run.state) == (1, "success")
    assert (await call("TaskInstanceApi", "get_task_instance_try_details", *run, "load", 1)).dag_run_id == "mine"
    assert (await call("TaskInstanceApi", "get_mapped_task_instance", *run, "load", -1)).state == "success"

    preview = client.PatchTaskInstanceBody(new_state="failed")
    tasks = (await call("TaskInstanceApi", "patch_task_instance_dry_run", *run, "load", preview)).task_instances
    assert [task.state for task in tasks] == ["success"]
    marked = client.PatchTaskInstanceBody(new_state="failed", note="wrong day")
    [task] = (await call("TaskInstanceApi", "patch_task_instance", *run, "load", marked)).task_instances
    assert (task.state, task.note) == ("failed", "wrong day")
    body = client.BulkBodyBulkTaskInstanceBody.from_dict(
        {"actions": [{"action": "update", "entities": [{"task_id": "load", "new_state": "success"}]}]}
    )
    changed = await call("TaskInstanceApi", "bulk_task_instances", *run, body)
    assert (changed.update.success, changed.update.errors) == (["load_orders.mine.load[-1]"], [])

    body = client.ClearTaskInstancesBody(dag_run_id="mine", only_failed=False)
    assert len((await call("TaskInstanceApi", "post_clear_task_instances", "load_orders", body)).task_instances) == 1
    body = client.BulkDAGRunClearBody(dag_runs=[client.BulkDAGRunBody(dag_run_id="mine")], dry_run=False, note="again")
    cleared = await call("DagRunApi", "clear_dag_runs", "load_orders", body)
    assert [(each.state, each.note) for each in cleared.actual_instance.dag_runs] == [("queued", "again")]
    body = client.BulkBodyBulkDAGRunBody.from_dict(
        {
            "actions": [
                {"action": "update", "entities": [{"dag_run_id": "mine", "state": "failed"}]},
                {"action": "delete", "entities": ["mine", "nothing"], "action_on_non_existence": "skip"},
                {"action": "create", "entities": [{"dag_run_id": "new"}]},
            ]
        }
    )
    async with api.database.transaction() as connection:
        await connection.execute(schema.task_try.update().values(ended_at=schema.database_now()))
    changed = await call("DagRunApi", "bulk_dag_runs", "load_orders", body)
    assert (changed.update.success, changed.delete.success) == (["load_orders.mine"], ["load_orders.mine"])
    assert [error["status_code"] for error in changed.create.errors] == [405]
    assert (await call("DagRunApi", "get_dag_runs", "~")).dag_runs == []
    assert "store" not in str(await call("TaskInstanceApi", "get_log", *run, "load", 1))


async def test_lists_show_what_is_configured(api: Api, call: Call) -> None:
    await api.start_try("one")
    await api.start_try("two")
    page = await call("DagRunApi", "get_dag_runs", "~", cursor="", limit=1, order_by=["-run_id"], state=["running"])
    assert ([run.dag_run_id for run in page.dag_runs], page.total_entries) == (["two"], None)
    page = await call(
        "DagRunApi", "get_dag_runs", "~", cursor=page.next_cursor, order_by=["-run_id"], state=["running"]
    )
    assert [run.dag_run_id for run in page.dag_runs] == ["one"]
    body = client.DAGRunsBatchBody(dag_ids=["load_orders"], states=["running"])
    assert (await call("DagRunApi", "get_list_dag_runs_batch", "~", body)).total_entries == 2
    assert (await call("TaskInstanceApi", "get_task_instances", "~", "~", run_id_pattern="on")).total_entries == 1
    body = client.TaskInstancesBatchBody(dag_run_ids=["two"])
    assert (await call("TaskInstanceApi", "get_task_instances_batch", "~", "~", body)).total_entries == 1

    details = await call("DAGApi", "get_dag_details", "load_orders")
    assert (details.active_runs_count, details.latest_dag_version.version_number) == (2, 1)
    landing = {"asset": {"name": "landing", "uri": "s3://bucket/landing", "group": "asset"}}
    assert details.asset_expression["all"][0] == landing
    assert (await call("DagVersionApi", "get_dag_versions", "~")).total_entries == 2
    assert (await call("DagVersionApi", "get_dag_version", "report", 1)).dag_id == "report"
    dags = await call(
        "DAGApi",
        "get_dags",
        has_asset_schedule=True,
        last_dag_run_state=client.DagRunState.RUNNING,
        order_by=["dag_id"],
    )
    assert [dag.dag_id for dag in dags.dags] == ["load_orders"]
    paused = await call("DAGApi", "patch_dags", client.DAGPatchBody(is_paused=True), dag_id_pattern="~")
    assert [dag.is_paused for dag in paused.dags] == [True, True]


async def test_a_run_consumes_queued_events(api: Api, call: Call) -> None:
    for name in ("landing", "customers"):
        await call("AssetApi", "create_asset_event", client.CreateAssetEventsBody(asset_id=api.asset_ids[name]))
    pair = ("load_orders", api.asset_ids["landing"])
    assert (await call("AssetApi", "get_dag_asset_queued_events", "load_orders")).total_entries == 2
    assert (await call("AssetApi", "get_asset_queued_events", pair[1])).total_entries == 1
    assert (await call("AssetApi", "get_dag_asset_queued_event", *pair)).dag_id == "load_orders"
    await call("AssetApi", "delete_dag_asset_queued_event", *pair)
    await call("AssetApi", "delete_asset_queued_events", api.asset_ids["customers"])
    with pytest.raises(client.exceptions.NotFoundException):
        await call("AssetApi", "delete_dag_asset_queued_events", "load_orders")
    made = await call("AssetApi", "materialize_asset", api.asset_ids["orders"])
    assert made.run_type == "asset_materialization"


async def test_health_and_version_are_readable(call: Call) -> None:
    assert (await call("MonitorApi", "get_health")).metadatabase.status == "healthy"
    assert (await call("VersionApi", "get_version")).version
