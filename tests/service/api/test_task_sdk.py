"""Airflow's Task SDK, in a separate environment, uses the Execution API as one of our tries.

It cannot be installed beside our own dependencies.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

import anyio
import pytest

from tests.real_airflow import PYTHON, needs_airflow
from tests.service.api.application import Api, claimed
from watcher.serving.api import create_app
from watcher.serving.http_server import listen, serve

pytestmark = [pytest.mark.airflow, needs_airflow]
PROGRAM = """
import json, sys
from airflow.sdk.api.client import Client, ServerResponseError

url, token, task_instance_id = sys.argv[1:]
client = Client(base_url=f"{url}/execution/", token=token)

def refused(ask, *arguments, **more):
    try:
        return ask(*arguments, **more)
    except ServerResponseError as error:
        return error.response.status_code

def plain(answer):
    return json.loads(answer.model_dump_json()) if hasattr(answer, "model_dump_json") else answer

store, tasks = client.asset_state_store, client.task_state_store
answers = {
    "set": store.set("a/b", {"n": 1}, name="orders"),
    "get": store.get("a/b", uri="s3://bucket/orders"),
    "absent": store.get("none", name="orders"),
    "delete": store.delete("a/b", name="orders"),
    "clear": store.clear(name="orders"),
    "undeclared": refused(store.set, "k", 1, name="private"),
    "task set": tasks.set(task_instance_id, "x y", [1], expires_at=None),
    "task get": tasks.get(task_instance_id, "x y"),
    "task delete": tasks.delete(task_instance_id, "x y"),
    "task clear": tasks.clear(task_instance_id),
    "asset": client.assets.get(name="landing"),
    "by uri": client.assets.get(uri="s3://bucket/landing"),
    "events": client.asset_events.get(name="landing"),
    "state": client.dag_runs.get_state("load_orders", "manual__1"),
    "runs": client.dag_runs.get_count("load_orders", states=["running"]),
    "tasks": client.task_instances.get_count("load_orders", run_ids=["manual__1"]),
    "states": client.task_instances.get_task_states("load_orders", task_ids=["load"]),
    "another job": refused(client.dag_runs.get_state, "report", "x"),
}
print(json.dumps({name: plain(answer) for name, answer in answers.items()}))
"""


async def asked(api: Api, *words: str) -> Any:
    """Return the output of the program, with the API on a socket."""
    listening = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    environment = {**os.environ, "AIRFLOW_HOME": str(api.context.logs_directory), "NO_PROXY": "127.0.0.1"}
    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(serve, create_app(api.context), listening))
        done = await anyio.run_process([PYTHON, "-c", PROGRAM, url, *words], env=environment, check=False)
        tasks.cancel_scope.cancel()
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout.decode().splitlines()[-1])


async def test_a_task_of_airflow_reads_and_writes(api: Api) -> None:
    await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids["landing"], "extra": {"n": 1}})
    one = await claimed(api)
    answers = await asked(api, one.token, one.task_instance_id)
    assert answers["get"]["value"] == {"n": 1}
    assert answers["absent"]["error"] == "ASSET_STORE_NOT_FOUND"
    assert answers["undeclared"] == answers["another job"] == 403
    assert answers["task get"]["value"] == [1]
    assert answers["asset"]["uri"] == answers["by uri"]["uri"] == "s3://bucket/landing"
    assert [event["extra"]["n"] for event in answers["events"]["asset_events"]] == [1]
    assert answers["state"]["state"] == "running"
    assert (answers["runs"]["count"], answers["tasks"]["count"]) == (1, 1)
    assert answers["states"]["task_states"] == {"manual__1": {"load": "running"}}
    for name in ("set", "delete", "clear", "task set", "task delete", "task clear"):
        assert answers[name]["ok"] is True
