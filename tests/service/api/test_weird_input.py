"""Every request gets a proper answer: never a 500, and always `{"detail": …}` for a refusal."""

from __future__ import annotations

from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.service.api.application import Api, as_json

pytestmark = pytest.mark.parametrize(
    "dialect", ["postgresql", pytest.param("sqlite", marks=pytest.mark.slow)], indirect=True
)

LONE = '"\\ud800"'
VALUES = {
    "null": 422,
    "NaN": 422,
    "Infinity": 422,
    "-Infinity": 422,
    "1e400": 422,
    LONE: 422,
    '{"\\udc00": 1}': 422,
    '"\\ud83d\\ude00"': 204,
    '"\\u0000"': 204,
    '""': 204,
    "0": 204,
    "false": 204,
    "[]": 204,
    "-0.0": 204,
    "1" * 4000: 204,
    "1" * 5000: 400,
    "[" * 190 + "]" * 190: 204,
    "[" * 250 + "]" * 250: 422,
    "[" * 5000 + "]" * 5000: 400,
    '{"a": ' * 190 + "1" + "}" * 190: 204,
}


def refused_well(answer: httpx.Response) -> bool:
    return answer.headers["content-type"] == "application/json" and set(answer.json()) == {"detail"}


async def test_unusual_values_of_people_are_stored_or_refused(api: Api) -> None:
    """Every stored value can be read, alone and in the list."""
    path = api.store("orders", "k")
    statuses = {}
    for value in VALUES:
        answer = await api.client.put(path, **body_of(value))
        statuses[value] = answer.status_code
        if answer.is_success:
            assert len((await api.get(api.store("orders")))["asset_store"]) == 1
            await api.get(path)
        else:
            assert refused_well(answer)
    assert statuses == VALUES


async def test_unusual_values_of_jobs_are_stored_or_refused(api: Api) -> None:
    one = await api.start_try()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {one.token}"}
    by_name = "/execution/store/asset/by-name/value?name=orders&key=k"
    for path in (by_name, f"/execution/store/ti/{one.task_instance_id}/k"):
        statuses = {}
        for value in VALUES:
            answer = await api.client.put(path, content=f'{{"value": {value}}}', headers=headers)
            statuses[value] = answer.status_code
            if answer.is_success:
                assert (await api.client.get(path, headers=headers)).is_success, value
        assert statuses == VALUES


async def test_unusual_values_of_transactions_are_stored_or_refused(api: Api) -> None:
    one = await api.start_try()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {one.token}"}
    statuses = {}
    for ordinal, value in enumerate(VALUES):
        body = f'{{"asset": "orders", "ordinal": {ordinal}, "set": {{"k": {value}}}}}'
        answer = await api.client.post("/execution/store/asset/transaction", content=body, headers=headers)
        statuses[value] = 204 if answer.status_code == 200 else answer.status_code
        body = f'{{"asset": "orders", "ordinal": {ordinal}, "set": {{}}, "increment": {{"k": {value}}}}}'
        added = await api.client.post("/execution/store/asset/transaction", content=body, headers=headers)
        assert added.status_code in {200, 400, 422}, added.text
        assert added.is_success or refused_well(added)
    assert statuses == VALUES


def body_of(value: str) -> dict[str, Any]:
    return {"content": f'{{"value": {value}}}', "headers": {"Content-Type": "application/json"}}


BODIES = [
    "",
    "{",
    "nonsense",
    "[]",
    "1",
    '"x"',
    "null",
    "{}",
    '{"value": 1, "more": 1}',
    '{"value": 1, "if_version": -1}',
    '{"value": 1, "if_version": 99999999999999999999999}',
    '{"value": 1, "if_version": NaN}',
    '{"value": 1, "if_version": true}',
    '{"value": 1, "if_version": "1"}',
    '{"value": 1, "if_version": "\\ud800"}',
    '{"value": 1, "\\ud800": 1}',
    f'{{"value": 1, "if_version": {"9" * 4400}}}',
]


