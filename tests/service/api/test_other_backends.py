"""A store backend outside the metadata database keeps the values. The state of exactly-once detection stays in the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from sqlalchemy import update

from store.base import AssetScope, AssetStoreWriterKind, TaskScope, Writer
from store.catalog import assets
from store.database import schema
from store.memory import MemoryStoreBackend
from store.metastore import MetastoreStoreBackend
from tests.effort import PATIENCE
from tests.service.api.application import Api, adapted, claimed, serving
from watcher.triggerer.watermark_copies import WatermarkCopies

WATERMARK = "landing_files.watermark"


class Backend(MemoryStoreBackend):
    """A backend that records its scopes and fails a given number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[Any] = []
        self.failures = 0

    async def aset(self, scope: Any, key: str, value: str, **more: Any) -> None:
        self.scopes.append(scope)
        if self.failures:
            self.failures -= 1
            raise OSError("the cable is out")
        await super().aset(scope, key, value, **more)


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def elsewhere(api: Api, backend: Backend) -> AsyncIterator[Api]:
    owed: list[None] = []
    context = adapted(api.context, entries=backend.entries(api.database), on_watermark=lambda *_: owed.append(None))
    async with serving(context) as client:
        yield Api(client, context, api.asset_ids, owed)


async def test_values_of_people_and_jobs_are_stored_only_in_the_backend(
    api: Api, elsewhere: Api, backend: Backend
) -> None:
    one = await claimed(elsewhere)
    await elsewhere.put("orders", "mine", {"by": "me"})
    assert (await one.put("orders", "its", [1])).status_code == 204

    orders = AssetScope(asset_id=api.asset_ids["orders"], name="orders", uri="s3://bucket/orders")
    assert backend.scopes == [orders, orders]
    assert await backend.aget(orders, "its") == "[1]"
    entry = await elsewhere.get(elsewhere.store("orders", "mine"))
    assert entry == {
        "key": "mine",
        "value": {"by": "me"},
        "is_ref": False,
        "updated_at": None,
        "version": None,
        "last_updated_by": None,
    }
    assert await one.done("GET", "store/asset/by-name/value", query={"name": "orders", "key": "mine"}) == {
        "value": {"by": "me"}
    }
    await api.get(api.store("orders", "mine"), 404)
    audited = (await elsewhere.get("/api/v2/audit"))["audit"]
    assert [entry["action"] for entry in audited] == ["asset_store.set"]

    await elsewhere.client.delete(elsewhere.store("orders", "mine"))
    await one.done("DELETE", "store/asset/by-name/clear", query={"name": "orders"})
    assert await backend.aget(orders, "mine") is None
    assert await backend.aget(orders, "its") is None


async def test_what_the_backend_cannot_do_is_refused_and_changes_nothing(elsewhere: Api, backend: Backend) -> None:
    one = await claimed(elsewhere)
    await elsewhere.put("orders", "k", 1, status=422, if_version=1)
    deleted = await elsewhere.client.delete(elsewhere.store("orders", "k"), params={"if_version": 1})
    referred = await one.put("orders", "k", "s3://x", is_ref=True)
    listed = await one.call("GET", "store/asset/by-name/keys", query={"name": "orders"})
    changes = {"asset": "orders", "ordinal": 1, "set": {"k": 1}}
    together = await one.call("POST", "store/asset/transaction", body=changes)

    assert (deleted.status_code, referred.status_code, listed.status_code) == (422, 422, 409)
    assert "keeps no versions" in deleted.text
    assert together.status_code == 422
    assert "Backend has no transactions" in together.text
    assert backend.scopes == []


async def test_a_failing_backend_is_reported_in_a_sentence(elsewhere: Api, backend: Backend) -> None:
    backend.failures = 1
    answer = await elsewhere.client.put(elsewhere.store("orders", "k"), json={"value": 1})

    assert answer.status_code == 503
    assert "Backend failed: the cable is out" in answer.json()["detail"]
    assert (await elsewhere.get("/api/v2/audit"))["audit"] == []


