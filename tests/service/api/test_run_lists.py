"""Lists of runs, task instances and jobs: each of Airflow's filters and orders, and pages by cursor, on both databases."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update

from store.database import schema
from store.runs import runs
from tests.databases import on_both
from tests.service.api.application import Api

pytestmark = on_both

RUNS = "/api/v2/dags/load_orders/dagRuns"
ALL_RUNS = "/api/v2/dags/~/dagRuns"
ALL_TASKS = "/api/v2/dags/~/dagRuns/~/taskInstances"
START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


async def four_runs(api: Api) -> None:
    """Create four runs: `a` ran an hour and consumed an event of `landing`, `b` started later and failed, `c` is queued, and `d` belongs to another job."""
    of_runs: dict[str, dict[str, Any]] = {
        "a": {"state": "success", "start_date": at(0), "end_date": at(1), "conf": '{"day": "monday"}'},
        "b": {
            "state": "failed",
            "start_date": at(2),
            "end_date": at(2.5),
            "logical_date": at(2),
            "run_type": "scheduled",
        },
        "c": {"state": "queued"},
        "d": {"state": "running", "start_date": at(3)},
    }
    async with api.database.transaction() as connection:
        for hour, (run_id, values) in enumerate(of_runs.items()):
            dag_id = "report" if run_id == "d" else "load_orders"
            await runs.create_run(
                connection, dag_id, run_id, "load", triggered_by="rest_api", conf="{}", run_after=at(hour)
            )
            t, r = schema.task_instance.c, schema.run.c
            await connection.execute(update(schema.run).where(r.run_id == run_id).values(queued_at=at(hour), **values))
            of_task = {name: value for name, value in values.items() if name in {"state", "start_date", "end_date"}}
            await connection.execute(
                update(schema.task_instance).where(t.run_id == run_id).values(try_number=hour, **of_task)
            )
        event = insert(schema.asset_event).values(asset_id=api.asset_ids["landing"], timestamp=at(0), trace_id="t")
        event_id = (await connection.execute(event.returning(schema.asset_event.c.id))).scalar_one()
        consumed = {"dag_id": "load_orders", "run_id": "a", "event_id": event_id, "completed": True}
        await connection.execute(insert(schema.run_asset_event).values(consumed))


def ids(page: Any) -> str:
    """Return the ids of runs or task instances in the order of the answer."""
    return "".join(one["dag_run_id"] for one in page.get("dag_runs", page.get("task_instances")))


def shown(moment: datetime) -> str:
    return moment.isoformat()


RUN_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"state": ["failed", "queued"]}, "bc"),
    ({"run_type": "scheduled"}, "b"),
    ({"dag_id_pattern": "REP%"}, "d"),
    ({"dag_id_prefix_pattern": "load"}, "abc"),
    ({"run_id_pattern": "A|d"}, "ad"),
    ({"conf_contains": "MONDAY"}, "a"),
    ({"conf_contains": "%"}, ""),
    ({"consuming_asset_pattern": "LAND"}, "a"),
    ({"consuming_asset_pattern": "s3://bucket/landing"}, "a"),
    ({"consuming_asset_pattern": "orders"}, ""),
    ({"run_after_gte": shown(at(1)), "run_after_lt": shown(at(3))}, "bc"),
    ({"logical_date_lte": shown(at(2))}, "b"),
    ({"start_date_gt": shown(at(0))}, "bd"),
    ({"end_date_lt": shown(at(2))}, "a"),
    ({"duration_gte": 3600}, "a"),
    ({"duration_lt": 3599.5}, "b"),
    ({"updated_at_gte": shown(at(2)), "updated_at_lte": shown(at(2.5))}, "bc"),
    ({"order_by": "-run_after"}, "dcba"),
    ({"order_by": ["dag_id", "-id"]}, "cbad"),
    ({"order_by": "conf", "run_id_pattern": "a|b"}, "ab"),
    ({"order_by": ["partition_date", "id"]}, "abcd"),
]


async def test_runs_are_filtered_and_ordered(api: Api) -> None:
    await four_runs(api)
    for query, expected in RUN_QUERIES:
        page = await api.get(ALL_RUNS, **query)
        assert (ids(page), page["total_entries"]) == (expected, len(expected)), query


async def test_runs_are_ordered_by_times_that_may_be_missing(api: Api) -> None:
    await four_runs(api)
    for name in ("start_date", "end_date", "logical_date", "duration", "updated_at"):
        up, down = [[one[0] for one in ids(await api.get(ALL_RUNS, order_by=f"{way}{name}"))] for way in ("", "-")]
        assert sorted(up) == sorted(down) == [*"abcd"]
    assert ids(await api.get(ALL_RUNS, order_by="duration", duration_gt=0)) == "ba"


async def test_runs_are_listed_by_a_body(api: Api) -> None:
    await four_runs(api)
    body = {"dag_ids": ["load_orders"], "states": ["success", "failed"], "order_by": "-id", "page_limit": 1}
    for offset, expected in enumerate("ba"):
        page = (await api.client.post(f"{ALL_RUNS}/list", json={**body, "page_offset": offset})).json()
        assert (ids(page), page["total_entries"]) == (expected, 2)
    for wrong, status in (({"order_by": "color"}, 400), ({"states": ["skipped"]}, 422), ({"colour": 1}, 422)):
        assert (await api.client.post(f"{ALL_RUNS}/list", json=wrong)).status_code == status
    assert (await api.client.post(f"{RUNS}/list", json={"dag_ids": ["report"]})).json()["total_entries"] == 0


TASK_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"state": "running"}, "d"),
    ({"try_number": [0, 3]}, "ad"),
    ({"map_index": -1, "task_id": "load"}, "abcd"),
    ({"map_index": 0}, ""),
    ({"task_display_name_pattern": "lo%"}, "abcd"),
    ({"pool": "default_pool", "operator_name_pattern": "spark"}, "abcd"),
    ({"pool_name_prefix_pattern": "other"}, ""),
    ({"queue": "default"}, ""),
    ({"run_id_prefix_pattern": "b|c"}, "bc"),
    ({"start_date_gte": shown(at(2))}, "bd"),
    ({"duration_gt": 1800.5}, "a"),
    ({"run_after_gt": shown(at(2))}, "d"),
    ({"updated_at_gt": shown(at(2.5))}, "d"),
    ({"state": "deferred"}, ""),
]


async def test_task_instances_are_filtered(api: Api) -> None:
    await four_runs(api)
    for query, expected in TASK_QUERIES:
        page = await api.get(ALL_TASKS, order_by="run_after", **query)
        assert (ids(page), page["total_entries"]) == (expected, len(expected)), query


async def test_task_instances_are_listed_for_one_run_one_job_or_all(api: Api) -> None:
    await four_runs(api)
    assert ids(await api.get(f"{RUNS}/a/taskInstances")) == "a"
    assert ids(await api.get(f"{RUNS}/~/taskInstances", order_by="-run_after")) == "cba"
    await api.get(f"{ALL_RUNS}/a/taskInstances", status=400)
    await api.get("/api/v2/dags/nobody/dagRuns/~/taskInstances", status=404)
    body = {"dag_run_ids": ["a", "d"], "state": ["success", None], "pool": ["default_pool"]}
    assert ids((await api.client.post(f"{ALL_TASKS}/list", json=body)).json()) == "a"
    assert (await api.client.post(f"{ALL_TASKS}/list", json={"executor": ["x"]})).json()["total_entries"] == 0


ORDERS = [["id"], ["-start_date"], ["end_date", "-run_id"], ["-duration"], ["partition_date"]]


async def test_cursors_lead_to_the_next_and_previous_page(api: Api) -> None:
    await four_runs(api)
    for order_by in ORDERS:
        await _go_on_and_back(api, order_by)


async def _go_on_and_back(api: Api, order_by: list[str]) -> None:
    every = ids(await api.get(ALL_RUNS, cursor="", order_by=order_by))
    assert sorted(every) == [*"abcd"]
    seen, cursor, back = "", "", None
    while cursor is not None:
        page = await api.get(ALL_RUNS, cursor=cursor, order_by=order_by, limit=3)
        assert (page["previous_cursor"] is None) is (not seen)
        seen, cursor, back = seen + ids(page), page["next_cursor"], page["previous_cursor"]
    assert seen == every
    before = await api.get(ALL_RUNS, cursor=back, order_by=order_by, limit=2)
    assert ids(before) == every[1:3]
    first = await api.get(ALL_RUNS, cursor=before["previous_cursor"], order_by=order_by, limit=2)
    assert (ids(first), first["previous_cursor"]) == (every[:1], None)
    assert ids(await api.get(ALL_RUNS, cursor=first["next_cursor"], order_by=order_by)) == every[1:]


@pytest.mark.parametrize("query", [{}, {"cursor": ""}])
async def test_ties_follow_the_direction_of_the_order_as_in_airflow(api: Api, query: dict[str, str]) -> None:
    await four_runs(api)
    rising = ids(await api.get(ALL_RUNS, order_by="run_type", **query))
    assert ids(await api.get(ALL_RUNS, order_by="-run_type", **query)) == rising[::-1]


async def test_new_rows_do_not_shift_a_page(api: Api) -> None:
    await four_runs(api)
    first = await api.get(ALL_TASKS, cursor="", order_by="-run_after", limit=2)
    async with api.database.transaction() as connection:
        await runs.create_run(connection, "report", "e", "load", triggered_by="rest_api", run_after=at(9))
    assert ids(first) + ids(await api.get(ALL_TASKS, cursor=first["next_cursor"], order_by="-run_after")) == "dcba"


def token(*content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps([*content]).encode()).decode().rstrip("=")


NO_CURSORS = [
    "x",
    "~x",
    "é",
    token("id", [1]),
    token("start_date", [1, 1]),
    token("start_date", ["soon", 1]),
    token("start_date", ["2026-11-20T00:00:00", 1]),
    token("start_date", ["0001-01-01T00:00:00+14:00", 1]),
    token("start_date", ["9999-12-31T23:59:59-14:00", 1]),
    token("start_date", [None, "1"]),
    token("start_date", [None, True]),
    token("start_date", [None, 2**63]),
    token("start_date", [None, 1, 1]),
    token("start_date", {}),
    "W1tbW1tbW1tbW1tb" * 500,
]


async def test_an_invalid_cursor_is_refused(api: Api) -> None:
    for cursor in NO_CURSORS:
        answer = await api.get(ALL_RUNS, status=400, cursor=cursor, order_by="start_date")
        assert "cursor" in answer["detail"]


@pytest.mark.parametrize("cursor", ["", token("-conf", ["{}", 1])])
async def test_an_order_by_long_values_supports_offsets_but_no_cursors(api: Api, cursor: str) -> None:
    await four_runs(api)
    assert "give `offset`" in (await api.get(ALL_RUNS, status=400, cursor=cursor, order_by="-conf"))["detail"]
    assert ids(await api.get(ALL_RUNS, offset=1, order_by="-conf")) == "cba"


JOB_QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    ({"has_asset_schedule": True}, ["load_orders", "report"]),
    ({"has_asset_schedule": False}, []),
    ({"asset_dependency": "BUCKET/customers"}, ["load_orders"]),
    ({"asset_dependency": "%"}, []),
    ({"dag_display_name_pattern": "RE"}, ["report"]),
    ({"last_dag_run_state": "queued"}, ["load_orders"]),
    ({"dag_run_state": ["running", "failed"]}, ["report"]),
    ({"dag_run_start_date_gte": shown(at(3))}, ["report"]),
    ({"dag_run_end_date_gte": shown(at(0))}, []),
    ({"order_by": "-last_run_state"}, ["report", "load_orders"]),
    ({"order_by": ["-last_run_start_date", "-dag_id"], "last_dag_run_state": "running"}, ["report"]),
    ({"order_by": "next_dagrun"}, ["load_orders", "report"]),
]


async def test_jobs_are_filtered_by_what_they_wait_for_and_by_their_last_run(api: Api) -> None:
    await four_runs(api)
    for query, expected in JOB_QUERIES:
        page = await api.get("/api/v2/dags", **query)
        assert ([dag["dag_id"] for dag in page["dags"]], page["total_entries"]) == (expected, len(expected)), query


async def test_jobs_are_paused_by_pattern_and_none_without_one(api: Api) -> None:
    async def patch(status: int = 200, **query: Any) -> Any:
        answer = await api.client.patch("/api/v2/dags", params=query, json={"is_paused": True})
        assert answer.status_code == status, answer.text
        return answer.json()

    assert await patch() == {"dags": [], "total_entries": 0}
    assert (await patch(dag_id_pattern="~", tags="x"))["total_entries"] == 0
    await patch(422, update_mask="owners")
    page = await patch(dag_id_pattern="~", limit=1, update_mask="is_paused")
    assert ([dag["dag_id"] for dag in page["dags"]], page["total_entries"]) == (["load_orders"], 2)
    assert [dag["is_paused"] for dag in (await api.get("/api/v2/dags"))["dags"]] == [True, True]
    assert [entry["action"] for entry in (await api.get("/api/v2/audit"))["audit"]] == ["job.pause", "job.pause"]
