"""docs/airflow.md lists everything that Airflow's client has and the API lacks, and what it states is true."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import update

from store.database import schema
from store.keys import JobDefinition
from tests.lazy_imports import lazy_importorskip
from tests.service.api.application import DEFINITION, Api, claimed

walk = lazy_importorskip("tests.service.api.airflow_walk", reason="apache-airflow-client is not installed")

PAGE: Final = (Path(__file__).parents[3] / "docs/airflow.md").read_text(encoding="utf-8")
ABSENT, DIFFERENT = (
    re.findall(r"^\| (.+?) \| .*\|$", part, re.MULTILINE)[1:]
    for part in PAGE.partition("## What is not here")[2].split("## What differs")
)
RUNS: Final = "/api/v2/dags/load_orders/dagRuns"
RUN: Final = f"{RUNS}/manual__1"
TASK: Final = f"{RUN}/taskInstances/load"
EXECUTION: Final[Mapping[str, frozenset[str]]] = {
    "GET /assets/by-name": frozenset({"name"}),
    "GET /assets/by-uri": frozenset({"uri"}),
    "GET /assets/by-alias": frozenset({"alias_name"}),
    "GET /asset-events/by-asset": frozenset({"name", "uri", "after", "before", "ascending", "limit"}),
    "GET /asset-events/by-asset-alias": frozenset({"name", "after", "before", "ascending", "limit"}),
    "GET /dag-runs/{dag_id}/{run_id}/state": frozenset(),
    "GET /dag-runs/count": frozenset({"dag_id", "logical_dates", "run_ids", "states"}),
    "GET /task-instances/count": frozenset(
        {"dag_id", "map_index", "task_ids", "task_group_id", "logical_dates", "run_ids", "states"}
    ),
    "GET /task-instances/states": frozenset(
        {"dag_id", "map_index", "task_ids", "task_group_id", "logical_dates", "run_ids"}
    ),
    "PATCH /task-instances/{task_instance_id}/state": frozenset(),
    **{
        f"{method} /store/asset/by-{how}/{what}": frozenset({how} if what == "clear" else {how, "key"})
        for how in ("name", "uri")
        for method, what in (("GET", "value"), ("PUT", "value"), ("DELETE", "value"), ("DELETE", "clear"))
    },
    "DELETE /store/ti/{task_instance_id}": frozenset(),
    **{f"{method} /store/ti/{{task_instance_id}}/{{key}}": frozenset() for method in ("GET", "PUT", "DELETE")},
}
"""The requests of the Task SDK's client about assets, events, stores and states of runs, with their parameters."""


