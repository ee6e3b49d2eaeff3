"""Airflow's three routes for queued events, over both databases."""

from __future__ import annotations


async def tell(api, asset, times=1):
    for _ in range(times):
        body = {"asset_id": api.asset_ids[asset], "extra": {}}
        (await api.client.post("/api/v2/assets/events", json=body)).raise_for_status()


async def test_two_events_of_one_asset_are_one_entry_until_a_run_consumes_them(api):
    await tell(api, "landing", times=2)
    await tell(api, "customers")
    page = await api.get("/api/v2/dags/load_orders/assets/queuedEvents")
    assert [(one["dag_id"], one["asset_id"]) for one in page["queued_events"]] == [
        ("load_orders", api.asset_ids["landing"]),
        ("load_orders", api.asset_ids["customers"]),
    ]
    assert page["total_entries"] == 2
    assert set(page["queued_events"][0]) == {"dag_id", "asset_id", "created_at", "dag_display_name"}
    of_asset = await api.get(f"/api/v2/assets/{api.asset_ids['landing']}/queuedEvents")
    assert of_asset["queued_events"] == page["queued_events"][:1]
    pair = await api.get(f"/api/v2/dags/load_orders/assets/{api.asset_ids['landing']}/queuedEvents")
    assert pair == page["queued_events"][0]


async def test_deleting_removes_all_events_of_the_entry_and_is_audited(api):
    await tell(api, "landing", times=2)
    await tell(api, "customers")
    path = f"/api/v2/dags/load_orders/assets/{api.asset_ids['landing']}/queuedEvents"
    assert (await api.client.delete(path)).status_code == 204
    await api.get(path, status=404)
    left = await api.get("/api/v2/dags/load_orders/assets/queuedEvents")
    assert [one["asset_id"] for one in left["queued_events"]] == [api.asset_ids["customers"]]
    (entry, *_) = (await api.get("/api/v2/audit"))["audit"]
    assert (entry["action"], entry["detail"]["events"]) == ("queued_events.delete", 2)
    assert (await api.client.delete(path)).status_code == 404


async def test_unknown_jobs_and_assets_have_empty_lists_and_a_bad_before_is_refused(api):
    nothing = {"queued_events": [], "total_entries": 0}
    assert await api.get("/api/v2/dags/nobody/assets/queuedEvents") == nothing
    assert await api.get("/api/v2/assets/999/queuedEvents") == nothing
    await tell(api, "landing")
    for before in ("yesterday", "2026-11-20T09:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        await api.get("/api/v2/dags/load_orders/assets/queuedEvents", status=400, before=before)
    old = await api.get("/api/v2/dags/load_orders/assets/queuedEvents", before="2020-01-01T00:00:00Z")
    assert old == nothing
