"""The asset store over REST."""

from __future__ import annotations

from urllib.parse import quote

import anyio
import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, AssetStoreWriterKind, Writer
from store.catalog import assets
from store.database import schema
from store.metastore import MetastoreStoreBackend
from store.state.attributed import AttributedEntries
from store.state.entries import EntryChange
from tests.databases import on_both
from tests.service.api.application import Api, adapted, serving
from tests.service.store.words import until_somebody_waits

pytestmark = on_both


async def test_a_value_is_returned_with_its_writer(api: Api) -> None:
    await api.put("orders", "watermark", {"b": 1, "a": [0.1, 10**30, "é"]})

    entry = await api.get(api.store("orders", "watermark"))

    assert entry["key"] == "watermark"
    assert entry["value"] == {"b": 1, "a": [0.1, 10**30, "é"]}
    assert list(entry["value"]) == ["b", "a"]
    assert entry["version"] == 1
    assert entry["is_ref"] is False
    by = entry["last_updated_by"]
    assert {name: by[name] for name in ("kind", "actor", "dag_id", "run_id", "task_id", "map_index", "watcher")} == {
        "kind": "api",
        "actor": "anonymous",
        "dag_id": None,
        "run_id": None,
        "task_id": None,
        "map_index": None,
        "watcher": None,
    }
    assert by["log_url"] == f"/api/v2/audit?write_id={by['write_id']}"


async def test_the_link_of_an_api_write_leads_to_its_audit_entry(api: Api) -> None:
    await api.put("orders", "watermark", 1)
    entry = await api.get(api.store("orders", "watermark"))

    response = await api.get(entry["last_updated_by"]["log_url"])

    [record] = response["audit"]
    assert (record["actor"], record["action"], record["target"]) == ("anonymous", "asset_store.set", "orders")
    assert record["detail"] == {"key": "watermark"}


@pytest.mark.parametrize("key", ["a/b/c", "ü ?&#%", "..", ".", "a//b", "%2F", "x" * 512])
async def test_every_kind_of_key_names_one_entry(api: Api, key: str) -> None:
    path = api.store("orders") + "/" + quote(key, safe="").replace(".", "%2E")
    assert (await api.client.put(path, json={"value": 1})).status_code == 204

    assert (await api.get(path))["key"] == key
    assert [entry["key"] for entry in (await api.get(api.store("orders")))["asset_store"]] == [key]
    assert (await api.client.delete(path)).status_code == 204
    assert await api.get(api.store("orders")) == {"asset_store": [], "total_entries": 0}


async def test_a_slash_may_be_encoded_or_not(api: Api) -> None:
    await api.put("orders", "a/b", 1)

    assert (await api.get(api.store("orders") + "/a%2Fb"))["key"] == "a/b"


async def test_entries_are_listed_in_pages(api: Api) -> None:
    for key in "cab":
        await api.put("orders", key, key)

    page = await api.get(api.store("orders"), limit=2, offset=1)

    assert [entry["key"] for entry in page["asset_store"]] == ["b", "c"]
    assert page["total_entries"] == 3
    assert (await api.get(api.store("orders"), limit=0))["asset_store"] == []


async def test_history_is_newest_first_and_continues_after_a_delete(api: Api) -> None:
    await api.put("orders", "a", 1)
    await api.put("orders", "a", 2)
    await api.client.delete(api.store("orders", "a"))
    await api.put("orders", "b", 3)
    await api.put("orders", "a", 4)

    path = f"/api/v2/assets/{api.asset_ids['orders']}/store-history"
    history = await api.get(path, key="a")

    assert history["total_entries"] == 4
    assert [(h["version"], h["value"], h["deleted"]) for h in history["history"]] == [
        (4, 4, False),
        (3, None, True),
        (2, 2, False),
        (1, 1, False),
    ]
    assert all(h["last_updated_by"]["log_url"] for h in history["history"])
    assert (await api.get(path))["total_entries"] == 5
    assert [h["value"] for h in (await api.get(path, limit=1, offset=1))["history"]] == [3]


async def test_if_version_compares_and_sets(api: Api) -> None:
    await api.put("orders", "a", 1, if_version=0)
    await api.put("orders", "a", 2, status=409, if_version=0)
    await api.put("orders", "a", 2, if_version=1)
    await api.put("orders", "a", 3, status=409, if_version=1)
    await api.put("orders", "b", 3, status=409, if_version=7)

    assert (await api.get(api.store("orders", "a")))["value"] == 2
    assert (await api.client.delete(api.store("orders", "a"), params={"if_version": 1})).status_code == 409
    assert (await api.client.delete(api.store("orders", "a"), params={"if_version": 2})).status_code == 204
    assert (await api.client.delete(api.store("orders", "a"))).status_code == 204


