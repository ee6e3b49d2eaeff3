"""A try is claimed once, fenced, and ends in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import jwt
import pytest
from sqlalchemy import delete, insert, select, update

from store.database import schema
from store.keys import TryRef
from store.processes.tokens import digest
from store.runs.tries import tries, try_lookup
from tests.databases import on_both
from tests.service.api.application import SECRET, Api, Try, adapted, claimed, serving, superseded
from watcher.serving import try_tokens


async def test_a_claim_returns_the_whole_context_of_the_job(api: Api) -> None:
    one = await api.start_try()

    context = await one.done("POST", "tries/claim", body={"nonce": "n"})

    assert context == {
        "dag_id": "load_orders",
        "run_id": "manual__1",
        "task_id": "load",
        "map_index": -1,
        "try_number": 1,
        "task_instance_id": one.task_instance_id,
        "triggering_asset_events": {},
        "left_out": {},
        "inlets": [{"name": "landing", "uri": "s3://bucket/landing"}],
        "outlets": [{"name": "orders", "uri": "s3://bucket/orders"}],
        "options": {"target": "/data/orders"},
        "worker_backend": None,
        "default_retention_days": 30,
        "conf": {},
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "partition_key": None,
        "partition_complete": None,
        "redelivered": False,
        "late": False,
        "clear_on_success": False,
    }


async def test_a_second_claimer_is_refused_and_the_first_may_repeat_its_claim(api: Api) -> None:
    one = await api.start_try()
    first = await one.done("POST", "tries/claim", body={"nonce": "first"})

    second = await one.call("POST", "tries/claim", body={"nonce": "second"})

    assert second.status_code == 409
    assert second.json()["detail"]["reason"] == "fenced"
    assert await one.done("POST", "tries/claim", body={"nonce": "first"}) == first
    assert (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances"))["task_instances"][0][
        "state"
    ] == "running"


async def test_the_events_of_the_run_are_ordered_oldest_first_by_asset(api: Api) -> None:
    one = await api.start_try()
    event_ids = {}
    for name, number in (("landing", 1), ("customers", 2), ("landing", 3)):
        body = {"asset_id": api.asset_ids[name], "extra": {"n": number}}
        event_ids[number] = (await api.client.post("/api/v2/assets/events", json=body)).json()["id"]
    async with api.database.transaction() as session:
        rows = [
            {"dag_id": "load_orders", "run_id": one.run_id, "event_id": event_ids[n], "completed": n == 3}
            for n in (3, 1, 2)
        ]
        await session.execute(schema.run_asset_event.insert(), rows)

    events = (await one.done("POST", "tries/claim", body={"nonce": "n"}))["triggering_asset_events"]

    assert {name: [event["extra"]["n"] for event in of_asset] for name, of_asset in events.items()} == {
        "landing": [1, 3],
        "customers": [2],
    }
    event = events["landing"][0]
    assert event["asset"] == {
        "name": "landing",
        "uri": "s3://bucket/landing",
        "group": "shop",
        "extra": {"team": "trainees"},
    }
    assert (event["created_dagruns"], event["source_map_index"], event["source_watcher"]) == ([], -1, None)


async def test_a_superseded_try_changes_nothing(api: Api) -> None:
    old, new = await superseded(api)
    own = f"store/ti/{old.task_instance_id}"
    assert (await new.put("orders", "k", "new")).status_code == 204

    for answer in (
        await old.put("orders", "k", "old"),
        await old.call("DELETE", "store/asset/by-name/value", query={"name": "orders", "key": "k"}),
        await old.call("DELETE", "store/asset/by-name/clear", query={"name": "orders"}),
        await old.call("PUT", f"{own}/k", body={"value": 1}),
        await old.call("DELETE", f"{own}/k"),
        await old.call("DELETE", own),
        await old.call("POST", "tries/claim", body={"nonce": "n"}),
        await old.call("POST", "tries/progress", body={"stages": 1, "tasks": 1, "tasks_done": 0}),
        await old.call("POST", "tries/finish", body={"state": "success"}),
        await old.call("POST", "tries/token", body={}),
    ):
        assert (answer.status_code, answer.json()["detail"]["reason"]) == (409, "fenced"), answer.request.url

    assert (await api.get(api.store("orders", "k")))["value"] == "new"
    assert await api.get("/api/v2/assets/events") == {"asset_events": [], "total_entries": 0}


async def test_a_driver_elsewhere_renews_its_try_until_its_end_is_known(api: Api) -> None:
    """Its result alone is no end: the process still closes what it has opened."""
    one = await claimed(api)
    for _ in range(2):
        answer = await one.done("POST", "tries/renewal", body={})
        assert list(answer) == ["token"]
        one.token = answer["token"]
        await one.done("POST", "tries/finish", body={"state": "success"})
    async with api.database.transaction() as connection:
        ended = await connection.execute(
            update(schema.task_try).values(ended_at=schema.database_now()).returning(schema.task_try.c.renewed_at)
        )
    assert ended.scalar_one() is not None
    refused = await one.call("POST", "tries/renewal", body={})
    assert (refused.status_code, refused.json()["detail"]["reason"]) == (409, "fenced")


async def test_the_right_to_run_is_granted_to_one_container(api: Api) -> None:
    """A node that has lost what it knew starts a pod's container again, with the same token."""
    one = await api.start_try()
    first = one.token
    for _ in range(2):  # also when the answer was lost
        one.token = (await one.done("POST", "tries/renewal", body={"holder": "first"}))["token"]
    one.token = first
    second = await one.call("POST", "tries/renewal", body={"holder": "second"})
    assert (second.status_code, second.json()["detail"]["reason"]) == (409, "held")
    await one.done("POST", "tries/renewal", body={})  # of a wrapper that an older release started
    await one.done("POST", "tries/renewal", body={"holder": "first"})
    async with api.database.transaction() as connection:
        await connection.execute(update(schema.task_try).values(ended_at=schema.database_now()))
    for holder in ("first", "second"):
        refused = await one.call("POST", "tries/renewal", body={"holder": holder})
        assert (refused.status_code, refused.json()["detail"]["reason"]) == (409, "fenced")


