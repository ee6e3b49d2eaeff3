"""Decisions of people: materialize, clear, cancel and mark, and the fields that show that a decision is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sqlalchemy import delete, update

from store.catalog import catalog_sync
from store.database import schema
from store.processes import cleanup
from store.runs import runs
from tests.features import KEPT_EVENTS
from tests.service.api.application import CONFIGURED, Api, Try, claimed, job

RUN = "/api/v2/dags/load_orders/dagRuns/manual__1"


async def failed(api: Api, run_id: str = "manual__1") -> Try:
    """Create a run with two events whose only try has failed for good."""
    one = await claimed(api, run_id)
    async with api.database.transaction() as session:
        for name in ("landing", "customers"):
            new = schema.asset_event.insert().values(
                asset_id=api.asset_ids[name], timestamp=schema.database_now(), trace_id="t"
            )
            event_id = (await session.execute(new.returning(schema.asset_event.c.id))).scalar_one()
            row = {"dag_id": "load_orders", "run_id": run_id, "event_id": event_id}
            await session.execute(schema.run_asset_event.insert(), [row])
        await session.execute(update(schema.task_try).values(ended_at=schema.database_now()))
        await session.execute(update(schema.task_instance).values(state="failed"))
        await session.execute(update(schema.run).values(state="failed"))
    return one


async def answered(api: Api, method: str, path: str, status: int, body: object = None) -> dict[str, object]:
    answer = await api.client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    answer_json: dict[str, object] = answer.json()
    return answer_json


async def test_materialize_runs_the_job_that_updates_the_asset(api: Api) -> None:
    orders = f"/api/v2/assets/{api.asset_ids['orders']}/materialize"
    made = await answered(api, "POST", orders, 200)
    assert (made["dag_id"], made["run_type"], made["state"], made["conf"]) == (
        "load_orders",
        "asset_materialization",
        "queued",
        {},
    )
    assert str(made["dag_run_id"]).startswith("asset_materialization__")
    own = await answered(api, "POST", orders, 200, {"dag_run_id": "mine", "conf": {"x": 1}, "note": "why"})
    assert (own["dag_run_id"], own["conf"], own["note"]) == ("mine", {"x": 1}, "why")
    await answered(api, "POST", orders, 409, {"dag_run_id": "mine"})
    of_a_day = await answered(api, "POST", orders, 200, {"partition_key": "2026-11-20"})
    assert (made["partition_key"], of_a_day["partition_key"]) == (None, "2026-11-20")


async def test_materialize_needs_exactly_one_producer(api: Api) -> None:
    await answered(api, "POST", f"/api/v2/assets/{api.asset_ids['private']}/materialize", 404)
    await answered(api, "POST", "/api/v2/assets/999999/materialize", 404)
    async with api.database.transaction() as session:
        two = [*CONFIGURED.jobs, job("other", outlet={"orders"})]
        await catalog_sync.apply(session, replace(CONFIGURED, jobs=two), api.database.dialect)
    answer = await answered(api, "POST", f"/api/v2/assets/{api.asset_ids['orders']}/materialize", 409)
    assert "load_orders, other" in str(answer["detail"])


async def test_clear_previews_first_and_then_queues_the_same_run(api: Api) -> None:
    await failed(api)
    preview = await answered(api, "POST", f"{RUN}/clear", 200, {})
    assert preview["total_entries"] == 1
    assert (await api.get(RUN))["state"] == "failed"

    cleared = await answered(api, "POST", f"{RUN}/clear", 200, {"dry_run": False})
    assert (cleared["dag_run_id"], cleared["state"]) == ("manual__1", "queued")
    again = await api.start_try()
    assert again.number == 2
    context = await again.done("POST", "tries/claim", body={"nonce": "second"})
    assert set(context["triggering_asset_events"]) == {"landing", "customers"}
    actions = [entry["action"] for entry in (await api.get("/api/v2/audit"))["audit"]]
    assert actions[0] == "run.clear"


async def test_a_cleared_run_of_a_paused_job_has_its_reason_wherever_it_is_shown(api: Api) -> None:
    """Nothing else says why it stays queued."""
    await failed(api)
    await answered(api, "PATCH", "/api/v2/dags/load_orders", 200, {"is_paused": True})
    assert (await api.get(RUN))["reason"] is None
    await answered(api, "POST", f"{RUN}/clear", 200, {"dry_run": False})
    waits = "waits: the job is paused; resume it"
    listed = await api.get("/api/v2/dags/~/dagRuns")
    assert [(run["state"], run["reason"]) for run in (await api.get(RUN), *listed["dag_runs"])] == 2 * [
        ("queued", waits)
    ]
    assert (await api.get(f"{RUN}/taskInstances"))["task_instances"][0]["detail"] == waits
    await answered(api, "PATCH", "/api/v2/dags/load_orders", 200, {"is_paused": False})
    assert ((await api.get(RUN))["state"], (await api.get(RUN))["reason"]) == ("queued", None)


async def test_a_run_that_is_not_over_is_not_cleared(api: Api) -> None:
    await claimed(api)
    answer = await answered(api, "POST", f"{RUN}/clear", 409, {"dry_run": False})
    assert "cancel it first" in str(answer["detail"])
    await answered(api, "PATCH", RUN, 409, {"state": "queued"})
    await answered(api, "POST", f"{RUN}0/clear", 404, {"dry_run": False})


async def test_only_failed_runs_are_cleared_on_request(api: Api) -> None:
    one = await claimed(api)
    await one.done("POST", "tries/finish", body={"state": "success"})
    kept = await answered(api, "POST", f"{RUN}/clear", 200, {"dry_run": False, "only_failed": True})
    assert kept["state"] == "success"
    assert (await answered(api, "PATCH", RUN, 200, {"state": "queued"}))["state"] == "queued"


async def test_the_run_of_a_removed_job_is_not_cleared(api: Api) -> None:
    await failed(api)
    async with api.database.transaction() as session:
        await session.execute(update(schema.job).values(active=False))
    answer = await answered(api, "POST", f"{RUN}/clear", 409, {"dry_run": False})
    assert "configure it again" in str(answer["detail"])


async def test_a_cancelled_run_fails_and_its_job_can_change_nothing_any_more(api: Api) -> None:
    one = await claimed(api)
    cancelled = await answered(api, "PATCH", RUN, 200, {"state": "failed", "note": "wrong file"})
    assert (cancelled["state"], cancelled["reason"], cancelled["note"]) == ("failed", "cancelled", "wrong file")
    [task] = (await api.get(f"{RUN}/taskInstances"))["task_instances"]
    assert (task["state"], task["detail"]) == ("failed", "cancelled")
    for answer in (
        await one.put("orders", "k", 1),
        await one.call("POST", "tries/finish", body={"state": "success"}),
        await one.call("POST", "tries/claim", body={"nonce": "n"}),
    ):
        assert answer.status_code == 409
    assert (await api.get(RUN))["state"] == "failed"
    assert api.wakes


async def test_a_mark_emits_no_event_and_a_mask_keeps_the_other_members(api: Api) -> None:
    await failed(api)
    marked = await answered(api, "PATCH", f"{RUN}?update_mask=state", 200, {"state": "success", "note": "unheard"})
    assert (marked["state"], marked["reason"], marked["note"]) == ("success", "marked as success", None)
    assert (await api.get("/api/v2/assets/events", source_dag_id="load_orders"))["total_entries"] == 0
    assert (await answered(api, "PATCH", RUN, 200, {"state": "failed"}))["reason"] == "marked as failed"
    await answered(api, "PATCH", RUN, 422, {"state": "running"})
    await answered(api, "PATCH", f"{RUN}0", 404, {"note": "x"})
    await answered(api, "PATCH", f"{RUN}0", 404, {"state": "failed"})


async def test_events_of_failed_runs_are_shown_as_unprocessed(api: Api) -> None:
    await failed(api)
    assert (await api.get("/api/v2/dags/load_orders"))["unprocessed"] == 2
    assert {dag["dag_id"]: dag["unprocessed"] for dag in (await api.get("/api/v2/dags"))["dags"]} == {
        "load_orders": 2,
        "report": 0,
    }
    unprocessed = {a["name"]: a["unprocessed"] for a in (await api.get("/api/v2/assets"))["assets"]}
    assert unprocessed == {"landing": 1, "customers": 1, "orders": 0, "private": 0}
    await answered(api, "PATCH", RUN, 200, {"state": "success"})
    assert (await api.get("/api/v2/dags/load_orders"))["unprocessed"] == 0


async def test_an_asset_without_its_expected_event_is_late(api: Api) -> None:
    a = schema.asset.c
    landing = api.asset_ids["landing"]

    async def late() -> tuple[bool, str]:
        text = (await api.client.get("/metrics")).text
        (line,) = [line for line in text.splitlines() if line.startswith('watcher_asset_late{asset="landing"}')]
        return (await api.get(f"/api/v2/assets/{landing}"))["is_late"], line.split()[1]

    async with api.database.transaction() as session:
        values = {"expect_every_seconds": 3600, "created_at": schema.database_now()}
        await session.execute(update(schema.asset).where(a.id == landing).values(**values))
    assert await late() == (False, "0.0")
    async with api.database.transaction() as session:
        made = (await session.execute(schema.asset.select().where(a.id == landing))).mappings().one()["created_at"]
        back = update(schema.asset).where(a.id == landing)
        await session.execute(back.values(created_at=made - timedelta(hours=2)))
    assert await late() == (True, "1.0")
    await api.client.post("/api/v2/assets/events", json={"asset_id": landing})
    assert await late() == (False, "0.0")
    async with api.database.transaction() as session:
        await session.execute(delete(schema.queued_event))
        await session.execute(update(schema.asset_event).values(timestamp=made - timedelta(hours=2)))
    assert await late() == (True, "1.0")
    assert (await api.get(f"/api/v2/assets/{landing}"))["expect_every"] == 3600
    assert (await api.get(f"/api/v2/assets/{api.asset_ids['orders']}"))["is_late"] is False


async def test_decisions_require_authentication(guarded: Api) -> None:
    for method, path, body in (
        ("POST", f"/api/v2/assets/{guarded.asset_ids['orders']}/materialize", None),
        ("POST", f"{RUN}/clear", {}),
        ("PATCH", RUN, {"state": "failed"}),
    ):
        assert (await guarded.client.request(method, path, json=body)).status_code == 401


async def test_a_deleted_runs_events_stay_consumed_for_their_retention_and_its_log_remains(api: Api) -> None:
    one = await failed(api)
    await answered(api, "PATCH", RUN, 200, {"state": "failed"})
    assert (await api.client.delete(RUN)).status_code == 204
    await answered(api, "GET", RUN, 404)
    assert (await api.get("/api/v2/dags/load_orders"))["unprocessed"] == 0
    assert (await api.get("/api/v2/dags/~/dagRuns"))["total_entries"] == 0
    assert (await api.get("/api/v2/dags/~/dagRuns/~/taskInstances"))["total_entries"] == 0
    assert (await one.put("orders", "k", 1)).status_code == 404
    assert {event["created_dagruns"] == [] for event in (await api.get("/api/v2/assets/events"))["asset_events"]} == {
        True
    }
    assert "try.claimed" in (await api.client.get(f"{RUN}/taskInstances/load/logs/1")).text
    for body in ({"state": "queued"}, {"note": "x"}):
        await answered(api, "PATCH", RUN, 404, body)
    await answered(api, "POST", f"{RUN}/clear", 404, {"dry_run": False})

    async def consumed() -> int:
        async with api.database.reading() as connection:
            return len((await connection.execute(schema.run_asset_event.select())).all())

    async def clean_up() -> None:
        days = {"task_days": 30, "history_days": 30, "event_days": 1, "run_days": 1, "orphan_days": 30}
        for sweep in await cleanup.sweeps(api.database, cleanup.Retention(**days), KEPT_EVENTS):
            async with api.database.transaction() as connection:
                await sweep.remove(connection, 100, None, api.database.dialect)

    await clean_up()
    assert await consumed() == 2
    async with api.database.transaction() as connection:
        long_ago = schema.database_time_in(-2 * 86400.0)
        await connection.execute(update(schema.asset_event).values(timestamp=long_ago))
        await connection.execute(update(schema.run).values(end_date=long_ago))
    await clean_up()
    assert await consumed() == (await api.get("/api/v2/assets/events"))["total_entries"] == 0
    await answered(
        api, "POST", "/api/v2/dags/load_orders/dagRuns", 409, {"logical_date": None, "dag_run_id": "manual__1"}
    )


async def test_the_tick_of_a_deleted_run_is_not_used_again(api: Api) -> None:
    await failed(api)
    assert (await api.client.delete(RUN)).status_code == 204
    async with api.database.reading() as connection:
        assert await runs.existing(connection, [("load_orders", "manual__1")])