async def test_a_change_waits_for_another_change_of_its_key_and_checks_its_result(api: Api) -> None:
    """A refused write is not audited."""
    path, asset_id = api.store("orders", "a"), api.asset_ids["orders"]
    answers = dict[int, int]()

    async def put(version: int) -> None:
        answer = await api.client.put(path, json={"value": version, "if_version": version})
        answers[version] = answer.status_code

    async with anyio.create_task_group() as tasks, api.database.transaction() as connection:
        asset = await assets.reference(connection, asset_id)
        change = EntryChange(asset=asset, key="a", value='"first"', writer=None)
        assert await AttributedEntries(api.database.dialect).apply(connection, change) == 1
        for version in (0, 1):
            tasks.start_soon(put, version)
        if api.database.dialect == "postgresql":
            await until_somebody_waits(api.database, 2)
        assert answers == {}

    assert answers == {0: 409, 1: 204}
    assert (await api.get(path))["version"] == 2
    entries = (await api.get("/api/v2/audit"))["audit"]
    assert [entry["target"] for entry in entries if entry["action"] == "asset_store.set"] == ["orders"]


@pytest.mark.parametrize(
    ("before", "meanwhile", "if_version", "status", "versions"),
    [
        pytest.param("1", "2", None, 204, [1, 2, 3], id="written"),
        pytest.param("1", "2", 1, 409, [1, 2], id="written-expected-as-before"),
        pytest.param("1", "2", 2, 204, [1, 2, 3], id="written-expected-as-now"),
        pytest.param("1", None, None, 204, [1, 2, 3], id="deleted"),
        pytest.param("1", None, 1, 409, [1, 2], id="deleted-expected-as-before"),
        pytest.param("1", None, 0, 204, [1, 2, 3], id="deleted-expected-as-now"),
        pytest.param(None, "2", None, 204, [1, 2], id="made"),
        pytest.param(None, "2", 0, 409, [1], id="made-expected-as-before"),
    ],
)
async def test_a_waiting_write_sees_what_changed_meanwhile(
    api: Api, before: str | None, meanwhile: str | None, if_version: int | None, status: int, versions: list[int]
) -> None:
    path, asset_id = api.store("orders", "a"), api.asset_ids["orders"]
    entries, answers = AttributedEntries(api.database.dialect), list[int]()

    async def change(connection: AsyncConnection, value: str | None) -> None:
        asset = await assets.reference(connection, asset_id)
        await entries.apply(connection, EntryChange(asset=asset, key="a", value=value, writer=None))

    async def put() -> None:
        answer = await api.client.put(path, json={"value": "mine", "if_version": if_version})
        answers.append(answer.status_code)

    if before is not None:
        async with api.database.transaction() as connection:
            await change(connection, before)
    async with anyio.create_task_group() as tasks, api.database.transaction() as connection:
        await change(connection, meanwhile)
        tasks.start_soon(put)
        if api.database.dialect == "postgresql":
            await until_somebody_waits(api.database)
        assert answers == []

    assert answers == [status]
    history = (await api.get(f"/api/v2/assets/{asset_id}/store-history?key=a"))["history"]
    assert sorted(row["version"] for row in history) == versions
    response = await api.client.get(path)
    if status == 204:
        assert (response.json()["value"], response.json()["version"]) == ("mine", versions[-1])
    else:
        assert response.status_code == 404 if meanwhile is None else response.json()["value"] == 2
    acts = [entry["action"] for entry in (await api.get("/api/v2/audit"))["audit"]]
    assert acts == ["asset_store.set"] * (status == 204), "and what was refused is in no audit"


async def test_a_write_waits_for_the_lock_of_its_key_and_then_decides_the_value(api: Api) -> None:
    path, asset_id = api.store("orders", "a"), api.asset_ids["orders"]
    entries, answers = AttributedEntries(api.database.dialect), list[int]()
    await api.put("orders", "a", 1)

    async def put() -> None:
        answers.append((await api.client.put(path, json={"value": "mine", "if_version": 1})).status_code)

    async with anyio.create_task_group() as tasks, api.database.transaction() as connection:
        asset = await assets.reference(connection, asset_id)
        lock = await entries.lock(connection, asset_id, ["a"])
        tasks.start_soon(put)
        if api.database.dialect == "postgresql":
            await until_somebody_waits(api.database)
        await entries.apply(connection, EntryChange(asset=asset, key="a", value="2", writer=None, lock=lock))
        assert answers == []

    assert answers == [409]
    assert (await api.get(path))["value"] == 2