async def test_invalid_bodies_are_refused(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    for body in BODIES:
        answer = await api.client.put(api.store("orders", "k"), content=body, headers=headers)
        assert answer.status_code in {400, 422}, (body, answer.text)
        assert refused_well(answer)


async def test_a_body_without_its_type_is_refused(api: Api) -> None:
    answer = await api.client.put(api.store("orders", "k"), content='{"value": 1}')

    assert answer.status_code == 422
    assert refused_well(answer)


BAD_KEYS = ["", "\0", "a\0b", "\x7f", "x" * 513, "\n", "a\tb"]


async def test_invalid_keys_are_refused(api: Api) -> None:
    one = await api.start_try()
    headers = {"Authorization": f"Bearer {one.token}", "Content-Type": "application/json"}
    paths = (
        f"{api.store('orders')}/",
        "/execution/store/asset/by-name/value?name=orders&key=",
        f"/execution/store/ti/{one.task_instance_id}/",
    )
    for method, path, key in product(("GET", "PUT", "DELETE"), paths, BAD_KEYS):
        body = {"content": '{"value": 1}'} if method == "PUT" else {}
        answer = await api.client.request(method, path + quote(key, safe=""), headers=headers, **body)
        assert answer.status_code in {404, 422}, (method, path, key, answer.text)
        assert refused_well(answer)


NUMBERS = ["-1", str(2**31), str(2**63 - 1), str(2**63), "9" * 5000, "1.5", "x", "", "NaN", "٣"]
ADDRESSES = [
    "/api/v2/assets/{}",
    "/api/v2/assets?limit={}",
    "/api/v2/assets?offset={}",
    "/api/v2/assets/{}/store-history",
    "/api/v2/assets/1/store?limit={}&offset={}",
    "/api/v2/assets/1/store-history?offset={}",
    "/api/v2/assets/events/{}",
    "/api/v2/assets/events?asset_id={}",
    "/api/v2/assets/events?source_map_index={}",
    "/api/v2/assets/events?limit={}",
    "/api/v2/dags?offset={}",
    "/api/v2/dags/load_orders/dagRuns?limit={}",
    "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load?map_index={}",
    "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/{}",
    "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1?map_index={}",
    "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1?token={}",
    "/api/v2/watchers/landing_files/logs?before={}",
    "/api/v2/audit?offset={}",
]


async def test_unusual_numbers_in_addresses_are_answered_or_refused(api: Api) -> None:
    await api.start_try()
    for address, number in product(ADDRESSES, NUMBERS):
        answer = await api.client.get(address.replace("{}", quote(number)))
        assert answer.status_code in {200, 404, 405, 422}, (address, number, answer.text)
        assert answer.status_code == 200 or refused_well(answer)


WORDS = [
    "\0",
    "a\0",
    "%",
    "\\",
    "_%\\",
    "a|\\",
    "|",
    "~",
    "'",
    '"; DROP TABLE asset; --',
    "é" * 300,
    "x" * 2000,
    "\ufffd",
]
WORD_ADDRESSES = [
    "/api/v2/assets?name_pattern={}",
    "/api/v2/assets?name_prefix_pattern={}",
    "/api/v2/assets?uri_pattern={}",
    "/api/v2/assets?dag_ids={}",
    "/api/v2/assets?only_active={}",
    "/api/v2/assets?unknown={}",
    "/api/v2/assets/1/store-history?key={}",
    "/api/v2/assets/events?source_dag_id={}&source_watcher={}",
    "/api/v2/assets/events?name_pattern={}",
    "/api/v2/assets/events?timestamp_gte={}",
    "/api/v2/dags/{}",
    "/api/v2/dags?dag_id_pattern={}",
    "/api/v2/dags/{}/dagRuns",
    "/api/v2/dags/load_orders/dagRuns?state={}&run_type={}",
    "/api/v2/dags/load_orders/dagRuns?run_id_prefix_pattern={}",
    "/api/v2/dags/load_orders/dagRuns/{}",
    "/api/v2/dags/load_orders/dagRuns/{}/taskInstances/{}/logs/1",
    "/api/v2/watchers/{}",
    "/api/v2/watchers/{}/logs",
    "/api/v2/watchers/landing_files/logs?around={}",
    "/api/v2/audit?write_id={}",
    "/nowhere/{}",
]


async def test_unusual_words_in_addresses_are_answered_or_refused(api: Api) -> None:
    for address, word in product(WORD_ADDRESSES, WORDS):
        answer = await api.client.get(address.replace("{}", quote(word, safe="")))
        assert answer.status_code in {200, 404, 422}, (address, word, answer.text)
        assert answer.status_code == 200 or refused_well(answer)


MOMENTS = [
    "2026-01-01",
    "2026-01-01T00:00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "now",
    "1e400",
    "0.5",
    "1700000000",
    "-5",
]


async def test_times_without_a_zone_or_outside_the_calendar_are_refused(api: Api) -> None:
    one = await api.start_try()
    for moment in MOMENTS:
        answer = await api.client.get("/api/v2/assets/events", params={"timestamp_gte": moment})
        assert answer.status_code == 422, moment
        put = await one.call("PUT", f"store/ti/{one.task_instance_id}/k", body={"value": 1, "expires_at": moment})
        assert put.status_code == 422, moment


async def test_unknown_orders_are_named(api: Api) -> None:
    for path in ("/api/v2/assets", "/api/v2/assets/events", "/api/v2/dags", "/api/v2/dags/load_orders/dagRuns"):
        answer = await api.client.get(path, params={"order_by": "nonsense"})
        assert answer.status_code == 400
        assert "nonsense" in answer.json()["detail"]
    assert (await api.client.get("/api/v2/assets/events", params={"order_by": "id"})).status_code == 400


RUNS: list[tuple[Any, int]] = [
    ({}, 422),
    ({"logical_date": None, "dag_run_id": "a/b"}, 400),
    ({"logical_date": None, "dag_run_id": "a..b"}, 400),
    ({"logical_date": None, "dag_run_id": ".a"}, 400),
    ({"logical_date": None, "dag_run_id": ""}, 400),
    ({"logical_date": None, "dag_run_id": "scheduled__x"}, 400),
    ({"logical_date": None, "dag_run_id": "asset_triggered__x"}, 400),
    ({"logical_date": None, "dag_run_id": "x" * 251}, 422),
    ({"logical_date": None, "dag_run_id": "a\0"}, 422),
    ({"logical_date": None, "note": "\ud800"}, 422),
    ({"logical_date": None, "note": "a\0b"}, 422),
    ({"logical_date": None, "conf": {"a": "\ud800"}}, 422),
    ({"logical_date": None, "conf": []}, 422),
    ({"logical_date": None, "partition_key": " "}, 422),
    ({"logical_date": None, "partition_key": "x" * 251}, 422),
    ({"logical_date": None, "partition_key": "a\0b"}, 422),
    ({"logical_date": None, "run_after": "2999-01-01T00:00:00Z"}, 422),
    ({"logical_date": "2026-01-01"}, 422),
    ({"logical_date": 1700000000}, 422),
    ({"logical_date": None, "note": 1}, 422),
    ({"logical_date": None, "nonsense": 1}, 422),
]


async def test_invalid_run_requests_are_refused(api: Api) -> None:
    await refused_as_listed(api, "/api/v2/dags/load_orders/dagRuns", RUNS)

    assert (await api.get("/api/v2/dags/load_orders/dagRuns"))["total_entries"] == 0


async def refused_as_listed(api: Api, path: str, cases: list[tuple[Any, int]]) -> None:
    for body, status in cases:
        answer = await api.client.post(path, **as_json(body))
        assert answer.status_code == status, (body, answer.text)
        assert refused_well(answer)


EVENTS: list[tuple[Any, int]] = [
    ({}, 422),
    ({"asset_id": 999}, 404),
    ({"asset_id": 2**63}, 404),
    ({"asset_id": -1}, 404),
    ({"asset_id": 1, "extra": None}, 422),
    ({"asset_id": 1, "extra": {"a": "\ud800"}}, 422),
    ({"asset_id": 1, "extra": []}, 422),
    ({"asset_id": 1, "partition_key": ""}, 422),
    ({"asset_id": 1, "partition_key": "x" * 251}, 422),
    ({"asset_id": 1, "partition_key": 1}, 422),
    ({"asset_id": None}, 422),
    ({"asset_id": True}, 422),
    ({"asset_id": "1"}, 422),
    ({"asset_id": 1.0}, 422),
]


async def test_invalid_events_are_refused(api: Api) -> None:
    await refused_as_listed(api, "/api/v2/assets/events", EVENTS)

    assert (await api.get("/api/v2/assets/events"))["total_entries"] == 0


async def test_only_a_boolean_pauses_a_job(api: Api) -> None:
    for paused in (0, 1, "true", None, [], 1.0):
        answer = await api.client.patch("/api/v2/dags/load_orders", **as_json({"is_paused": paused}))
        assert answer.status_code == 422, paused


TRIES: list[tuple[str, Any]] = [
    ("claim", {}),
    ("claim", {"nonce": ""}),
    ("claim", {"nonce": "x" * 65}),
    ("claim", {"nonce": "a\0b"}),
    ("claim", {"nonce": "\ud800"}),
    ("finish", {}),
    ("finish", {"state": "removed"}),
    ("finish", {"state": "success", "message": "a\0b"}),
    ("finish", {"state": "success", "message": "\ud800"}),
    ("finish", {"state": "success", "outlet_events": [{"asset": "orders", "extra": {"a": "\ud800"}}]}),
    ("finish", {"state": "success", "outlet_events": [{"asset": "orders", "extra": None}]}),
    ("finish", {"state": "success", "outlet_events": [{"alias": "daily", "asset": {"name": "x", "uri": "s3://"}}]}),
    ("finish", {"state": "success", "outlet_events": [{}]}),
    ("progress", {"stages": -1, "tasks": 0, "tasks_done": 0}),
    ("progress", {"stages": 2**31, "tasks": 0, "tasks_done": 0}),
    ("progress", {"stages": "x", "tasks": None}),
    ("progress", {"stages": "1", "tasks": 1, "tasks_done": True}),
]


async def test_invalid_reports_of_tries_are_refused(api: Api) -> None:
    one = await api.start_try()
    for what, body in TRIES:
        answer = await one.call("POST", f"tries/{what}", body=body)
        assert answer.status_code == 422, (what, body, answer.text)
        assert refused_well(answer)
    assert (await api.get("/api/v2/dags/load_orders/dagRuns/manual__1"))["state"] == "running"


async def test_bodies_over_the_limit_are_refused(api: Api) -> None:
    one = await api.start_try()
    answer = await api.client.put(
        api.store("orders", "k"), content=b" " * 1_200_000, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 413
    assert refused_well(answer)
    assert (await one.put("orders", "k", "x" * 2_000_000)).status_code == 204
    assert (await one.put("orders", "k", "x" * 17_000_000)).status_code == 413


async def test_unknown_routes_and_methods_are_refused(api: Api) -> None:
    assert (await api.client.get("/nowhere")).json() == {"detail": "Not Found"}
    wrong = await api.client.patch("/api/v2/assets")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert wrong.headers["Allow"] == "GET"
    of_task = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load"
    for path, allowed in (
        (api.store("orders", "k"), "DELETE, GET, PUT"),
        (f"{of_task}/-1", "GET, PATCH"),
        (f"{of_task}/links", "GET"),
        ("/execution/store/asset/by-name/value", "DELETE, GET, PUT"),
        ("/healthz", "GET"),
    ):
        wrong = await api.client.request("TRACE", path)
        assert (wrong.status_code, wrong.headers["Allow"]) == (405, allowed)
    assert (await api.client.patch(f"{of_task}/links", json={})).status_code == 405