async def test_a_driver_that_another_submission_of_its_try_replaced_is_granted_nothing(api: Api) -> None:
    replaced = await api.start_try()
    again = api.as_try(replaced.task_instance_id, replaced.number, "manual__1")
    async with api.database.transaction() as connection:
        [open_try] = await try_lookup.open_tries(connection, "home")
        assert await tries.replace_token(connection, open_try, digest(again.token))
    refused = await replaced.call("POST", "tries/renewal", body={})
    assert (refused.status_code, refused.json()["detail"]["reason"]) == (409, "fenced")
    for _ in range(2):
        again.token = (await again.done("POST", "tries/renewal", body={}))["token"]


async def test_a_finished_try_cannot_write(api: Api) -> None:
    one = await claimed(api)
    await one.done("POST", "tries/finish", body={"state": "success"})

    assert (await one.put("orders", "k", 1)).status_code == 409


async def test_a_try_without_its_task_instance_is_not_found(api: Api) -> None:
    ghost = api.as_try(str(uuid4()), 1, "gone")

    for answer in (
        await ghost.put("orders", "k", 1),
        await ghost.call("GET", "store/asset/by-name/value", query={"name": "orders", "key": "k"}),
        await ghost.call("GET", f"store/ti/{ghost.task_instance_id}/k"),
        await ghost.call("POST", "tries/finish", body={"state": "success"}),
    ):
        assert (answer.status_code, answer.json()["detail"]["reason"]) == (404, "not_found")


async def test_a_refused_write_leaves_no_line_in_the_log(api: Api) -> None:
    old, new = await superseded(api)
    await old.put("orders", "k", "old")
    await new.put("customers", "k", "new")

    logs = list((api.context.logs_directory / "runs").rglob("*.log"))

    assert "store." not in "".join(path.read_text() for path in logs)


