"""A job changes several entries together: all or none, increments once, and no change is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
from sqlalchemy import update

from store.base import AssetScope
from store.catalog.catalog_sync import Declared, apply
from store.database import schema
from store.metastore import MetastoreStoreBackend
from store.runs.actions import decisions
from tests.effort import effort
from tests.service.api.application import CONFIGURED, Api, Try, asset, claimed, next_try, superseded

PATH = "store/asset/transaction"


async def changed(one: Try, ordinal: int = 1, asset_name: str = "orders", **changes: Any) -> httpx.Response:
    return await one.call("POST", PATH, body={"asset": asset_name, "ordinal": ordinal, **changes})


async def outcome(one: Try, ordinal: int = 1, asset_name: str = "orders", **changes: Any) -> Any:
    answer = await changed(one, ordinal, asset_name, **changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def entries(api: Api, asset_name: str = "orders") -> Mapping[str, tuple[Any, int]]:
    """Return the value and version of each entry."""
    answer_json = (await api.get(api.store(asset_name)))["asset_store"]
    return {entry["key"]: (entry["value"], entry["version"]) for entry in answer_json}


async def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]["reason"]


async def test_everything_is_written_at_once_under_the_jobs_ids(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "old", 1)
    await one.put("orders", "total", 5)

    result = await outcome(
        one,
        reads={"old": 1, "new": 0},
        set={"new": {"a": 1}, "big": "s3://refs/big"},
        refs=["big"],
        increment={"total": 2},
        delete=["old"],
    )

    assert result == {"versions": {"new": 1, "big": 1, "total": 2, "old": 0}, "values": {"total": 7}}
    assert await entries(api) == {"new": ({"a": 1}, 1), "big": ("s3://refs/big", 1), "total": (7, 2)}
    shown = {entry["key"]: entry for entry in (await api.get(api.store("orders")))["asset_store"]}
    assert [key for key, entry in shown.items() if entry["is_ref"]] == ["big"]
    history = (await api.get(f"/api/v2/assets/{api.asset_ids['orders']}/store-history"))["history"]
    newest = {row["key"]: row for row in reversed(history)}
    assert newest["old"]["deleted"]
    assert {row["last_updated_by"]["kind"] for row in history} == {"task"}
    [write_id] = {newest[key]["last_updated_by"]["write_id"] for key in ("old", "new", "big", "total")}
    lines = (await api.client.get(shown["new"]["last_updated_by"]["log_url"])).text.splitlines()
    about = [json.loads(line) for line in lines if write_id in line]
    assert [line["event"] for line in about] == ["store.writing", "store.written"]
    assert (about[0]["action"], about[0]["keys"]) == ("transaction", ["big", "new", "old", "total"])


async def test_a_changed_version_is_a_conflict_and_nothing_is_applied(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "read", 1)
    await api.put("orders", "read", 2)

    for reads in ({"read": 1}, {"read": 0}, {"missing": 1}):
        answer = await changed(one, reads=reads, set={"a": 1}, increment={"total": 1}, delete=["read"])
        assert await refusal(answer) == (409, "conflict")
        assert "read it again" in answer.json()["detail"]["message"]

    assert await entries(api) == {"read": (2, 2)}
    assert (await outcome(one, reads={"read": 2}, increment={"total": 1}))["values"] == {"total": 1}


async def test_a_transaction_with_only_reads_checks_them_and_writes_nothing(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "read", 1)

    assert await outcome(one, reads={"read": 1}) == {"versions": {}, "values": {}}
    assert await entries(api) == {"read": (1, 1)}


async def test_increments_count_once_however_often_any_try_repeats_the_transaction(api: Api) -> None:
    one = await claimed(api)
    first = await outcome(one, set={"summary": 1}, increment={"total": 1})
    again = await outcome(one, set={"summary": 2}, increment={"total": 1})
    retry = await next_try(api, one)
    retried = await outcome(retry, reads={"summary": 2}, set={"summary": 3}, increment={"total": 1, "new": 1})

    assert first == {"versions": {"summary": 1, "total": 1}, "values": {"total": 1}}
    assert again == {"versions": {"summary": 2, "total": 1}, "values": {"total": 1}}
    assert retried == {"versions": {"summary": 3, "total": 1, "new": 0}, "values": {"total": 1, "new": None}}

    await retry.done("POST", "tries/finish", body={"state": "success"})
    async with api.database.transaction() as session:
        await session.execute(update(schema.task_try).values(ended_at=schema.database_now()))
        await decisions.clear(session, "load_orders", one.run_id)
    cleared = await api.start_try(one.run_id)
    assert await outcome(cleared, increment={"total": 1}) == {"versions": {"total": 1}, "values": {"total": 1}}


async def test_each_ordinal_run_and_asset_counts_separately(api: Api) -> None:
    one, other = await claimed(api), await claimed(api, "manual__2")

    await outcome(one, 1, increment={"total": 1})
    await outcome(one, 2, increment={"total": 1})
    await outcome(one, 1, "landing", increment={"total": 1})
    await outcome(other, 1, increment={"total": 1})

    assert (await entries(api))["total"] == (3, 3)
    assert (await entries(api, "landing"))["total"] == (1, 1)


SUMS = [
    (None, 3, "3"),
    (None, 0.5, "0.5"),
    (1, -4, "-3"),
    (1, 0.5, "1.5"),
    (0.5, 1, "1.5"),
    (10**30, 1, str(10**30 + 1)),
]


async def test_numbers_are_added_and_integers_stay_integers(api: Api) -> None:
    one = await claimed(api)
    for ordinal, (before, by, after) in enumerate(SUMS):
        key = f"n{ordinal}"
        if before is not None:
            await one.put("orders", key, before)

        answer = await changed(one, ordinal, increment={key: by})

        assert f'"values":{{"{key}":{after}}}' in answer.text
        stored = (await one.call("GET", "store/asset/by-name/value", query={"name": "orders", "key": key})).json()
        assert json.dumps(stored["value"]) == after


async def test_a_value_that_is_not_a_number_cannot_be_incremented(api: Api) -> None:
    one = await claimed(api)
    for ordinal, value in enumerate(["text", True, [1], {"n": 1}, 1e308, 10**400]):
        await one.put("orders", "n", value)

        answer = await changed(one, ordinal, set={"a": 1}, increment={"n": 1e308})

        assert await refusal(answer) == (422, "invalid"), value
        assert (await entries(api)).keys() == {"n"}


async def test_a_reference_cannot_be_incremented(api: Api) -> None:
    one = await claimed(api)
    await one.put("orders", "n", 1, is_ref=True)

    assert await refusal(await changed(one, increment={"n": 1})) == (422, "invalid")


NONSENSE: list[dict[str, Any]] = [
    {"set": {"k": 1}, "increment": {"k": 1}},
    {"set": {"k": 1}, "delete": ["k"]},
    {"increment": {"k": 1}, "delete": ["k"]},
    {"set": {"k": 1}, "refs": ["other"]},
    {"set": {"k": None}},
    {"set": {"": 1}},
    {"delete": ["a\nb"]},
    {"reads": {"\ud800": 0}},
    {"reads": {"k": -1}},
    {"increment": {"k": True}},
    {"increment": {"k": "1"}},
    {"increment": {"k": float("inf")}},
    {"delete": [str(number) for number in range(1001)]},
    {"ordinal": -1},
    {"asset": None},
    {"more": 1},
]


async def test_contradictory_transactions_are_refused(api: Api) -> None:
    one = await claimed(api)
    for changes in NONSENSE:
        answer = await one.call("POST", PATH, body={"asset": "orders", "ordinal": 1, "set": {"a": 1}, **changes})

        assert answer.status_code == 422, (changes, answer.text)
        assert await entries(api) == {}


async def test_fence_scope_and_watermark_are_checked_first(api: Api) -> None:
    old, new = await superseded(api)
    async with api.database.transaction() as session:
        await session.execute(update(schema.watcher).values(asset_id=api.asset_ids["orders"]))
    watermark = "landing_files.watermark"

    assert await refusal(await changed(old, set={"a": 1})) == (409, "fenced")
    assert await refusal(await changed(new, asset_name="private", set={"a": 1})) == (403, "forbidden")
    assert await refusal(await changed(new, asset_name="nothing", set={"a": 1})) == (404, "not_found")
    for changes in ({"set": {watermark: 1}}, {"increment": {watermark: 1}}, {"delete": [watermark]}):
        assert await refusal(await changed(new, **changes)) == (
            409,
            "conflict",
        )
    assert await outcome(new, reads={watermark: 0}, set={"a": 1})
    assert await entries(api) == {"a": (1, 1)}


async def test_an_inactive_asset_is_not_changed(api: Api) -> None:
    one = await claimed(api)
    async with api.database.transaction() as session:
        await session.execute(update(schema.asset).values(active=False))

    assert (await changed(one, set={"a": 1})).status_code == 403


async def test_the_asset_is_named_by_name_or_uri_and_names_come_first(api: Api) -> None:
    twin = asset("s3://bucket/orders")  # its name is another's uri
    declared = Declared(**{**vars(CONFIGURED), "assets": [*CONFIGURED.assets, twin]})
    one = await claimed(api)
    assert (await outcome(one, asset_name="s3://bucket/orders", set={"a": 1}))["versions"] == {"a": 1}

    async with api.database.transaction() as session:
        await apply(session, declared, api.database.dialect)

    assert await refusal(await changed(one, asset_name="s3://bucket/orders", set={"a": 2})) == (403, "forbidden")


async def test_large_values_are_logged(api: Api) -> None:
    one = await claimed(api)

    await outcome(one, set={"small": 1, "large": "x" * 70_000})

    [log] = (api.context.logs_directory / "runs").rglob("1.log")
    warned = [json.loads(line) for line in log.read_text().splitlines() if "store.large_value" in line]
    assert [line["key"] for line in warned] == ["large"]


async def test_sixteen_writers_at_once_lose_nothing(api: Api) -> None:
    writers = [await claimed(api, f"manual__{number}") for number in range(16)]
    rounds = effort(2, 20)

    async def write(one: Try, name: int) -> None:
        for ordinal in range(rounds):
            await outcome(one, ordinal, increment={"total": 1, f"of {name}": 1})
            while True:  # a read and a write that must not miss another's
                answer_json = await one.call(
                    "GET", "store/asset/by-name/value", query={"name": "orders", "key": "shared"}
                )
                version = int(answer_json.headers["ETag"].strip('"')) if answer_json.is_success else 0
                value = answer_json.json()["value"] + 1 if answer_json.is_success else 1
                answer = await changed(one, ordinal, reads={"shared": version}, set={"shared": value})
                if answer.is_success:
                    break
                assert await refusal(answer) == (409, "conflict")

    async with anyio.create_task_group() as tasks:
        for name, one in enumerate(writers[:8]):
            tasks.start_soon(write, one, name)
        for one in writers[8:]:
            for ordinal in range(rounds):
                tasks.start_soon(outcome_of_increment, one, ordinal)

    assert (await entries(api))["total"] == (16 * rounds, 16 * rounds)
    assert (await entries(api))["shared"] == (8 * rounds, 8 * rounds)


async def outcome_of_increment(one: Try, ordinal: int) -> None:
    await outcome(one, ordinal, increment={"total": 1})


async def test_crossing_transactions_and_clears_never_deadlock(api: Api) -> None:
    keys = [*"zyxAbBC_", "é", "ä", "a b"]
    writers = [await claimed(api, f"manual__{number}") for number in range(6)]
    await outcome(writers[0], 0, set=dict.fromkeys(keys, 1))

    async def write(one: Try, turn: int) -> None:
        for ordinal in range(1, 6):
            await outcome(one, ordinal, set=dict.fromkeys(keys[turn:] + keys[:turn], turn), increment={"n": 1})
            if turn % 2:
                await one.done("DELETE", "store/asset/by-name/clear", query={"name": "orders"})

    async with anyio.create_task_group() as tasks:
        for turn, one in enumerate(writers):
            tasks.start_soon(write, one, turn)


async def test_a_value_is_read_with_its_version(api: Api) -> None:
    one = await claimed(api)
    for number in range(3):
        await one.put("orders", "k", number)
    await MetastoreStoreBackend(api.database).aset(AssetScope(name="orders"), "k", "3")

    for by, text in (("name", "orders"), ("uri", "s3://bucket/orders")):
        answer = await one.call("GET", f"store/asset/by-{by}/value", query={by: text, "key": "k"})
        assert (answer.json(), answer.headers["ETag"]) == ({"value": 3}, '"4"')
