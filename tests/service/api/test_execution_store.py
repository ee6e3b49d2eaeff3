"""A running job reads and writes only what it declares, under its own ids."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from store.database import schema
from store.keys import AssetRef
from store.state.entries import EntryChange
from tests.databases import on_both
from tests.service.api.application import Api, claimed, next_try

pytestmark = on_both


async def test_a_job_writes_under_its_own_ids_and_the_link_leads_to_its_log(api: Api) -> None:
    one = await claimed(api)

    assert (await one.put("orders", "rows", {"loaded": 3})).status_code == 204

    assert await one.done("GET", "store/asset/by-name/value", query={"name": "orders", "key": "rows"}) == {
        "value": {"loaded": 3}
    }
    by = (await api.get(api.store("orders", "rows")))["last_updated_by"]
    assert {name: by[name] for name in ("kind", "dag_id", "run_id", "task_id", "map_index", "watcher", "actor")} == {
        "kind": "task",
        "dag_id": "load_orders",
        "run_id": "manual__1",
        "task_id": "load",
        "map_index": -1,
        "watcher": None,
        "actor": None,
    }
    assert by["log_url"] == (
        f"/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1?around={by['write_id']}"
    )
    lines = (await api.client.get(by["log_url"])).text.splitlines()
    assert [line.count(by["write_id"]) for line in lines if "store." in line] == [1, 1]


async def test_the_link_leads_to_the_log_of_the_try_that_wrote(api: Api) -> None:
    old = await claimed(api)
    await old.put("orders", "k", 1)
    new = await next_try(api, old)
    await new.put("orders", "k", 2)

    by = (await api.get(api.store("orders", "k")))["last_updated_by"]

    assert "/taskInstances/load/logs/2?" in by["log_url"]
    assert by["write_id"] in (await api.client.get(by["log_url"])).text


async def test_the_three_kinds_of_writers_take_turns(api: Api) -> None:
    one = await claimed(api)
    kinds = []
    for write in (one.put("orders", "k", 1), api.put("orders", "k", 2), one.put("orders", "k", 3)):
        await write
        kinds.append((await api.get(api.store("orders", "k")))["last_updated_by"]["kind"])

    assert kinds == ["task", "api", "task"]
    history = await api.get(f"/api/v2/assets/{api.asset_ids['orders']}/store-history", key="k")
    assert [h["last_updated_by"]["kind"] for h in history["history"]] == ["task", "api", "task"]


async def test_uri_and_name_select_the_same_entry(api: Api) -> None:
    one = await claimed(api)
    by_uri = {"uri": "s3://bucket/orders", "key": "k"}
    await one.done("PUT", "store/asset/by-uri/value", query=by_uri, body={"value": [1]})

    assert await one.done("GET", "store/asset/by-name/keys", query={"name": "orders"}) == {"keys": ["k"]}
    assert await one.done("GET", "store/asset/by-uri/keys", query={"uri": "s3://bucket/orders"}) == {"keys": ["k"]}
    assert await one.done("GET", "store/asset/by-uri/value", query=by_uri) == {"value": [1]}
    await one.done("DELETE", "store/asset/by-uri/value", query=by_uri)
    await one.done("DELETE", "store/asset/by-uri/value", query=by_uri)
    assert (await one.call("GET", "store/asset/by-uri/value", query=by_uri)).status_code == 404


async def test_a_reference_is_marked(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "big", "s3://refs/1", is_ref=True)

    query = {"name": "orders", "key": "big"}
    assert await one.done("GET", "store/asset/by-name/value", query=query) == {"value": "s3://refs/1", "is_ref": True}
    assert (await api.get(api.store("orders", "big")))["is_ref"] is True
    await one.put("orders", "big", "s3://refs/1")
    assert await one.done("GET", "store/asset/by-name/value", query=query) == {"value": "s3://refs/1"}


async def test_a_job_clears_everything_except_watermarks(api: Api) -> None:
    one = await claimed(api)
    async with api.database.transaction() as session:
        moved = update(schema.watcher).values(asset_id=api.asset_ids["orders"])
        await session.execute(moved)
        for key in ("landing_files.watermark", "a", "b"):
            asset = AssetRef(id=api.asset_ids["orders"], name="orders", uri="s3://bucket/orders")
            await api.context.entries.apply(session, EntryChange(asset=asset, key=key, value="1", writer=None))

    refused = await one.put("orders", "landing_files.watermark", 2)
    await one.done("DELETE", "store/asset/by-name/clear", query={"name": "orders"})

    assert (refused.status_code, refused.json()["detail"]["reason"]) == (409, "conflict")
    assert await one.done("GET", "store/asset/by-name/keys", query={"name": "orders"}) == {
        "keys": ["landing_files.watermark"]
    }


async def test_values_of_jobs_have_no_limit(api: Api) -> None:
    one = await claimed(api)

    assert (await one.put("orders", "k", "x" * 70_000)).status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("PUT", "store/asset/by-name/value", {"name": "customers", "key": "k"}, {"value": 1}),
        ("PUT", "store/asset/by-uri/value", {"uri": "s3://bucket/private", "key": "k"}, {"value": 1}),
        ("GET", "store/asset/by-name/value", {"name": "customers", "key": "k"}, None),
        ("GET", "store/asset/by-name/keys", {"name": "private"}, None),
        ("DELETE", "store/asset/by-name/value", {"name": "private", "key": "k"}, None),
        ("DELETE", "store/asset/by-name/clear", {"name": "private"}, None),
        ("GET", "assets/by-name", {"name": "private"}, None),
        ("GET", "asset-events/by-asset", {"name": "private", "uri": ""}, None),
    ],
)
async def test_assets_that_the_job_does_not_declare_are_refused(
    api: Api, method: str, path: str, query: Any, body: Any
) -> None:
    one = await claimed(api)
    await api.put("private", "k", "secret")
    await api.put("customers", "k", "secret")

    answer = await one.call(method, path, query=query, body=body)

    assert (answer.status_code, answer.json()["detail"]["reason"]) == (403, "forbidden")
    assert (await api.get(api.store("private", "k")))["value"] == "secret"


async def test_unknown_assets_and_keys_are_not_found(api: Api) -> None:
    one = await claimed(api)

    for method, path, query, body in (
        ("GET", "store/asset/by-name/value", {"name": "nothing", "key": "k"}, None),
        ("GET", "store/asset/by-name/value", {"name": "orders", "key": "nothing"}, None),
        ("PUT", "store/asset/by-name/value", {"name": "nothing", "key": "k"}, {"value": 1}),
        ("DELETE", "store/asset/by-uri/clear", {"uri": "nothing"}, None),
        ("GET", "assets/by-uri", {"uri": "nothing"}, None),
    ):
        answer = await one.call(method, path, query=query, body=body)
        assert (answer.status_code, answer.json()["detail"]["reason"]) == (404, "not_found"), path


async def test_the_task_store_keeps_what_the_job_writes(api: Api) -> None:
    one = await claimed(api)
    own = f"store/ti/{one.task_instance_id}"
    await one.done("PUT", f"{own}/spark/app id", body={"value": "app-1", "expires_at": None})
    await one.done("PUT", f"{own}/b", body={"value": 2})
    await one.done("PUT", f"{own}/c", body={"value": 3, "expires_at": "2000-01-01T00:00:00Z"})
    await one.done("PUT", f"{own}/d", body={"value": 4, "expires_at": "default"})

    assert await one.done("GET", f"{own}/spark%2Fapp%20id") == {"value": "app-1"}
    assert (await one.call("GET", f"{own}/c")).status_code == 404  # past its time
    async with api.database.reading() as session:
        kept = await session.execute(select(schema.task_store.c.key, schema.task_store.c.never_expire))
        assert dict(kept.all()) == {"spark/app id": True, "b": False, "c": False, "d": False}
    await one.done("DELETE", f"{own}/b")
    assert (await one.call("GET", f"{own}/b")).status_code == 404
    await one.done("DELETE", own)
    assert (await one.call("GET", f"{own}/d")).status_code == 404


async def test_a_task_store_belongs_to_its_task_only(api: Api) -> None:
    one, other = await claimed(api), await claimed(api, "manual__2")

    for method, path in (
        ("GET", f"store/ti/{other.task_instance_id}/k"),
        ("PUT", f"store/ti/{other.task_instance_id}/k"),
        ("DELETE", f"store/ti/{other.task_instance_id}"),
        ("GET", "store/ti/no-uuid/k"),
    ):
        answer = await one.call(method, path, body={"value": 1} if method == "PUT" else None)
        assert answer.status_code == 403
        assert answer.json()["detail"] == "Token subject does not match task instance ID"


async def test_a_job_reads_its_assets_and_their_events(api: Api) -> None:
    one = await claimed(api)
    for n in (1, 2, 3):
        await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids["landing"], "extra": {"n": n}})

    asset = await one.done("GET", "assets/by-uri", query={"uri": "s3://bucket/landing"})
    assert asset == {"name": "landing", "uri": "s3://bucket/landing", "group": "shop", "extra": {"team": "trainees"}}

    async def numbers(**query: object) -> list[int]:
        events = await one.done("GET", "asset-events/by-asset", query={"name": "landing", "uri": "", **query})
        return [event["extra"]["n"] for event in events["asset_events"]]

    assert await numbers() == [1, 2, 3]
    assert await numbers(ascending=False, limit=2) == [3, 2]
    assert await numbers(uri="s3://bucket/orders") == []  # name and uri of two assets
    assert await numbers(after="2999-01-01T00:00:00Z") == []
    assert await numbers(before="2000-01-01T00:00:00Z") == []
    assert (await one.call("GET", "asset-events/by-asset", query={"name": "landing"})).status_code == 422
    empty = await one.call("GET", "asset-events/by-asset", query={"name": "", "uri": ""})
    assert (empty.status_code, empty.json()["detail"]["reason"]) == (400, "Missing parameter")