async def test_only_its_watcher_writes_a_watermark(api: Api) -> None:
    scope = AssetScope(asset_id=api.asset_ids["landing"])
    writer = Writer(kind=AssetStoreWriterKind.WATCHER, watcher="landing_files", write_id="w1")
    await MetastoreStoreBackend(api.database).aset_asset_store(
        scope, "landing_files.watermark", '"up to here"', writer=writer
    )
    await api.put("landing", "other", 1)
    path = api.store("landing", "landing_files.watermark")

    refused = await api.client.put(path, json={"value": 1})

    assert refused.status_code == 409
    assert "POST /api/v2/watchers/landing_files/rewind" in refused.json()["detail"]
    assert (await api.client.delete(path)).status_code == 409
    assert (await api.client.delete(api.store("landing"))).status_code == 204
    left = (await api.get(api.store("landing")))["asset_store"]
    assert [(e["key"], e["value"], e["version"]) for e in left] == [("landing_files.watermark", "up to here", 1)]
    assert left[0]["last_updated_by"]["log_url"] == "/api/v2/watchers/landing_files/logs?around=w1"


async def test_an_inactive_asset_can_be_read_and_cleared_but_not_written(api: Api) -> None:
    await api.put("orders", "a", 1)
    async with api.database.transaction() as session:
        await session.execute(update(schema.asset).where(schema.asset.c.name == "orders").values(active=False))

    await api.put("orders", "a", 2, status=409)

    assert (await api.get(api.store("orders", "a")))["value"] == 1
    assert (await api.client.delete(api.store("orders"))).status_code == 204


async def test_unknown_assets_and_keys_are_not_found(api: Api) -> None:
    for asset_id in (0, 999_999, 2**63, 10**30, -1):
        for method, suffix in (("GET", ""), ("DELETE", ""), ("GET", "/k"), ("PUT", "/k"), ("DELETE", "/k")):
            answer = await api.client.request(
                method, f"/api/v2/assets/{asset_id}/store{suffix}", json={"value": 1} if method == "PUT" else None
            )
            assert answer.status_code == 404, (asset_id, method, suffix, answer.text)
            assert isinstance(answer.json()["detail"], str)
    await api.get(api.store("orders", "nothing"), status=404)


async def test_the_limit_counts_characters_of_ascii_json(api: Api) -> None:
    await api.put("orders", "a", "x" * 65533)
    await api.put("orders", "a", "x" * 65534, status=422)
    await api.put("orders", "a", "é" * 20000, status=422)


async def test_a_plain_set_keeps_the_writer_and_loses_the_link(api: Api) -> None:
    await api.put("orders", "a", 1)
    await MetastoreStoreBackend(api.database).aset(AssetScope(name="orders"), "a", "2")

    by = (await api.get(api.store("orders", "a")))["last_updated_by"]

    assert (by["kind"], by["actor"], by["write_id"], by["log_url"]) == ("api", "anonymous", None, None)


async def test_an_entry_written_without_a_writer_has_none(api: Api) -> None:
    await MetastoreStoreBackend(api.database).aset(AssetScope(name="orders"), "a", "1")

    assert (await api.get(api.store("orders", "a")))["last_updated_by"] is None


async def test_base_url_is_put_before_links(api: Api) -> None:
    await api.put("orders", "a", 1)
    async with serving(adapted(api.context, base_url="https://watcher.example/aw/")) as client:
        entry = (await client.get(api.store("orders", "a"))).json()

    assert entry["last_updated_by"]["log_url"].startswith("https://watcher.example/aw/api/v2/audit?write_id=")


async def test_the_same_store_under_airflows_path_with_exactly_its_fields(api: Api) -> None:
    path = f"/api/v2/assets/{api.asset_ids['orders']}/state-store"
    assert (await api.client.put(f"{path}/a/b", json={"value": [1]})).status_code == 204

    entry = await api.get(f"{path}/a%2Fb")

    assert list(entry) == ["key", "value", "updated_at", "last_updated_by"]
    assert entry["last_updated_by"] == {
        "kind": "api",
        "dag_id": None,
        "run_id": None,
        "task_id": None,
        "map_index": None,
    }
    assert await api.get(path) == {"asset_state_store": [entry], "total_entries": 1}
    assert (await api.get(api.store("orders", "a/b")))["value"] == [1]
    assert (await api.client.put(f"{path}/a", json={"value": 1, "if_version": 0})).status_code == 422
    assert (await api.client.delete(f"{path}/a/b")).status_code == 204
    assert (await api.client.delete(path)).status_code == 204
    assert (await api.get(path))["total_entries"] == 0


async def test_writes_are_counted_by_kind(api: Api) -> None:
    await api.put("orders", "a", 1)
    await api.put("orders", "a", None, status=422)

    text = (await api.client.get("/metrics")).text

    assert 'watcher_store_writes_total{kind="api"} 1.0' in text
    assert 'watcher_errors_total{asset="landing",watcher="landing_files"} 0.0' in text
