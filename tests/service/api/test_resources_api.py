"""Assets, events, jobs, runs, watchers, health and the probes over REST."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from config.errors import Problem
from store.catalog import watchers
from store.database import schema
from store.database.schema import watcher_position
from store.detection import positions, rejections
from store.detection.rejections import Rejection
from store.errors import DatabaseUnavailable
from store.processes import audit, tokens, triggerers
from tests.service.api.application import Api, adapted, serving
from triggers.base import TriggerBatch
from watcher.configuration.reload_outcome import ReloadOutcome, ReloadRefused
from watcher.host.health import Health, WatcherReport
from watcher.host.loops import Hint
from watcher.host.poll_history import PollHistory
from watcher.serving.api.streams.open_streams import Streams


async def create_event(api: Api, asset: str = "landing", **body: Any) -> dict[str, Any]:
    answer = await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids[asset], **body})
    assert answer.status_code == 200, answer.text
    answer_json: dict[str, Any] = answer.json()
    return answer_json


async def test_an_asset_shows_its_jobs_watchers_and_aliases(api: Api) -> None:
    event = await create_event(api)

    asset = await api.get(f"/api/v2/assets/{api.asset_ids['landing']}")

    assert {name: asset[name] for name in ("name", "uri", "group", "extra", "aliases")} == {
        "name": "landing",
        "uri": "s3://bucket/landing",
        "group": "shop",
        "extra": {"team": "trainees"},
        "aliases": [],
    }
    assert [dag["dag_id"] for dag in asset["scheduled_dags"]] == ["load_orders"]
    assert [(task["dag_id"], task["task_id"]) for task in asset["consuming_tasks"]] == [("load_orders", "load")]
    assert asset["producing_tasks"] == []
    assert [watcher["name"] for watcher in asset["watchers"]] == ["landing_files"]
    assert asset["last_asset_event"] == {"id": event["id"], "timestamp": event["timestamp"]}
    orders = await api.get(f"/api/v2/assets/{api.asset_ids['orders']}")
    assert [(task["dag_id"], task["task_id"]) for task in orders["producing_tasks"]] == [("load_orders", "load")]
    assert orders["last_asset_event"] is None


SELECTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["landing", "customers", "orders", "private"]),
    ({"order_by": "name"}, ["customers", "landing", "orders", "private"]),
    ({"order_by": "-name", "limit": 2, "offset": 1}, ["orders", "landing"]),
    ({"name_pattern": "ORD"}, ["orders"]),
    ({"name_pattern": "l%g"}, ["landing"]),
    ({"name_pattern": "c_stomers"}, ["customers"]),
    ({"name_pattern": "landing | orders"}, ["landing", "orders"]),
    ({"name_pattern": "~"}, ["landing", "customers", "orders", "private"]),
    ({"name_prefix_pattern": "or"}, ["orders"]),
    ({"name_prefix_pattern": "OR"}, []),
    ({"name_prefix_pattern": "rders"}, []),
    ({"name_prefix_pattern": "l_nd"}, []),
    ({"uri_pattern": "bucket/cust"}, ["customers"]),
    ({"uri_prefix_pattern": "s3://bucket/o|s3://bucket/p"}, ["orders", "private"]),
    ({"dag_ids": "load_orders"}, ["landing", "customers", "orders"]),
    ({"dag_ids": ["report", "nothing"]}, ["orders"]),
    ({"limit": 0}, []),
]


async def test_assets_are_filtered_as_in_airflow(api: Api) -> None:
    for query, names in SELECTIONS:
        answer_json = await api.get("/api/v2/assets", **query)

        assert [asset["name"] for asset in answer_json["assets"]] == names, query
        if "limit" not in query:
            assert answer_json["total_entries"] == len(names), query


async def test_inactive_assets_are_listed_on_request(api: Api) -> None:
    async with api.database.transaction() as session:
        await session.execute(update(schema.asset).where(schema.asset.c.name == "orders").values(active=False))

    assert (await api.get("/api/v2/assets"))["total_entries"] == 3
    assert (await api.get("/api/v2/assets", only_active=False))["total_entries"] == 4


async def test_an_event_from_the_api_is_marked_and_queued(api: Api) -> None:
    event = await create_event(api, extra={"n": 1, "from_rest_api": False})

    assert event["extra"] == {"n": 1, "from_rest_api": True}
    assert (event["name"], event["uri"], event["group"]) == ("landing", "s3://bucket/landing", "shop")
    assert (event["source_dag_id"], event["source_map_index"], event["source_watcher"]) == (None, -1, None)
    assert event["created_dagruns"] == []
    async with api.database.reading() as session:
        queued = (await session.execute(select(schema.queued_event.c.dag_id, schema.queued_event.c.event_id))).all()
        actors = (await session.execute(select(schema.asset_event.c.source_actor))).scalars().all()
    assert queued == [("load_orders", event["id"])]
    assert actors == ["anonymous"]
    assert api.wakes
    assert (await api.get("/api/v2/audit"))["audit"][0]["action"] == "asset_event.create"


async def test_one_event_is_that_of_the_list_and_whole(api: Api) -> None:
    files = [{"key": f"orders/{number:05}.json", "size": number} for number in range(5_000)]
    made = await create_event(api, extra={"files": files})
    await create_event(api, "orders")
    await api.start_try("manual__1")
    async with api.database.transaction() as session:
        row = {"dag_id": "load_orders", "run_id": "manual__1", "event_id": made["id"], "completed": True}
        await session.execute(insert(schema.run_asset_event).values(row))

    event = await api.get(f"/api/v2/assets/events/{made['id']}")

    assert event["extra"] == {"files": files, "from_rest_api": True}
    assert [run["run_id"] for run in event["created_dagruns"]] == ["manual__1"]
    assert event == (await api.get("/api/v2/assets/events"))["asset_events"][0]
    for missing in (made["id"] + 2, 0, -1, 2**63):
        answer = await api.get(f"/api/v2/assets/events/{missing}", status=404)
        assert answer == {"detail": f"no event {missing}; GET /api/v2/assets/events lists the ones there are"}


async def test_without_an_extra_there_is_no_mark(api: Api) -> None:
    assert (await create_event(api))["extra"] == {}


async def test_events_are_oldest_first_and_filtered(api: Api) -> None:
    first, second = await create_event(api), await create_event(api, "orders")
    third = await create_event(api)

    async def ids(**query: Any) -> list[int]:
        return [event["id"] for event in (await api.get("/api/v2/assets/events", **query))["asset_events"]]

    assert await ids() == [first["id"], second["id"], third["id"]]
    assert await ids(order_by="-timestamp") == [third["id"], second["id"], first["id"]]
    assert await ids(asset_id=api.asset_ids["orders"]) == [second["id"]]
    assert await ids(name_pattern="land", limit=1, offset=1) == [third["id"]]
    assert await ids(source_watcher="landing_files") == []
    assert await ids(asset_id=999) == []
    assert await ids(timestamp_gte=second["timestamp"]) == [second["id"], third["id"]]
    assert await ids(timestamp_gt=second["timestamp"]) == [third["id"]]
    assert await ids(timestamp_lte=second["timestamp"]) == [first["id"], second["id"]]
    assert await ids(timestamp_lt=second["timestamp"]) == [first["id"]]


async def test_an_event_names_the_runs_that_consumed_it(api: Api) -> None:
    event = await create_event(api)
    await api.start_try("manual__1")
    async with api.database.transaction() as session:
        row = {"dag_id": "load_orders", "run_id": "manual__1", "event_id": event["id"], "completed": True}
        await session.execute(insert(schema.run_asset_event).values(row))

    [event] = (await api.get("/api/v2/assets/events"))["asset_events"]

    [run] = event["created_dagruns"]
    assert (run["dag_id"], run["run_id"], run["state"], run["triggering"]) == (
        "load_orders",
        "manual__1",
        "running",
        True,
    )


async def test_jobs_are_listed_with_their_schedule_in_words(api: Api) -> None:
    answer_json = await api.get("/api/v2/dags")

    assert [dag["dag_id"] for dag in answer_json["dags"]] == ["load_orders", "report"]
    dag = answer_json["dags"][0]
    assert dag["timetable_summary"] == "landing & (customers | alias(daily))"
    assert (dag["is_paused"], dag["is_stale"], dag["fileloc"]) == (False, False, "jobs/load_orders.py")
    assert dag == await api.get("/api/v2/dags/load_orders")
    assert (await api.get("/api/v2/dags", dag_id_pattern="REP"))["total_entries"] == 1
    await api.get("/api/v2/dags/nothing", status=404)


async def test_a_job_is_paused_and_resumed(api: Api) -> None:
    for paused in (True, False):
        answer = await api.client.patch("/api/v2/dags/report", json={"is_paused": paused})
        assert (answer.status_code, answer.json()["is_paused"]) == (200, paused)
        assert (await api.get("/api/v2/dags", paused=True))["total_entries"] == int(paused)

    assert len(api.wakes) == 2
    assert [entry["action"] for entry in (await api.get("/api/v2/audit"))["audit"]] == ["job.resume", "job.pause"]
    assert (await api.client.patch("/api/v2/dags/nothing", json={"is_paused": True})).status_code == 404


async def trigger(api: Api, **body: Any) -> Any:
    answer = await api.client.post("/api/v2/dags/load_orders/dagRuns", json={"logical_date": None, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_run_is_triggered_by_hand(api: Api) -> None:
    run = await trigger(api, conf={"full": True}, note="again")

    assert run["dag_run_id"].startswith("manual__")
    assert {
        name: run[name] for name in ("dag_id", "run_type", "state", "triggered_by", "conf", "note", "logical_date")
    } == {
        "dag_id": "load_orders",
        "run_type": "manual",
        "state": "queued",
        "triggered_by": "rest_api",
        "conf": {"full": True},
        "note": "again",
        "logical_date": None,
    }
    assert api.wakes
    path = f"/api/v2/dags/load_orders/dagRuns/{run['dag_run_id']}"
    assert await api.get(path) == run
    [task] = (await api.get(f"{path}/taskInstances"))["task_instances"]
    assert (task["task_id"], task["state"], task["try_number"], task["map_index"]) == ("load", "queued", 0, -1)
    assert await api.get(f"{path}/taskInstances/load") == task
    await api.get(f"{path}/taskInstances/other", status=404)


async def test_a_run_has_the_requested_id_and_date_and_an_id_is_used_once(api: Api) -> None:
    run = await trigger(api, dag_run_id="mine", logical_date="2026-01-01T01:00:00+01:00")

    assert (run["dag_run_id"], run["logical_date"]) == ("mine", "2026-01-01T00:00:00Z")
    again = await api.client.post("/api/v2/dags/load_orders/dagRuns", json={"logical_date": None, "dag_run_id": "mine"})
    assert again.status_code == 409
    unknown = await api.client.post("/api/v2/dags/nothing/dagRuns", json={"logical_date": None})
    assert unknown.status_code == 404


async def test_runs_are_listed_for_one_job_or_all(api: Api) -> None:
    for run_id in ("a", "b", "c"):
        await trigger(api, dag_run_id=run_id)
    await api.start_try("b")

    async def ids(dag_id: str = "load_orders", **query: Any) -> list[str]:
        return [run["dag_run_id"] for run in (await api.get(f"/api/v2/dags/{dag_id}/dagRuns", **query))["dag_runs"]]

    assert await ids() == ["a", "b", "c"]
    assert await ids("~", order_by="-id", limit=2) == ["c", "b"]
    assert await ids("report") == []
    assert await ids(state="running") == ["b"]
    assert await ids(state=["running", "queued"], run_id_prefix_pattern="a|b") == ["a", "b"]
    assert await ids(run_type="scheduled") == []
    await api.get("/api/v2/dags/nothing/dagRuns", status=404)
    await api.get("/api/v2/dags/load_orders/dagRuns/nothing", status=404)


async def test_a_watcher_is_asked_to_poll_now(api: Api) -> None:
    path = "/api/v2/watchers/landing_files/poll"
    refused = await api.client.post(path)
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "no process hosts landing_files now; start one with the role triggerer",
    )
    async with api.database.transaction() as connection:
        await positions.claim(connection, "landing_files", "here", api.database.dialect)

    answer = await api.client.post(path)

    assert (answer.status_code, answer.json()["owner"]) == (202, "here")
    assert answer.json() == await api.get("/api/v2/watchers/landing_files")
    assert api.wakes == [Hint(what="polls", names=frozenset({"landing_files"}))]
    async with api.database.reading() as connection:
        [entry] = await audit.latest(connection, limit=9)
    assert (entry.actor, entry.action, entry.target) == ("anonymous", "watcher.poll", "landing_files")
    await api.client.post("/api/v2/watchers/landing_files/pause")
    refused = await api.client.post(path)
    assert (refused.status_code, "paused" in refused.json()["detail"]) == (409, True)
    assert (await api.client.post("/api/v2/watchers/unknown/poll")).status_code == 404


async def test_a_watcher_is_shown_paused_and_resumed(api: Api) -> None:
    async with api.database.transaction() as session:
        position = {"watcher": "landing_files", "version": 7, "watermark": json.dumps({"up_to": "now"})}
        await session.execute(insert(schema.watcher_position).values(position))

    [watcher] = (await api.get("/api/v2/watchers"))["watchers"]

    assert watcher == await api.get("/api/v2/watchers/landing_files")
    assert watcher == {
        "name": "landing_files",
        "asset": "landing",
        "trigger": "s3.new_files",
        "state": "stopped",
        "owner": None,
        "position_version": 7,
        "watermark": {"up_to": "now"},
        "watermark_in_words": None,
        "last_poll_at": None,
        "last_event_at": None,
        "lag_seconds": None,
        "findings": [],
        "error": None,
        "error_count": 0,
        "paused": False,
    }
    assert (await api.client.post("/api/v2/watchers/landing_files/pause")).json()["paused"] is True
    assert (await api.get("/api/v2/watchers/landing_files"))["paused"] is True
    assert (await api.client.post("/api/v2/watchers/landing_files/resume")).json()["paused"] is False
    assert [entry["action"] for entry in (await api.get("/api/v2/audit"))["audit"]] == [
        "watcher.resume",
        "watcher.pause",
    ]
    assert (await api.client.post("/api/v2/watchers/nobody/pause")).status_code == 404
    await api.get("/api/v2/watchers/nobody", status=404)


async def test_health_reports_heartbeats(api: Api) -> None:
    assert (await api.get("/api/v2/monitor/health"))["triggerer"] == {
        "status": None,
        "latest_triggerer_heartbeat": None,
    }
    process = triggerers.ProcessInfo(id="one", host="here", pid=1)
    async with api.database.transaction() as session:
        await triggerers.beat(session, process, timedelta(minutes=1), api.database.dialect)
        await triggerers.beat_dispatcher(session, process, timedelta(0), api.database.dialect)

    health = await api.get("/api/v2/monitor/health")

    assert health["metadatabase"] == {"status": "healthy"}
    assert (health["triggerer"]["status"], health["scheduler"]["status"]) == ("healthy", "unhealthy")
    assert health["triggerer"]["latest_triggerer_heartbeat"]


async def test_the_probes_report_liveness_and_readiness(api: Api) -> None:
    assert (await api.get("/healthz")) == {"status": "alive"}
    assert (await api.get("/readyz")) == {"status": "ready", "reasons": [], "warnings": []}
    assert (await api.get("/api/v2/version"))["version"]
    async with serving(adapted(api.context, health=Health(waits_for="it is early"))) as client:
        assert (await client.get("/readyz")).status_code == 503
    async with serving(adapted(api.context, configuration_hash="another")) as client:
        unready = await client.get("/readyz")
        assert (unready.status_code, "configuration" in unready.json()["reasons"][0]) == (503, True)


async def test_a_process_that_starts_says_that_and_nothing_else(api: Api) -> None:
    (begun, health) = (datetime(2026, 11, 28, 21, 5, 7, tzinfo=UTC), Health(restored="the database is older"))
    health.starts_since, health.concerns["airflow"] = begun, "Airflow does not answer"
    sentence = "the daemon has been starting since 2026-11-28 21:05:07 UTC; wait until everything has started"
    async with serving(adapted(api.context, health=health)) as client:
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.json()["reasons"], unready.json()["warnings"]) == (503, [sentence], [])
        problems = (await client.get("/api/v2/problems")).json()
    assert [(each["kind"], each["message"]) for each in problems] == [("not_ready", sentence)]


async def test_a_commit_that_the_database_does_not_answer_prevents_readiness_until_one_succeeds(api: Api) -> None:
    api.database.outage = DatabaseUnavailable("the disk is full; free some space there")
    unready = await api.get("/readyz", status=503)
    assert unready["reasons"] == ["the last commit failed: the disk is full; free some space there"]
    assert (await api.get("/healthz")) == {"status": "alive"}
    assert (await api.get("/api/v2/monitor/health"))["metadatabase"] == {"status": "unhealthy"}
    await api.put("landing", "key", 1)
    assert (await api.get("/readyz"))["reasons"] == []
    assert (await api.get("/api/v2/monitor/health"))["metadatabase"] == {"status": "healthy"}


async def test_facts_of_this_process_about_a_watcher_override_its_row(api: Api) -> None:
    now = time.monotonic()
    report = WatcherReport(polled_at=now, whole_since=now - 100)
    report.show("failing", "the disk is full", 3)
    async with serving(adapted(api.context, health=Health(watchers={"landing_files": report}))) as client:
        shown = (await client.get("/api/v2/watchers/landing_files")).json()
        metrics = (await client.get("/metrics")).text
        await client.post("/api/v2/watchers/landing_files/pause")
        paused = (await client.get("/api/v2/watchers/landing_files")).json()
    assert (shown["state"], shown["error"], shown["error_count"]) == ("failing", "the disk is full", 3)
    assert shown["last_poll_at"] is not None
    assert shown["lag_seconds"] >= 100
    assert 'watcher_errors_total{asset="landing",watcher="landing_files"} 3.0' in metrics
    assert 'watcher_lag_seconds{asset="landing",watcher="landing_files"} 10' in metrics
    assert (paused["state"], paused["error"]) == ("paused", None)


async def test_the_whole_api_describes_itself(api: Api) -> None:
    document = await api.get("/openapi.json")

    assert "/api/v2/assets/{asset_id}/store/{key}" in document["paths"]
    assert "/execution/tries/claim" in document["paths"]
    operations = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]
    assert len(operations) == len(set(operations))


READING = [
    "/api/v2/assets",
    "/api/v2/assets/1/store",
    "/api/v2/audit",
    "/api/v2/watchers",
    "/api/v2/watchers/landing_files/logs",
]
OPERATING = [
    ("POST", "/api/v2/watchers/landing_files/pause", None),
    ("PATCH", "/api/v2/dags/report", {"is_paused": True}),
    ("POST", "/api/v2/dags/report/dagRuns", {"logical_date": None}),
    ("POST", "/api/v2/assets/events", {"asset_id": 1}),
]
WRITING = [
    ("PUT", "/api/v2/assets/1/store/k", {"value": 1}),
    ("PUT", "/api/v2/assets/1/state-store/k", {"value": 1}),
    ("DELETE", "/api/v2/assets/1/store/k", None),
    ("DELETE", "/api/v2/assets/1/state-store/k", None),
    ("DELETE", "/api/v2/assets/1/store", None),
    ("DELETE", "/api/v2/assets/1/state-store", None),
]


@pytest.mark.parametrize(("role", "allowed"), [("viewer", 1), ("operator", 2), ("admin", 3)])
async def test_each_role_may_do_what_it_should(guarded: Api, role: str, allowed: int) -> None:
    async with guarded.database.transaction() as session:
        token = (await tokens.create(session, "somebody", role)).token
    levels: list[list[tuple[str, str, Any]]] = [[("GET", path, None) for path in READING], OPERATING, WRITING]
    for level, requests in enumerate(levels, start=1):
        for method, path, body in requests:
            answer = await guarded.client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
            assert answer.is_success if level <= allowed else answer.status_code == 403, (path, answer.text)


async def test_the_writer_is_recorded_by_name(guarded: Api) -> None:
    async with guarded.database.transaction() as session:
        token = (await tokens.create(session, "trainee", "admin")).token
    headers = {"Authorization": f"Bearer {token}"}
    await guarded.client.put("/api/v2/assets/1/store/k", json={"value": 1}, headers=headers)

    entry = (await guarded.client.get("/api/v2/assets/1/store/k", headers=headers)).json()

    assert (entry["last_updated_by"]["kind"], entry["last_updated_by"]["actor"]) == ("api", "trainee")


async def test_strangers_learn_nothing(guarded: Api) -> None:
    for asset_id in (1, 999):
        answer = await guarded.client.get(f"/api/v2/assets/{asset_id}")
        assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})
        wrong = await guarded.client.get(f"/api/v2/assets/{asset_id}", headers={"Authorization": "Bearer aw_wrong"})
        assert wrong.status_code == 403
        basic = await guarded.client.get(f"/api/v2/assets/{asset_id}", headers={"Authorization": "Basic eDp5"})
        assert basic.status_code == 401


async def test_the_reference_page_needs_nothing_from_other_hosts(api: Api) -> None:
    document = await api.get("/openapi.json")
    page = await api.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert all(f"<code>{m.upper()} {path}</code>" in page.text for path, ms in document["paths"].items() for m in ms)
    assert not re.search("<script|<link|<style|<img|https?:", page.text)
    assert (await api.client.get("/redoc")).status_code == 404


async def test_without_tokens_a_page_of_another_site_gets_nothing(api: Api) -> None:
    event = {"asset_id": api.asset_ids["orders"]}
    for headers, status in (
        ({}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "Authorization": "Bearer aw_invented"}, 421),
    ):
        answer = await api.client.post("/api/v2/assets/events", json=event, headers=headers)
        assert answer.status_code == status, (headers, answer.text)
    assert (await api.client.get("/api/v2/assets", headers={"Host": "evil.example"})).status_code == 421
    assert (await api.client.get("/healthz", headers={"Host": "evil.example"})).status_code == 200
    assert (await api.get("/api/v2/assets/events"))["total_entries"] == 2


async def test_the_number_of_streams_is_limited(api: Api) -> None:
    full = adapted(api.context, streams=Streams(most=0))
    async with serving(full) as client:
        answer = await client.get("/api/v2/watchers/landing_files/logs", params={"follow": True})
    assert (answer.status_code, "streams are open already" in answer.json()["detail"]) == (503, True)


async def test_a_reload_needs_a_daemon_and_an_admin_and_a_refusal_names_every_problem(guarded: Api) -> None:
    async with guarded.database.transaction() as connection:
        admin, operator = [(await tokens.create(connection, "ann", role)).token for role in ("admin", "operator")]

    async def refuse(_actor: str) -> ReloadOutcome:
        raise ReloadRefused([Problem(file="a.yaml", line=line, path="jobs.load", message="no") for line in (1, 2)])

    for reload, token, status in ((None, admin, 409), (refuse, operator, 403), (refuse, admin, 422)):
        async with serving(adapted(guarded.context, reload=reload)) as client:
            answer = await client.post("/api/v2/reload", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status
    assert [(fault["line"], fault["loc"]) for fault in answer.json()["detail"]] == [
        (1, ["a.yaml", "jobs", "load"]),
        (2, ["a.yaml", "jobs", "load"]),
    ]


async def test_rejected_items_are_listed_and_retried(api: Api) -> None:
    empty = {"rejected": [], "total_entries": 0}
    assert await api.get("/api/v2/watchers/landing_files/rejected") == empty
    await api.get("/api/v2/watchers/nobody/rejected", status=404)
    rejection = Rejection(key='"a\\\\xff"', version="7", column_name="data", code="22012", reason="no")
    async with api.database.transaction() as connection:
        await connection.execute(insert(watcher_position).values(watcher="landing_files", state="{}", version=4))
        await rejections.change(connection, "landing_files", [rejection], [])
    answer = await api.get("/api/v2/watchers/landing_files/rejected")
    assert answer["total_entries"] == 1
    [item] = answer["rejected"]
    assert item.pop("rejected_at")
    assert item == {
        "key": "a\\xff",
        "version": "7",
        "column": "data",
        "sqlstate": "22012",
        "reason": "no",
        "retry_at": None,
    }
    assert (await api.client.post("/api/v2/watchers/landing_files/rejected/retry")).json() == {"retried": 1}
    assert (await api.client.post("/api/v2/watchers/nobody/rejected/retry")).status_code == 404
    assert api.wakes[-1].names == {"landing_files"}
    [item] = (await api.get("/api/v2/watchers/landing_files/rejected"))["rejected"]
    assert item["retry_at"] is not None
    assert (await api.get("/api/v2/watchers/landing_files"))["position_version"] == 5
    assert (await api.get("/api/v2/audit"))["audit"][0]["action"] == "watcher.rejected_retry"


async def test_the_last_polls_come_from_this_process_or_the_database(api: Api) -> None:
    assert await api.get("/api/v2/watchers/landing_files/polls") == {"polls": [], "total_entries": 0}
    await api.get("/api/v2/watchers/nobody/polls", status=404)
    history = PollHistory()
    history.fail("no answer")
    async with api.database.transaction() as connection:
        await connection.execute(insert(watcher_position).values(watcher="landing_files", owner="t1", state="{}"))
        await watchers.set_polls(connection, "t1", {"landing_files": history.take()})
        await watchers.set_polls(connection, "another", {"landing_files": "[]"})
    [poll] = (await api.get("/api/v2/watchers/landing_files/polls"))["polls"]
    assert poll.pop("started")
    assert poll == {"seconds": None, "found": 0, "committed": 0, "error": "no answer", "times": 1}
    report = WatcherReport()
    report.history.note(TriggerBatch(whole_since=time.monotonic()))
    context = adapted(api.context, health=Health(watchers={"landing_files": report}))
    async with serving(context) as client:
        [poll] = (await client.get("/api/v2/watchers/landing_files/polls")).json()["polls"]
    assert (poll["error"], poll["found"]) == (None, 0)
