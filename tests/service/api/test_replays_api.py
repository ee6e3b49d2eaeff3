"""Replays by REST: counted before they begin, refused with another count, carried out by the scheduler."""

from __future__ import annotations

from sqlalchemy import select

from store.database.schema import queued_event
from store.runs import run_lists
from store.runs.run_lists import RunFilter
from tests.service.scheduler.settings import consumed, end_runs, leading_scheduler, queued, tell

PATH = "/api/v2/dags/load_orders/replay"
EVER = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}


async def test_a_preview_counts_and_the_replay_of_the_same_count_is_carried_out(api):
    first = await tell(api.database, api.asset_ids["landing"], api.asset_ids["customers"])
    scheduler = await leading_scheduler(api.database)
    await scheduler.check()
    await end_runs(api.database, "load_orders")
    (await api.client.post("/api/v2/dags/load_orders/dagRuns", json={"logical_date": None})).raise_for_status()
    (waiting,) = await tell(api.database, api.asset_ids["landing"])

    preview = (await api.client.post(PATH, json=EVER)).json()
    counted = {
        name: preview[name] for name in ("expected_count", "queued", "cleared", "cleared_runs", "waiting", "dropped")
    }
    assert counted == {"expected_count": 2, "queued": 0, "cleared": 2, "cleared_runs": 1, "waiting": 1, "dropped": 0}
    assert (preview["dry_run"], preview["replay_id"]) == (True, None)

    other = await api.client.post(PATH, json={**EVER, "dry_run": False, "expected_count": 3})
    assert (other.status_code, "preview" in other.json()["detail"]) == (409, True)
    begun = await api.client.post(PATH, json={**EVER, "dry_run": False, "expected_count": 2})
    assert (begun.status_code, begun.json()["replay_id"]) == (200, 1)
    again = await api.client.post(PATH, json={**EVER, "dry_run": False, "expected_count": 2})
    assert again.status_code == 409
    (entry, *_) = (await api.get("/api/v2/audit"))["audit"]
    assert (entry["action"], entry["target"]) == ("job.replay", "load_orders")

    await scheduler.check()
    async with api.database.reading() as connection:
        states = {row.run_type: row.state for row in await run_lists.latest(connection, RunFilter(), limit=10)}
    assert states == {"asset_triggered": "queued", "manual": "queued"}
    assert await queued(api.database, "load_orders") == [waiting]
    assert (
        sorted(event for events in (await consumed(api.database, "load_orders")).values() for event in events) == first
    )
    assert (await api.client.post(PATH, json=EVER)).json()["running"] == len(first)


async def test_deleted_queued_events_are_dropped_and_come_only_when_asked_for(api):
    event_ids = await tell(api.database, api.asset_ids["landing"])
    (await api.client.delete("/api/v2/dags/load_orders/assets/queuedEvents")).raise_for_status()
    preview = (await api.client.post(PATH, json=EVER)).json()
    assert (preview["expected_count"], preview["dropped"]) == (0, 1)
    body = {**EVER, "include_dropped": True, "dry_run": False, "expected_count": 1}
    (await api.client.post(PATH, json=body)).raise_for_status()
    await (await leading_scheduler(api.database)).check()
    assert await queued(api.database, "load_orders") == event_ids


async def test_what_cannot_be_replayed_is_refused_by_a_sentence(api):
    assert (await api.client.post(PATH, json={"from": EVER["to"], "to": EVER["from"]})).status_code == 422
    assert (await api.client.post("/api/v2/dags/nobody/replay", json=EVER)).status_code == 404
    assert (await api.client.post(PATH, json={**EVER, "asset": "nothing"})).status_code == 404
    other = await api.client.post(PATH, json={**EVER, "asset": "orders"})
    assert (other.status_code, "does not wait" in other.json()["detail"]) == (409, True)


async def test_a_partition_narrows_a_replay_to_its_key(api):
    for key in ("2026-01-31", None):
        body = {"asset_id": api.asset_ids["landing"], "extra": {}, "partition_key": key}
        (await api.client.post("/api/v2/assets/events", json=body)).raise_for_status()
    (await api.client.delete("/api/v2/dags/load_orders/assets/queuedEvents")).raise_for_status()
    body = {**EVER, "include_dropped": True, "partition": "2026-01-31", "dry_run": False, "expected_count": 1}
    (await api.client.post(PATH, json=body)).raise_for_status()
    await (await leading_scheduler(api.database)).check()
    (event_id,) = await queued(api.database, "load_orders")
    async with api.database.reading() as connection:
        key = await connection.scalar(select(queued_event.c.partition_key).where(queued_event.c.event_id == event_id))
    assert key == "2026-01-31"