async def test_only_a_valid_token_of_a_try_is_accepted(guarded: Api) -> None:
    one = await guarded.start_try()
    path = f"/execution/store/ti/{one.task_instance_id}/k"
    other_key = try_tokens.issue(
        b"another", TryRef(task_instance_id=one.task_instance_id, try_number=1), lifetime=timedelta(hours=1)
    )
    expired = try_tokens.issue(
        SECRET, TryRef(task_instance_id=one.task_instance_id, try_number=1), lifetime=timedelta(minutes=-1)
    )

    assert (await guarded.client.get(path)).status_code == 401
    for token in ("nonsense", other_key, expired, "aw_something"):
        answer = await guarded.client.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 403, token
        assert token not in answer.text
    assert (
        await guarded.client.get("/api/v2/assets", headers={"Authorization": f"Bearer {one.token}"})
    ).status_code == 403


async def test_a_token_in_its_last_fifth_is_renewed(api: Api) -> None:
    one = await claimed(api)
    moment_ago = datetime.now(UTC) - timedelta(minutes=50)
    old = replace(one, token=token_issued_at(moment_ago, one))

    for answer in (
        await old.put("orders", "k", 1),
        await old.call("POST", "store/asset/transaction", body={"asset": "orders", "ordinal": 1}),
        await old.call("POST", "tries/claim", body={"nonce": "n"}),
    ):
        renewed = try_tokens.verify([SECRET], answer.headers["Refreshed-API-Token"])
        assert (renewed.task_instance_id, renewed.try_number) == (one.task_instance_id, 1)
        assert renewed.lifetime == timedelta(hours=1)
    assert "Refreshed-API-Token" not in (await one.put("orders", "k", 1)).headers


@on_both
@pytest.mark.parametrize(
    "number", [-1, 0, 2**31, 2**63, 2**64, 10**400, True, "1", "", 1.5, [1]], ids=lambda number: str(number)[:12]
)
async def test_a_signed_token_with_a_number_that_no_try_has_is_refused(api: Api, number: Any) -> None:
    one = await claimed(api)
    one.token = signed_with(one, **{"try": number})

    for method, path in (("POST", "tries/token"), ("GET", "assets/by-name"), ("PUT", "store/asset/by-name/value")):
        answer = await one.call(method, path, query={"name": "orders", "key": "k"}, body={"value": 1})
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), answer.text
        assert answer.json()["detail"].startswith("Invalid token: try: ")


def token_issued_at(moment: datetime, one: Try) -> str:
    return signed_with(one, iat=moment, nbf=moment, exp=moment + timedelta(hours=1))


def signed_with(one: Try, **changes: Any) -> str:
    """Return the token of the try with other claims, signed with the key of the application."""
    claims = jwt.decode(one.token, options={"verify_signature": False}) | changes
    return jwt.encode(claims, try_tokens._key(SECRET), algorithm="HS512")


async def test_a_token_is_renewed_on_request(api: Api) -> None:
    one = await claimed(api)

    answer = await one.done("POST", "tries/token", body={})

    identity = try_tokens.verify([SECRET], answer["token"])
    assert (identity.task_instance_id, identity.try_number) == (one.task_instance_id, 1)
    assert datetime.fromisoformat(answer["expires_at"]) == identity.expires_at


async def test_success_emits_an_event_for_every_outlet_and_queues_the_waiting_jobs(api: Api) -> None:
    one = await claimed(api)

    body = {"state": "success", "outlet_events": [{"asset": "orders", "extra": {"row_count": 3}}], "message": ""}
    assert await one.done("POST", "tries/finish", body=body) == {}

    [event] = (await api.get("/api/v2/assets/events"))["asset_events"]
    assert (event["name"], event["extra"]) == ("orders", {"row_count": 3})
    assert (event["source_dag_id"], event["source_run_id"], event["source_task_id"], event["source_map_index"]) == (
        "load_orders",
        "manual__1",
        "load",
        -1,
    )
    async with api.database.reading() as session:
        queued = (await session.execute(select(schema.queued_event.c.dag_id))).scalars().all()
    assert queued == ["report"]
    run = await api.get("/api/v2/dags/load_orders/dagRuns/manual__1")
    assert (run["state"], run["end_date"] is not None) == ("success", True)
    assert api.wakes


