"""A job without an answer repeats its write with the same key. It gets the missed answer, and nothing happens twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest
from sqlalchemy import select, update

from store.database import Database, schema
from store.keys import TryRef
from store.runs.tries import tries
from tests.databases import on_both, statements_of
from tests.service.api.application import Api, Try, claimed, superseded
from tests.service.store.words import until_somebody_waits
from watcher.serving.api import create_app

BY_NAME = {"name": "orders", "key": "k"}
BY_URI = {"uri": "s3://bucket/orders", "key": "k"}
WRITES: Mapping[tuple[str, str], tuple[Any, Any]] = {
    ("PUT", "store/asset/by-name/value"): (BY_NAME, {"value": 1}),
    ("PUT", "store/asset/by-uri/value"): (BY_URI, {"value": 1}),
    ("DELETE", "store/asset/by-name/value"): (BY_NAME, None),
    ("DELETE", "store/asset/by-uri/value"): (BY_URI, None),
    ("DELETE", "store/asset/by-name/clear"): ({"name": "orders"}, None),
    ("DELETE", "store/asset/by-uri/clear"): ({"uri": "s3://bucket/orders"}, None),
    ("POST", "store/asset/transaction"): (
        None,
        {"asset": "orders", "ordinal": 1, "set": {"k": 1}, "increment": {"n": 1}},
    ),
    ("PUT", "store/ti/{task_instance_id}/{key}"): (None, {"value": 1}),
    ("DELETE", "store/ti/{task_instance_id}/{key}"): (None, None),
    ("DELETE", "store/ti/{task_instance_id}"): (None, None),
    ("POST", "superseded"): (None, {"paths": ["in/a.csv"]}),
    ("POST", "tries/claim"): (None, {"nonce": "n"}),
    ("POST", "tries/progress"): (None, {"stages": 3, "tasks": 2, "tasks_done": 1}),
    ("POST", "tries/finish"): (None, {"state": "success", "outlet_events": [{"asset": "orders", "extra": {"n": 1}}]}),
}
"""The query and body of every writing call."""
UNKEYED = {("POST", "tries/token"), ("POST", "tries/renewal")}
"""The calls of which each repetition counts: a new token, a try that is alive now."""


async def keyed(one: Try, key: str, method: str, path: str, query: Any = None, body: Any = None) -> httpx.Response:
    """Make a call like the SDK."""
    address = "/execution/" + path.format(task_instance_id=one.task_instance_id, key="a%2Fb")
    headers = {"Authorization": f"Bearer {one.token}", "Idempotency-Key": key, "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body)
    return await one.client.request(method, address, params=query, headers=headers, content=content)


async def everything(database: Database) -> Mapping[str, list[Any]]:
    """Return all rows of the tables."""
    async with database.reading() as session:
        tables = schema.metadata.sorted_tables
        return {table.name: sorted(map(repr, (await session.execute(select(table))).all())) for table in tables}


async def test_every_writing_call_is_covered_here(api: Api) -> None:
    calls = {
        (method.upper(), path.removeprefix("/execution/"))
        for path, methods in create_app(api.context).openapi()["paths"].items()
        for method in methods
        if path.startswith("/execution/") and method != "get"
    }
    assert calls == WRITES.keys() | UNKEYED


@pytest.mark.parametrize("write", WRITES, ids=" ".join)
async def test_a_repetition_gets_the_same_answer_and_changes_nothing(api: Api, write: tuple[str, str]) -> None:
    one = await claimed(api)
    await one.put("orders", "k", "before")
    await one.call("PUT", f"store/ti/{one.task_instance_id}/a%2Fb", body={"value": "before"})

    first = await keyed(one, "the key", *write, *WRITES[write])
    assert first.is_success, first.text
    await api.put("orders", "k", "since then")
    await api.client.patch(
        "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/state-store/a%2Fb", json={"value": "since then"}
    )
    before = await everything(api.database)
    again = await keyed(one, "the key", *write, *WRITES[write])

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers.get("content-type") == first.headers.get("content-type") or not first.content
    assert await everything(api.database) == before


async def test_the_stored_answer_survives_the_end_of_the_try(api: Api) -> None:
    one = await claimed(api)
    written = await keyed(one, "a", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})
    finished = await keyed(one, "b", "POST", "tries/finish", None, {"state": "success"})

    assert (written.status_code, finished.json()) == (204, {})
    for key, call in (
        ("a", ("PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})),
        ("b", ("POST", "tries/finish", None, {"state": "success"})),
    ):
        assert (await keyed(one, key, *call)).is_success
    assert (await keyed(one, "c", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 2})).status_code == 409


OTHERS: list[tuple[str, str, Any, Any]] = [
    ("PUT", "store/asset/by-name/value", BY_NAME, {"value": 2}),
    ("PUT", "store/asset/by-name/value", {**BY_NAME, "key": "other"}, {"value": 1}),
    ("PUT", "store/asset/by-uri/value", BY_URI, {"value": 1}),
    ("DELETE", "store/asset/by-name/value", BY_NAME, None),
    ("POST", "tries/finish", None, {"state": "failed"}),
]


async def test_a_key_identifies_one_request(api: Api) -> None:
    one = await claimed(api)
    await keyed(one, "the key", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})
    before = await everything(api.database)

    for other in OTHERS:
        answer = await keyed(one, "the key", *other)

        assert (answer.status_code, answer.json()["detail"]["reason"]) == (422, "invalid"), other
        assert "key of its own" in answer.json()["detail"]["message"]
        assert await everything(api.database) == before


async def test_a_refusal_that_changed_nothing_is_not_stored(api: Api) -> None:
    one = await claimed(api)
    for query, body in (({**BY_NAME, "name": "private"}, {"value": 1}), (BY_NAME, {"value": None})):
        assert not (await keyed(one, "the key", "PUT", "store/asset/by-name/value", query, body)).is_success

    assert (await keyed(one, "the key", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})).status_code == 204


async def test_a_superseded_try_leaves_no_answer(api: Api) -> None:
    old, new = await superseded(api)

    assert (await keyed(old, "k", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})).status_code == 409
    assert (await keyed(new, "k", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 2})).status_code == 204


async def test_keys_belong_to_their_task_instance(api: Api) -> None:
    for number, run_id in enumerate(("manual__1", "manual__2")):
        one = await claimed(api, run_id)
        body = {"value": number}
        assert (await keyed(one, "k", "PUT", "store/asset/by-name/value", BY_NAME, body)).status_code == 204

    assert (await api.get(api.store("orders", "k")))["version"] == 2


@pytest.mark.parametrize(
    "call",
    [
        ("PUT", "store/asset/by-name/value", BY_NAME, {"value": 1}),
        (
            "POST",
            "store/asset/transaction",
            None,
            {"asset": "orders", "ordinal": 1, "reads": {"k": 0}, "set": {"k": 1}},
        ),
    ],
)
async def test_one_of_many_simultaneous_repetitions_takes_effect(api: Api, call: tuple[str, str, Any, Any]) -> None:
    one = await claimed(api)
    answers: list[bytes] = []

    async def send() -> None:
        answer = await keyed(one, "the key", *call)
        assert answer.is_success, answer.text
        answers.append(answer.content)

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(send)

    assert len(set(answers)) == 1
    assert (await api.get(api.store("orders", "k")))["version"] == 1


async def test_without_a_key_no_answer_is_stored(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "k", 1)
    await one.put("orders", "k", 1)

    assert (await everything(api.database))["execution_answer"] == []
    assert (await api.get(api.store("orders", "k")))["version"] == 2


@on_both
async def test_a_write_costs_two_statements_with_or_without_a_key(api: Api) -> None:
    """One statement for the fence and the key, and one for the entry with its history. SQLite needs one for each of these."""
    one = await claimed(api)
    costs = []
    for call in (one.put("orders", "k", 1), keyed(one, "k", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 2})):
        with statements_of(api.database) as sent:
            assert (await call).status_code == 204
        costs.append(len(sent))

    assert costs == ([2, 2] if api.database.dialect == "postgresql" else [3, 4])


async def test_the_length_of_a_key_is_limited(api: Api) -> None:
    one = await claimed(api)

    for key, status in (("", 422), ("x" * 256, 422), ("x" * 255, 204), ('"8e03978e-40d5"', 204)):
        answer = await keyed(one, key, "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})
        assert answer.status_code == status, key


async def test_a_task_of_the_neighbouring_airflow_may_repeat_requests_too(api: Api) -> None:
    one = await claimed(api)
    async with api.database.transaction() as session:
        await session.execute(schema.task_try.delete())
        await session.execute(update(schema.task_instance).values(origin="foreign", state="running"))

    for _ in range(2):
        assert (await keyed(one, "k", "PUT", "store/asset/by-name/value", BY_NAME, {"value": 1})).status_code == 204
    assert (await api.get(api.store("orders", "k")))["version"] == 1


@on_both
async def test_a_request_that_waited_for_the_lock_sees_what_was_decided_meanwhile(api: Api) -> None:
    """The request waits for a row that does not change: the failure of the try is written to another row."""
    one = await claimed(api)
    outcome: list[int] = []

    async def write() -> None:
        outcome.append((await one.put("orders", "k", 1)).status_code)

    async with anyio.create_task_group() as tasks, api.database.transaction() as session:
        await tries.finish(
            session, TryRef(task_instance_id=one.task_instance_id, try_number=1), finish_state="failed", message=None
        )
        tasks.start_soon(write)
        if api.database.dialect == "postgresql":
            await until_somebody_waits(api.database)
    assert outcome == [409]
