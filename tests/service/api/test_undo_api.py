"""An older value of an entry is restored as a new version, or nothing changes."""

from __future__ import annotations

from typing import Any

from store.processes import audit
from tests.databases import on_both
from tests.service.api.application import Api, claimed
from tests.service.api.test_log_links import written_by_the_watcher

pytestmark = on_both


async def undo(api: Api, key: str, to: int, seen: int, status: int = 200, asset: str = "orders") -> Any:
    body = {"to_version": to, "if_version": seen}
    answer = await api.client.post(f"{api.store(asset, key)}/undo", json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_an_undo_is_a_new_version_written_by_its_actor(api: Api) -> None:
    for value in ({"rows": 1}, {"rows": 2}):
        await api.put("orders", "k", value)

    entry = await undo(api, "k", to=1, seen=2)

    assert (entry["value"], entry["version"]) == ({"rows": 1}, 3)
    by = entry["last_updated_by"]
    assert (by["kind"], by["actor"]) == ("api", "anonymous")
    async with api.database.reading() as connection:
        (done,) = await audit.latest(connection, limit=9, write_id=by["write_id"])
    assert (done.action, done.target) == ("asset_store.undo", "orders")


async def test_a_key_that_ends_in_undo_is_addressed_encoded(api: Api) -> None:
    entry = api.store("orders", "of%2Fundo")
    for number, key in enumerate(("undo", "of%2Fundo", "%2Fundo", "of/undoing")):
        assert (await api.client.put(api.store("orders", key), json={"value": number})).status_code == 204
        assert (await api.get(api.store("orders", key)))["value"] == number
    await api.client.put(entry, json={"value": 5})

    await undo(api, "of%2Fundo", to=1, seen=2)

    assert (await api.get(entry))["value"] == 1
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        refused = await api.client.request(method, api.store("orders", "of/undo"), json={"value": 6})
        assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    refused = await api.client.post(entry, json={"to_version": 1, "if_version": 3})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "DELETE, GET, PUT")
    assert {each["key"] for each in (await api.get(api.store("orders")))["asset_store"]} == {
        "undo",
        "of/undo",
        "/undo",
        "of/undoing",
    }


async def test_an_entry_that_changed_meanwhile_is_kept(api: Api) -> None:
    for value in (1, 2, 3):
        await api.put("orders", "k", value)
    await undo(api, "k", to=1, seen=2, status=409)
    assert (await api.get(api.store("orders", "k")))["value"] == 3


async def test_a_delete_is_undone_and_repeated(api: Api) -> None:
    await api.put("orders", "k", 1)
    await api.client.delete(api.store("orders", "k"))
    assert (await undo(api, "k", to=1, seen=0))["version"] == 3
    await undo(api, "k", to=2, seen=3, status=204)
    await api.get(api.store("orders", "k"), status=404)


async def test_unknown_versions_are_404_and_watermarks_cannot_be_undone(api: Api) -> None:
    await api.put("orders", "k", 1)
    await undo(api, "k", to=7, seen=1, status=404)
    await undo(api, "other", to=1, seen=0, status=404)
    await written_by_the_watcher(api, "w1")
    await undo(api, "landing_files.watermark", to=1, seen=1, status=409, asset="landing")


async def test_a_reference_cannot_be_restored(api: Api) -> None:
    one = await claimed(api)
    assert (await one.put("orders", "k", {"path": "s3://x"}, is_ref=True)).is_success
    await api.put("orders", "k", 2)
    await undo(api, "k", to=1, seen=2, status=409)