async def test_an_outlet_that_the_job_does_not_report_gets_an_event_too(api: Api) -> None:
    one = await claimed(api)
    await one.done("POST", "tries/finish", body={"state": "success"})

    [event] = (await api.get("/api/v2/assets/events"))["asset_events"]
    assert (event["name"], event["extra"]) == ("orders", {})


async def test_finishing_again_changes_nothing(api: Api) -> None:
    one = await claimed(api)
    for _ in range(2):
        await one.done("POST", "tries/finish", body={"state": "success"})

    assert (await api.get("/api/v2/assets/events"))["total_entries"] == 1
    contradiction = await one.call("POST", "tries/finish", body={"state": "failed"})
    assert contradiction.status_code == 409
    assert (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1"))["state"] == "success"


async def test_bad_records_are_counted_once_and_stay_a_problem_until_an_operator_resolves_them(api: Api) -> None:
    one = await claimed(api)
    for _ in range(2):
        await one.done("POST", "tries/finish", body={"state": "success", "bad_records": 3, "message": "3 of a.csv"})

    of_run = "/api/v2/dags/load_orders/dagRuns/manual__1"
    assert 'watcher_bad_records_total{dag_id="load_orders"} 3.0' in (await api.client.get("/metrics")).text
    assert ((await api.get(of_run))["bad_records"], (await api.get(of_run))["bad_records_resolved_at"]) == (3, None)
    (warning,) = (await api.client.get("/readyz")).json()["warnings"]
    assert warning == "the run manual__1 of load_orders has left out 3 bad records"
    (problem,) = await api.get("/api/v2/problems")
    assert problem["remedy"] == "look at them, then `watcher runs resolve load_orders manual__1`"
    for _ in range(2):
        resolved = await api.client.post(f"{of_run}/resolve")
        assert resolved.json()["bad_records_resolved_at"] is not None
    assert (await api.client.get("/readyz")).json()["warnings"] == []
    audit = (await api.get("/api/v2/audit"))["audit"]
    assert [entry["target"] for entry in audit if entry["action"] == "run.resolve"] == ["load_orders"]
    assert (await api.client.post(f"{of_run}0/resolve")).status_code == 404


async def test_the_end_takes_only_a_number_of_bad_records(api: Api) -> None:
    one = await claimed(api)
    for wrong in (-1, "3", 1.5, 2**63):
        assert (
            await one.call("POST", "tries/finish", body={"state": "success", "bad_records": wrong})
        ).status_code == 422


async def test_one_event_for_each_asset_and_extra(api: Api) -> None:
    one = await claimed(api)
    outlet_events = [{"asset": "orders", "extra": {"n": n}} for n in (1, 1, 2)]
    await one.done("POST", "tries/finish", body={"state": "success", "outlet_events": outlet_events})

    events = (await api.get("/api/v2/assets/events"))["asset_events"]
    assert [event["extra"] for event in events] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("state", ["failed", "skipped"])
async def test_without_success_there_is_no_event(api: Api, state: str) -> None:
    one = await claimed(api)
    body = {"state": state, "outlet_events": [{"asset": "orders"}], "message": "no rows"}
    await one.done("POST", "tries/finish", body=body)

    assert (await api.get("/api/v2/assets/events"))["total_entries"] == 0


async def test_an_event_of_an_undeclared_asset_rolls_back_the_whole_finish(api: Api) -> None:
    one = await claimed(api)
    answer = await one.call("POST", "tries/finish", body={"state": "success", "outlet_events": [{"asset": "landing"}]})

    assert (answer.status_code, answer.json()["detail"]["reason"]) == (403, "forbidden")
    assert (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1"))["state"] == "running"
    assert (await one.put("orders", "k", 1)).status_code == 204


async def test_clear_on_success_clears_only_the_task_store(api: Api) -> None:
    one = await claimed(api)
    own = f"store/ti/{one.task_instance_id}/k"
    await one.put("orders", "k", 1)
    await one.done("PUT", own, body={"value": 1})
    async with serving(adapted(api.context, clear_on_success=True)) as client:
        await replace(one, client=client).done("POST", "tries/finish", body={"state": "success"})

    assert (await one.call("GET", own)).status_code == 404
    assert (await api.get(api.store("orders", "k")))["value"] == 1


async def test_the_task_store_survives_success_by_default(api: Api) -> None:
    one = await claimed(api)
    own = f"store/ti/{one.task_instance_id}/k"
    await one.done("PUT", own, body={"value": 1})
    await one.done("POST", "tries/finish", body={"state": "success"})

    assert await one.done("GET", own) == {"value": 1}


async def test_progress_is_shown_with_the_task_instance(api: Api) -> None:
    one = await claimed(api)
    await one.done("POST", "tries/progress", body={"stages": 2, "tasks": 10, "tasks_done": 4})

    [task] = (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances"))["task_instances"]
    assert task["progress"] == {"stages": 2, "tasks": 10, "tasks_done": 4}


async def test_a_try_links_to_the_history_server_once_spark_has_an_application_id(api: Api) -> None:
    task = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load"
    context = adapted(api.context, spark_history_url="http://history:18080/")
    async with serving(context) as client:
        known = replace(api, client=client, context=context)
        one = await claimed(known)
        assert (await known.get(f"{task}/links")) == {"extra_links": {}, "total_entries": 0}
        await one.done(
            "POST",
            "tries/progress",
            body={"stages": 0, "tasks": 0, "tasks_done": 0, "application_id": "local-1"},
        )
        assert (await known.get(task))["progress"] is None
        link = {"Spark history": "http://history:18080/history/local-1/"}
        assert (await known.get(f"{task}/links")) == {"extra_links": link, "total_entries": 1}
        assert (await known.get(f"{task}/links", try_number=1))["extra_links"] == link
        assert (await known.get(f"{task}/links", try_number=2))["extra_links"] == {}
    assert (await api.get(f"{task}/links"))["extra_links"] == {}


async def test_the_time_from_the_newest_event_to_the_first_spark_job_is_measured_once(api: Api) -> None:
    one = await claimed(api)
    made = [await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids["landing"]}) for _ in "ab"]
    run = {"dag_id": "load_orders", "run_id": "manual__1"}
    async with api.database.transaction() as connection:
        await connection.execute(insert(schema.run_asset_event), [{**run, "event_id": e.json()["id"]} for e in made])
    newest = datetime.fromisoformat(made[-1].json()["timestamp"])
    counts = {"stages": 2, "tasks": 10}
    for done, seconds in ((0, 7), (4, 7), (10, 9)):
        at = (newest + timedelta(seconds=seconds)).isoformat()
        await one.done("POST", "tries/progress", body={**counts, "tasks_done": done, "first_action_at": at})

    lines = (await api.client.get("/metrics")).text.splitlines()
    labels = '{dag_id="load_orders",start="cold"}'
    assert f"watcher_event_to_first_action_seconds_count{labels} 1.0" in lines
    assert f"watcher_event_to_first_action_seconds_sum{labels} 7.0" in lines
    [task] = (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances"))["task_instances"]
    assert task["progress"] == {**counts, "tasks_done": 10}


async def test_rows_and_bytes_counted_by_spark_are_the_cost_of_the_try(api: Api) -> None:
    one = await claimed(api)
    counts = {"stages": 2, "tasks": 10, "tasks_done": 4}
    await one.done("POST", "tries/progress", body={**counts, "rows_read": 7, "bytes_read": 70})
    await one.done("POST", "tries/progress", body={**counts, "rows_read": 9, "rows_written": 2**40})
    await one.done("POST", "tries/progress", body=counts)
    [task] = (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances"))["task_instances"]
    assert task["cost"] == {"rows_read": 9, "bytes_read": 70, "rows_written": 2**40}
    assert task["progress"] == counts


async def test_a_job_that_is_no_longer_configured_still_finishes(api: Api) -> None:
    one = await claimed(api)
    async with api.database.transaction() as session:
        await session.execute(delete(schema.job_outlet))
        await session.execute(update(schema.job).values(active=False))

    await one.done("POST", "tries/finish", body={"state": "success"})

    assert (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1"))["state"] == "success"