async def test_every_call_of_the_client_is_supported_or_named_on_the_page(api: Api) -> None:
    document = await api.get("/openapi.json")
    offered = {
        f"{method.upper()} {path.removeprefix('/execution')}": {one["name"] for one in operation.get("parameters", ())}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    lacking = walk.missing(document)
    for route, parameters in EXECUTION.items():
        method, path = route.split()
        if route not in offered:
            lacking.add(f"{method} /execution{path}")
        else:
            lacking |= {f"{route}?{name}" for name in parameters - offered[route]}
    assert lacking == {row.strip("`") for row in ABSENT}


def test_other_parts_of_the_client_are_named_on_the_page() -> None:
    parts = {name for name in vars(walk.client) if name.endswith("Api")} - set(walk.APIS)
    named = PAGE.partition("counterpart here: ")[2].partition(".")[0]
    assert parts == set(re.findall(r"`(\w+Api)`", named))


async def test_unsupported_calls_are_refused(api: Api) -> None:
    one = await claimed(api)
    names = {"dag_id": "load_orders", "dag_run_id": "manual__1", "task_id": "load", "map_index": "-1"}
    for row in (row.strip("`") for row in ABSENT if " /" in row):
        method, path = row.split(" ")
        path = path.format(**names, try_number=1, group_id="g", task_instance_id=one.task_instance_id)
        headers = {"Authorization": f"Bearer {one.token}"} if path.startswith("/execution") else {}
        response = await api.client.request(method, path, headers=headers)
        assert response.status_code in {404, 405, 422}, row


async def answer(api: Api, method: str, path: str, status: int, body: Any = None, **query: Any) -> Any:
    response = await api.client.request(method, path, json=body, params=query or None)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def ended(api: Api, run_id: str = "manual__1") -> None:
    """Create a run whose only try has failed and whose process is gone."""
    await claimed(api, run_id)
    await gone(api)


async def gone(api: Api) -> None:
    async with api.database.transaction() as connection:
        await connection.execute(update(schema.task_try).values(ended_at=schema.database_now()))
        for table in (schema.task_instance, schema.run):
            await connection.execute(update(table).values(state="failed"))


async def _filters(api: Api) -> None:
    await claimed(api)
    for path, parameters in (
        ("/api/v2/dags", ("tags", "owners", "bundle_name", "bundle_version", "timetable_type")),
        (RUNS, ("bundle_version", "triggering_user_name_pattern")),
        (f"{RUN}/taskInstances", ("executor", "task_group_id", "queue", "rendered_map_index_pattern")),
    ):
        assert (await api.get(path))["total_entries"] > 0
        for name in parameters:
            assert (await api.get(path, **{name: "x"}))["total_entries"] == 0, name
    for path, name in (("/api/v2/dags", "is_favorite"), ("/api/v2/dags", "has_import_errors")):
        assert (await api.get(path, **{name: True}))["total_entries"] == 0
        assert (await api.get(path, **{name: False}))["total_entries"] == 2
    assert (await api.get(RUNS, dag_version=1))["total_entries"] == 0
    assert (await api.get(f"{RUN}/taskInstances", version_number=1))["total_entries"] == 0


async def _totals(api: Api) -> None:
    await claimed(api)
    for path in (RUNS, f"{RUN}/taskInstances"):
        assert (await api.get(path))["total_entries"] == 1
        assert (await api.get(path, cursor=""))["total_entries"] is None


async def _no_cursor(api: Api) -> None:
    assert "give `offset`" in (await api.get(RUNS, status=400, cursor="", order_by="conf"))["detail"]


async def _only_null(api: Api) -> None:
    await answer(api, "POST", RUNS, 422, {"logical_date": None, "run_after": "2026-11-20T00:00:00Z"})
    teams = {"asset_id": api.asset_ids["orders"], "access_control": {"consumer_teams": ["x"]}}
    await answer(api, "POST", "/api/v2/assets/events", 422, teams)
    bulk = {"dag_runs": [{"dag_run_id": "manual__1"}], "partition_key": "x"}
    await answer(api, "POST", "/api/v2/dags/load_orders/clearDagRuns", 422, bulk)


async def _queued_with_a_key(api: Api) -> None:
    await answer(
        api, "POST", "/api/v2/assets/events", 200, {"asset_id": api.asset_ids["landing"], "partition_key": "x"}
    )
    assert (await api.get("/api/v2/dags/load_orders/assets/queuedEvents"))["total_entries"] == 1


async def _started_with_a_key(api: Api) -> None:
    made = await answer(api, "POST", RUNS, 200, {"logical_date": None, "partition_key": "2026-11-20"})
    assert made["partition_key"] == "2026-11-20"


async def _prefixes(api: Api) -> None:
    for key in ("2026-11-20", "2026-11-20|eu"):
        await answer(api, "POST", RUNS, 200, {"logical_date": None, "partition_key": key})
    for prefix, count in (("2026-11-20", 2), ("2026-11-20|", 1)):
        assert (await api.get(RUNS, partition_key_prefix_pattern=prefix))["total_entries"] == count


async def _no_date(api: Api) -> None:
    made = await answer(api, "POST", RUNS, 200, {"logical_date": None, "partition_key": "2026-11-20"})
    assert made["partition_date"] is None
    for name in ("partition_date_gte", "partition_date_lte"):
        await api.get(RUNS, status=400, **{name: "2026-11-20"})


async def _interval(api: Api) -> None:
    day = "2026-11-20T00:00:00Z"
    interval = {"data_interval_start": day, "data_interval_end": day}
    assert (await answer(api, "POST", RUNS, 200, {"logical_date": None, **interval})).items() >= interval.items()
    assert (await answer(api, "POST", RUNS, 200, {"logical_date": day})).items() >= interval.items()
    await answer(api, "POST", RUNS, 422, {"logical_date": None, "data_interval_start": day})


async def _user(api: Api) -> None:
    assert (await answer(api, "POST", RUNS, 200, {"logical_date": None}))["triggering_user_name"] is None
    assert (await api.get("/api/v2/audit"))["audit"][0]["actor"] == "anonymous"


async def _note(api: Api) -> None:
    await claimed(api)
    await answer(api, "PATCH", TASK, 200, {"note": "look here"})
    assert (await api.get(RUN))["note"] == (await api.get(TASK))["note"] == "look here"


async def _state(api: Api) -> None:
    one = await claimed(api)
    [task] = (await answer(api, "PATCH", TASK, 200, {"new_state": "failed"}))["task_instances"]
    assert (task["state"], task["detail"], (await api.get(RUN))["state"]) == ("failed", "cancelled", "failed")
    assert (await one.put("orders", "k", 1)).status_code == 409
    [task] = (await answer(api, "PATCH", f"{TASK}/-1", 200, {"new_state": "skipped"}))["task_instances"]
    assert (task["state"], (await api.get(RUN))["state"]) == ("skipped", "success")


async def _refused_words(api: Api) -> None:
    await ended(api)
    for name in ("include_future", "include_past"):
        await answer(api, "PATCH", TASK, 422, {"new_state": "success", name: True})
        await answer(api, "POST", "/api/v2/dags/load_orders/clearTaskInstances", 422, {name: True})
    await answer(api, "POST", "/api/v2/dags/load_orders/clearTaskInstances", 422, {"reset_dag_runs": False})
    await answer(api, "POST", f"{RUN}/clear", 422, {"only_new": True})


async def _clear(api: Api) -> None:
    await claimed(api)
    await answer(api, "POST", f"{RUN}/clear", 409, {"dry_run": False})
    body = {"dry_run": False, "only_failed": False}
    await answer(api, "POST", "/api/v2/dags/load_orders/clearTaskInstances", 409, body)


async def _delete(api: Api) -> None:
    one = await claimed(api)
    await answer(api, "DELETE", RUN, 409)
    await answer(api, "PATCH", RUN, 200, {"state": "failed"})
    assert "not known to be gone" in (await answer(api, "DELETE", RUN, 409))["detail"]
    await gone(api)
    await answer(api, "DELETE", RUN, 204)
    await answer(api, "DELETE", RUN, 404)
    assert (
        "already has or had"
        in (await answer(api, "POST", RUNS, 409, {"logical_date": None, "dag_run_id": "manual__1"}))["detail"]
    )
    assert (await one.put("orders", "k", 1)).status_code == 404


async def _bulk(api: Api) -> None:
    await ended(api)
    action = {"action": "update", "entities": [{"dag_run_id": name, "note": "x"} for name in ("no", "manual__1")]}
    changed = (await answer(api, "PATCH", RUNS, 200, {"actions": [action]}))["update"]
    assert changed["success"] == ["load_orders.manual__1"]
    assert [error["status_code"] for error in changed["errors"]] == [404]


async def _dags(api: Api) -> None:
    async with api.database.transaction() as connection:
        gone = update(schema.job).where(schema.job.c.dag_id == "report")
        await connection.execute(gone.values(active=False))
    query = {"dag_id_pattern": "~", "exclude_stale": False}
    paused = (await answer(api, "PATCH", "/api/v2/dags", 200, {"is_paused": True}, **query))["dags"]
    assert [dag["dag_id"] for dag in paused] == ["load_orders"]
    assert not (await api.get("/api/v2/dags/report"))["is_paused"]


async def _versions(api: Api) -> None:
    await claimed(api)
    [version] = (await api.get("/api/v2/dags/load_orders/dagVersions"))["dag_versions"]
    assert version == await api.get("/api/v2/dags/load_orders/dagVersions/1")
    await api.get("/api/v2/dags/load_orders/dagVersions/2", status=404)
    assert (await api.get(RUN))["dag_versions"] == []


async def _wait(api: Api) -> None:
    await ended(api)
    response = await api.client.get(f"{RUN}/wait", params={"interval": 0.001, "result": "load"})
    assert response.text == '{"state": "failed"}\n'


async def _where(api: Api) -> None:
    where = {"extra.region": "eu"}
    definition = JobDefinition.from_json(json.dumps({**DEFINITION, "schedule": {"asset": "landing", "where": where}}))
    async with api.database.transaction() as connection:
        of_job = update(schema.job).where(schema.job.c.dag_id == "load_orders")
        await connection.execute(of_job.values(definition=definition))
    expression = (await api.get("/api/v2/dags/load_orders/details"))["asset_expression"]
    assert expression["asset"].items() >= {"name": "landing", "where": where}.items()


async def _paused(api: Api) -> None:
    await answer(api, "PATCH", "/api/v2/dags/load_orders", 200, {"is_paused": True})
    await answer(api, "POST", "/api/v2/assets/events", 200, {"asset_id": api.asset_ids["landing"]})
    assert (await api.get("/api/v2/dags/load_orders/assets/queuedEvents"))["total_entries"] == 1


async def _texts(api: Api) -> None:
    text = b'{"value": "\\ud800"}'
    headers = {"Content-Type": "application/json"}
    assert (await api.client.put(api.store("orders", "k"), content=text, headers=headers)).status_code == 422


async def _assets(api: Api) -> None:
    one = await claimed(api)
    assert (await one.put("private", "k", 1)).status_code == 403


async def _runs(api: Api) -> None:
    one = await claimed(api)
    own = await one.done("GET", "dag-runs/load_orders/manual__1/state")
    assert own == {"state": "running"}
    assert (await one.call("GET", "dag-runs/report/manual__1/state")).status_code == 403
    for path in ("dag-runs/count", "task-instances/count", "task-instances/states"):
        assert (await one.call("GET", path, query={"dag_id": "report"})).status_code == 403


CHECKS: Final[Mapping[str, Callable[[Api], Awaitable[None]]]] = {
    "filters by things that do not exist here": _filters,
    "`total_entries` with `cursor`": _totals,
    "`cursor` with `order_by=conf`": _no_cursor,
    "`access_control`, `run_after`; `partition_key` of a bulk clear": _only_null,
    "events with a `partition_key`": _queued_with_a_key,
    "`partition_key` of a run that is started": _started_with_a_key,
    "`…_prefix_pattern`": _prefixes,
    "`partition_date`": _no_date,
    "`data_interval_start` and `_end` without `logical_date`": _interval,
    "`triggering_user_name`": _user,
    "`note` of a task instance": _note,
    "`PATCH …/taskInstances/{task_id}`": _state,
    "`include_future`, `include_past`, `reset_dag_runs: false`, `only_new: true`": _refused_words,
    "clearing an unfinished run": _clear,
    "`DELETE …/dagRuns/{dag_run_id}`": _delete,
    "bulk bodies": _bulk,
    "`PATCH /api/v2/dags`": _dags,
    "`dagVersions`": _versions,
    "`GET …/wait`": _wait,
    "a reference with `where`": _where,
    "queued events of a paused job": _paused,
    "texts that no database can store": _texts,
    "a job's token and assets that it does not declare": _assets,
    "a job's token and runs of another job": _runs,
}


def test_each_difference_has_a_check() -> None:
    assert [*CHECKS] == DIFFERENT


@pytest.mark.parametrize("subject", CHECKS)
async def test_each_check_confirms_its_difference(api: Api, subject: str) -> None:
    await CHECKS[subject](api)