async def test_a_superseded_try_writes_nothing_to_the_backend(elsewhere: Api, backend: Backend) -> None:
    one = await claimed(elsewhere)
    await one.done("POST", "tries/finish", body={"state": "success"})

    assert (await one.put("orders", "k", 1)).status_code == 409
    assert (await one.call("PUT", f"store/ti/{one.task_instance_id}/k", body={"value": 1})).status_code == 409
    assert backend.scopes == []


async def test_the_task_store_is_in_the_backend_too(elsewhere: Api, backend: Backend) -> None:
    one = await claimed(elsewhere)
    own = f"store/ti/{one.task_instance_id}"
    await one.done("PUT", f"{own}/k", body={"value": 1})

    assert await one.done("GET", f"{own}/k") == {"value": 1}
    assert backend.scopes == [TaskScope(dag_id="load_orders", run_id="manual__1", task_id="load")]
    path = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/state-store"
    assert (await elsewhere.get(f"{path}/k"))["value"] == 1
    assert await elsewhere.get(path) == {"task_state_store": [], "total_entries": 0}
    assert (await elsewhere.client.patch(f"{path}/k", json={"value": 2})).status_code == 409
    await one.done("DELETE", own)
    assert (await one.call("GET", f"{own}/k")).status_code == 404


async def write_watermark(api: Api, value: str) -> None:
    writer = Writer(kind=AssetStoreWriterKind.WATCHER, watcher="landing_files", write_id="w")
    scope = AssetScope(asset_id=api.asset_ids["landing"])
    await MetastoreStoreBackend(api.database).aset_asset_store(scope, WATERMARK, value, writer=writer)


async def test_a_watermark_is_read_from_the_metadata_database_and_protected(elsewhere: Api) -> None:
    await write_watermark(elsewhere, '"there"')

    entry = await elsewhere.get(elsewhere.store("landing", WATERMARK))
    assert (entry["value"], entry["last_updated_by"]["watcher"]) == ("there", "landing_files")
    listed = await elsewhere.get(elsewhere.store("landing"))
    assert [one["key"] for one in listed["asset_store"]] == [WATERMARK]
    await elsewhere.put("landing", WATERMARK, "elsewhere", status=409)


async def test_the_newest_watermark_is_copied_and_copied_again_if_lost(elsewhere: Api, backend: Backend) -> None:
    copies = WatermarkCopies(elsewhere.database, backend.entries(elsewhere.database))
    place = (elsewhere.asset_ids["landing"], WATERMARK)
    async with elsewhere.database.reading() as session:
        ref = await assets.ref_of(session, place[0])
    scope = AssetScope(asset_id=ref.id, name=ref.name, uri=ref.uri)
    for value in ('"a"', '"b"'):
        await write_watermark(elsewhere, value)
        copies.mark_dirty(*place)
    backend.failures = 1
    await copies.flush()
    assert await backend.aget(scope, WATERMARK) == '"b"'
    assert [named.name for named in backend.scopes] == ["landing", "landing"]  # a failure, and one copy for two writes

    assert (await elsewhere.client.delete(elsewhere.store("landing"))).status_code == 204
    assert len(elsewhere.wakes) == 1
    copies.mark_dirty(*place)
    await copies.flush()
    assert await backend.aget(scope, WATERMARK) == '"b"'


async def test_every_configured_watermark_is_copied_at_start(elsewhere: Api, backend: Backend) -> None:
    await write_watermark(elsewhere, '"before the crash"')
    async with elsewhere.database.transaction() as session:
        await session.execute(update(schema.watcher).values(active=True))
        ref = await assets.ref_of(session, elsewhere.asset_ids["landing"])
    scope = AssetScope(asset_id=ref.id, name=ref.name, uri=ref.uri)
    copies = WatermarkCopies(elsewhere.database, backend.entries(elsewhere.database))
    async with anyio.create_task_group() as tasks:
        await tasks.start(copies.run)
        with anyio.fail_after(PATIENCE):
            while await backend.aget(scope, WATERMARK) is None:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
