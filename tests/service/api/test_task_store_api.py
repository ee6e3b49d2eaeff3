"""The store of a task instance under Airflow 3.3's path behaves as Airflow was observed to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from store.database import schema
from tests.service.api.application import Api, claimed

PATH = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/state-store"


@pytest.fixture
async def task(api: Api) -> str:
    """Return the path of the store of a task instance."""
    await claimed(api)
    return PATH


async def put(api: Api, key: str, value: Any, status: int = 204, **more: Any) -> None:
    answer = await api.client.put(f"{PATH}/{key}", json={"value": value, **more})
    assert answer.status_code == status, answer.text


async def test_an_entry_has_exactly_airflows_fields(api: Api, task: str) -> None:
    await put(api, "a/b", {"n": 1})

    entry = await api.get(f"{task}/a%2Fb")
    assert set(entry) == {"key", "value", "updated_at", "expires_at"}
    assert (entry["key"], entry["value"]) == ("a/b", {"n": 1})
    assert await api.get(task) == {"task_state_store": [entry], "total_entries": 1}
    assert await api.get(task, limit=0) == {"task_state_store": [], "total_entries": 1}


async def test_the_expiry_is_the_default_never_or_a_time(api: Api, task: str) -> None:
    await put(api, "absent", 1)
    await put(api, "default", 1, expires_at="default")
    await put(api, "never", 1, expires_at=None)
    await put(api, "then", 1, expires_at="2999-01-01T01:00:00+01:00")
    await put(api, "past", 1, expires_at="2000-01-01T00:00:00Z")
    await put(api, "naive", 1, status=422, expires_at="2999-01-01T00:00:00")
    await put(api, "word", 1, status=422, expires_at="soon")

    kept = {entry["key"]: entry["expires_at"] for entry in (await api.get(task))["task_state_store"]}
    assert set(kept) == {"absent", "default", "never", "then"}
    assert (kept["never"], kept["then"]) == (None, "2999-01-01T00:00:00Z")
    for key in ("absent", "default"):
        left = datetime.fromisoformat(kept[key]) - datetime.now(UTC)
        assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    await api.get(f"{task}/past", 404)


async def test_patch_answers_null_and_keeps_the_expiry(api: Api, task: str) -> None:
    await put(api, "k", 1, expires_at="2999-01-01T00:00:00Z")
    answer = await api.client.patch(f"{task}/k", json={"value": [2]})

    assert (answer.status_code, answer.json()) == (200, None)
    entry = await api.get(f"{task}/k")
    assert (entry["value"], entry["expires_at"]) == ([2], "2999-01-01T00:00:00Z")
    assert (await api.client.patch(f"{task}/nothing", json={"value": 1})).status_code == 404
    assert (await api.client.patch(f"{task}/k", json={"value": 1, "expires_at": None})).status_code == 422


async def test_delete_and_clear_do_nothing_without_entries(api: Api, task: str) -> None:
    for key in ("a", "b", "c"):
        await put(api, key, 1)
    for path in (f"{task}/a", f"{task}/a", task, task):
        assert (await api.client.delete(path)).status_code == 204
    assert (await api.get(task))["total_entries"] == 0


async def test_mapped_siblings_have_separate_stores(api: Api, task: str) -> None:
    ids = {"dag_id": "load_orders", "run_id": "manual__1", "task_id": "load"}
    async with api.database.transaction() as session:
        await session.execute(insert(schema.task_instance).values(id="s", map_index=3, state="queued", **ids))
    await put(api, "k", "unmapped")
    assert (await api.client.put(f"{task}/k", params={"map_index": 3}, json={"value": 3})).status_code == 204
    assert (await api.get(f"{task}/k", map_index=3))["value"] == 3
    assert (await api.get(f"{task}/k"))["value"] == "unmapped"

    assert (await api.client.delete(task, params={"all_map_indices": True})).status_code == 204
    assert (await api.get(task, map_index=3))["total_entries"] == (await api.get(task))["total_entries"] == 0


async def test_an_unknown_task_instance_is_not_found_but_its_list_is_empty(api: Api, task: str) -> None:
    for path, query in ((task.replace("manual__1", "x"), {}), (task, {"map_index": 7})):
        assert await api.get(path, **query) == {"task_state_store": [], "total_entries": 0}
        for method, where, body in (
            ("GET", f"{path}/k", None),
            ("PUT", f"{path}/k", {"value": 1}),
            ("PATCH", f"{path}/k", {"value": 1}),
            ("DELETE", f"{path}/k", None),
            ("DELETE", path, None),
        ):
            answer = await api.client.request(method, where, params=query, json=body)
            assert answer.status_code == 404, (method, answer.text)
    assert (await api.client.get(task, params={"map_index": -2})).status_code == 422


async def test_invalid_values_and_keys_change_nothing(api: Api, task: str) -> None:
    await put(api, "k", "before")
    headers = {"Content-Type": "application/json"}
    for value in ("null", "NaN", "1e400", '"\\ud800"', f'"{"x" * 65_534}"', "[" * 300 + "]" * 300):
        for method in ("PUT", "PATCH"):
            content = f'{{"value": {value}}}'
            answer = await api.client.request(method, f"{task}/k", content=content, headers=headers)
            assert answer.status_code in {400, 422}, (method, value[:20], answer.text)
    for key in ("x" * 513, "a%09b", "%7F"):
        await put(api, key, 1, status=422)
    assert [entry["value"] for entry in (await api.get(task))["task_state_store"]] == ["before"]


async def test_every_change_is_audited_with_its_actor(api: Api, task: str) -> None:
    await put(api, "k", 1)
    await api.client.patch(f"{task}/k", json={"value": 2})
    await api.client.delete(f"{task}/k")
    await api.client.delete(task)

    audit = (await api.get("/api/v2/audit"))["audit"]
    assert [entry["action"] for entry in reversed(audit)] == [
        "task_store.set",
        "task_store.change",
        "task_store.delete",
        "task_store.clear",
    ]
    assert {(entry["actor"], entry["target"]) for entry in audit} == {("anonymous", "load_orders/manual__1/load/-1")}


async def test_viewers_read_and_only_admins_write(guarded: Api) -> None:
    assert (await guarded.client.get(PATH)).status_code == 401
    assert (await guarded.client.put(f"{PATH}/k", json={"value": 1})).status_code == 401


async def test_a_reference_is_shown_as_a_reference(api: Api) -> None:
    one = await claimed(api)
    own = f"store/ti/{one.task_instance_id}"
    await one.done("PUT", f"{own}/big", body={"value": "s3://refs/1", "is_ref": True})
    await one.done("PUT", f"{own}/plain", body={"value": "s3://refs/1"})

    assert await one.done("GET", f"{own}/big") == {"value": "s3://refs/1", "is_ref": True}
    assert await one.done("GET", f"{own}/plain") == {"value": "s3://refs/1"}
    assert await one.done("GET", own) == {"references": {"big": "s3://refs/1"}}
    assert await one.done("GET", own, query={"what": "keys"}) == {"keys": ["big", "plain"]}
    assert (await api.get(f"{PATH}/big"))["is_ref"] is True
    assert "is_ref" not in await api.get(f"{PATH}/plain")
    await api.client.patch(f"{PATH}/big", json={"value": "a value"})
    assert await one.done("GET", f"{own}/big") == {"value": "a value"}
