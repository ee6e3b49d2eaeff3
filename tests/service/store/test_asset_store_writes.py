"""Versions, history, attribution and compare-and-set of the asset store."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import RowMapping, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.base import AssetScope, AssetStoreWriterKind, Writer
from store.catalog.assets import ref_of
from store.database import Database
from store.database.schema import asset_store, asset_store_history
from store.errors import NotFound, VersionConflict
from store.metastore import MetastoreStoreBackend
from store.state.entries import EntryChange
from tests.databases import new_asset

TASK = Writer(
    kind=AssetStoreWriterKind.TASK,
    write_id="t1",
    dag_id="load",
    run_id="r",
    task_id="load",
    map_index=-1,
    try_number=3,
)
WATCHER = Writer(kind=AssetStoreWriterKind.WATCHER, write_id="w1", watcher="files")
API = Writer(kind=AssetStoreWriterKind.API, write_id="a1", actor="ann")


class Store(MetastoreStoreBackend):
    """Writes beyond the contract, as the API makes them, each in its own transaction."""

    async def aclear(
        self, scope: Any, *, writer: Writer | None = None, protected: frozenset[str] = frozenset()
    ) -> None:
        async with self._database.transaction() as connection:
            asset = await ref_of(connection, **vars(scope))
            await self._entries.clear(connection, asset, writer=writer, protected=protected)

    async def adelete(
        self, scope: Any, key: str, *, writer: Writer | None = None, if_version: int | None = None, session: Any = None
    ) -> None:
        async with self._connection(session) as connection:
            asset = await ref_of(connection, **vars(scope))
            change = EntryChange(asset=asset, key=key, value=None, writer=writer, expected_version=if_version)
            await self._entries.apply(connection, change)


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
async def orders(database: Database) -> AssetScope:
    return AssetScope(asset_id=await new_asset(database, "orders"))


async def entry(database: Database, scope: AssetScope, key: str = "key") -> RowMapping | None:
    a = asset_store.c
    async with database.reading() as session:
        found = await session.execute(select(asset_store).where(a.asset_id == scope.asset_id, a.key == key))
        return found.mappings().one_or_none()


async def history(database: Database, scope: AssetScope, key: str = "key") -> list[RowMapping]:
    h = asset_store_history.c
    rows = select(asset_store_history).where(h.asset_id == scope.asset_id, h.key == key).order_by(h.version)
    async with database.reading() as session:
        return list((await session.execute(rows)).mappings())


def writer_of(row: RowMapping | None, prefix: str = "last_updated_by_") -> dict[str, Any]:
    """The writer columns that are set."""
    assert row is not None
    names = ("kind", "dag_id", "run_id", "task_id", "map_index", "watcher", "actor", "write_id")
    return {name: row[prefix + name] for name in names if row[prefix + name] is not None}


# --- who wrote


@pytest.mark.parametrize(
    ("writer", "columns"),
    [
        (TASK, {"kind": "task", "dag_id": "load", "run_id": "r", "task_id": "load", "map_index": -1, "write_id": "t1"}),
        (WATCHER, {"kind": "watcher", "watcher": "files", "write_id": "w1"}),
        (API, {"kind": "api", "actor": "ann", "write_id": "a1"}),
        (None, {}),
    ],
)
async def test_entry_and_history_carry_the_writers_fields_and_no_others(
    database: Database, store: Store, orders: AssetScope, writer: Writer | None, columns: dict[str, Any]
) -> None:
    await store.aset_asset_store(orders, "key", "0", writer=TASK if writer is not TASK else API)
    await store.adelete(orders, "key")
    await store.aset_asset_store(orders, "key", "1", writer=writer)
    assert writer_of(await entry(database, orders)) == columns
    last = (await history(database, orders))[-1]
    assert writer_of(last, prefix="") == columns
    assert last["try_number"] == (3 if writer is TASK else None)


@pytest.mark.parametrize("writer", [TASK, WATCHER, API])
async def test_a_plain_set_neither_clears_nor_changes_who_wrote(
    database: Database, store: Store, orders: AssetScope, writer: Writer
) -> None:
    await store.aset_asset_store(orders, "key", "1", writer=writer)
    before = await entry(database, orders)
    await store.aset(orders, "key", "2")
    after = await entry(database, orders)
    assert before is not None
    assert after is not None
    link = {"write_id": writer.write_id}
    assert writer_of(after) == {name: value for name, value in writer_of(before).items() if name not in link}
    assert (after["value"], after["version"]) == ("2", 2)
    assert after["updated_at"] >= before["updated_at"]
    assert writer_of((await history(database, orders))[-1], prefix="") == {}


async def test_the_next_attributed_write_replaces_the_writer_whole(
    database: Database, store: Store, orders: AssetScope
) -> None:
    await store.aset_asset_store(orders, "key", "1", writer=TASK)
    await store.aset_asset_store(orders, "key", "2", writer=WATCHER)
    assert writer_of(await entry(database, orders)) == {"kind": "watcher", "watcher": "files", "write_id": "w1"}


async def test_a_reference_is_known_by_its_mark(database: Database, store: Store, orders: AssetScope) -> None:
    await store.aset_asset_store(orders, "key", '"s3://x"', is_ref=True)
    await store.aset_asset_store(orders, "key", '"s3://x"')
    assert [row["is_ref"] for row in await history(database, orders)] == [True, False]
    row = await entry(database, orders)
    assert row is not None
    assert not row["is_ref"]


# --- versions and history


async def test_versions_begin_at_one_and_continue_after_a_delete(
    database: Database, store: Store, orders: AssetScope
) -> None:
    assert [await store.aset_asset_store(orders, "key", "1") for _ in range(2)] == [1, 2]
    await store.adelete(orders, "key", writer=API)
    assert await store.aset_asset_store(orders, "key", "2") == 4
    rows = await history(database, orders)
    assert [(row["version"], row["value"], row["deleted"]) for row in rows] == [
        (1, "1", False),
        (2, "1", False),
        (3, None, True),
        (4, "2", False),
    ]
    assert writer_of(rows[2], prefix="") == {"kind": "api", "actor": "ann", "write_id": "a1"}


async def test_deleting_what_is_not_there_leaves_no_trace(database: Database, store: Store, orders: AssetScope) -> None:
    await store.adelete(orders, "key", writer=API)
    await store.aclear(orders, writer=API)
    assert await history(database, orders) == []


async def test_clear_records_every_key_and_leaves_the_protected_ones(
    database: Database, store: Store, orders: AssetScope
) -> None:
    other = AssetScope(asset_id=await new_asset(database, "other"))
    for key in ("a", "b/c", "files.watermark"):
        await store.aset_asset_store(orders, key, "1", writer=TASK)
    await store.aset(other, "a", "1")
    await store.aclear(orders, writer=API, protected=frozenset({"files.watermark"}))
    assert [await store.aget(orders, key) for key in ("a", "b/c", "files.watermark")] == [None, None, "1"]
    assert await store.aget(other, "a") == "1"
    for key, deleted in (("a", True), ("b/c", True), ("files.watermark", False)):
        last = (await history(database, orders, key))[-1]
        assert (last["deleted"], last["kind"]) == ((True, "api") if deleted else (False, "task"))


async def test_an_asset_is_found_by_each_of_its_names_and_only_by_all_given(database: Database, store: Store) -> None:
    asset_id = await new_asset(database, "orders")
    await new_asset(database, "other")
    await store.aset(AssetScope(name="orders"), "key", "1")
    for scope in (AssetScope(asset_id=asset_id), AssetScope(uri="test://orders"), AssetScope(name="orders")):
        assert await store.aget(scope, "key") == "1"
    for wrong in (AssetScope(name="orders", uri="test://other"), AssetScope(name="Orders"), AssetScope(asset_id=0)):
        with pytest.raises(NotFound, match="`watcher assets list` shows"):
            await store.aset(wrong, "key", "1")


# --- compare-and-set


@pytest.mark.parametrize(
    ("written", "deleted", "expected", "wins"),
    [
        (0, False, 0, True),
        (0, False, 1, False),
        (1, False, 0, False),
        (2, False, 2, True),
        (2, False, 1, False),
        (2, False, 3, False),
        (2, False, -1, False),
        (2, True, 0, True),
        (2, True, 2, False),
        (2, True, 3, False),
    ],
)
async def test_a_write_with_a_version_wins_only_over_that_version(
    database: Database,
    store: Store,
    orders: AssetScope,
    written: int,
    deleted: bool,
    expected: int,
    wins: bool,
) -> None:
    for _ in range(written):
        await store.aset(orders, "key", '"before"')
    if deleted:
        await store.adelete(orders, "key")
    before = await history(database, orders)
    if wins:
        await store.aset_asset_store(orders, "key", '"after"', if_version=expected)
        assert await store.aget(orders, "key") == '"after"'
    else:
        with pytest.raises(VersionConflict, match="read it again and decide again"):
            await store.aset_asset_store(orders, "key", '"after"', if_version=expected)
        assert await history(database, orders) == before


@pytest.mark.parametrize(("expected", "wins"), [(None, True), (1, True), (0, False), (2, False)])
async def test_a_delete_with_a_version_wins_only_over_that_version(
    store: Store, orders: AssetScope, expected: int | None, wins: bool
) -> None:
    await store.aset(orders, "key", "1")
    if wins:
        await store.adelete(orders, "key", if_version=expected)
        assert await store.aget(orders, "key") is None
    else:
        with pytest.raises(VersionConflict):
            await store.adelete(orders, "key", if_version=expected)
        assert await store.aget(orders, "key") == "1"


async def test_a_delete_that_expects_no_entry_succeeds_without_one(store: Store, orders: AssetScope) -> None:
    await store.adelete(orders, "key", if_version=0)
    with pytest.raises(VersionConflict, match="does not exist"):
        await store.adelete(orders, "key", if_version=1)


# --- the history is the whole story

operations = st.lists(
    st.tuples(st.sampled_from(["set", "set", "delete", "clear"]), st.sampled_from(["a", "b/ü"]), st.integers(0, 9)),
    max_size=12,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=operations)
async def test_replaying_the_history_gives_the_entries_of_now(
    database: Database, store: Store, operations: list[tuple[str, str, int]]
) -> None:
    scope = AssetScope(asset_id=await new_asset(database, uuid.uuid4().hex))
    for number, (operation, key, value) in enumerate(operations):
        writer = Writer(kind=AssetStoreWriterKind.API, write_id=f"{number}", actor="ann")
        if operation == "set":
            await store.aset_asset_store(scope, key, str(value), writer=writer)
        elif operation == "delete":
            await store.adelete(scope, key, writer=writer)
        else:
            await store.aclear(scope, writer=writer)
    for key in ("a", "b/ü"):
        rows = await history(database, scope, key)
        assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
        last = rows[-1] if rows and not rows[-1]["deleted"] else None
        now = await entry(database, scope, key)
        assert (now is None) == (last is None)
        if now is not None and last is not None:
            assert (now["value"], now["version"]) == (last["value"], last["version"])
            assert now["last_updated_by_write_id"] == last["write_id"]


# --- many at once


async def test_no_version_is_lost_among_32_writers_of_one_key(
    database: Database, store: Store, orders: AssetScope
) -> None:
    versions: list[int] = []

    async def write(number: int) -> None:
        versions.append(await store.aset_asset_store(orders, "key", str(number), writer=API))

    async with anyio.create_task_group() as tasks:
        for number in range(32):
            tasks.start_soon(write, number)
    assert sorted(versions) == list(range(1, 33))
    rows = await history(database, orders)
    assert sorted(int(row["value"]) for row in rows) == list(range(32))
    assert await store.aget(orders, "key") == rows[-1]["value"]


async def test_versions_continue_while_one_key_is_set_and_deleted_at_once(
    database: Database, store: Store, orders: AssetScope
) -> None:
    async def write(number: int) -> None:
        for turn in range(6):
            if (number + turn) % 3 == 0:
                await store.adelete(orders, "key", writer=API)
            elif (number + turn) % 3 == 1:
                await store.aclear(orders, writer=API)
            else:
                await store.aset_asset_store(orders, "key", str(number * turn), writer=API)

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(write, number)
    rows = await history(database, orders)
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert sum(not row["deleted"] for row in rows) == 24
    assert not any(one["deleted"] and other["deleted"] for one, other in pairwise(rows))


@pytest.mark.parametrize("before", [0, 1])
async def test_of_two_writers_with_the_same_version_exactly_one_wins(
    database: Database, store: Store, orders: AssetScope, before: int
) -> None:
    for _ in range(before):
        await store.aset(orders, "key", "0")
    outcomes: list[int | None] = []

    async def write(number: int) -> None:
        try:
            outcomes.append(await store.aset_asset_store(orders, "key", str(number), if_version=before))
        except VersionConflict:
            outcomes.append(None)

    async with anyio.create_task_group() as tasks:
        for number in range(2):
            tasks.start_soon(write, number)
    assert sorted(outcomes, key=str) == [before + 1, None]
    assert len(await history(database, orders)) == before + 1


async def test_setting_and_then_deleting_in_one_transaction_never_blocks_a_deleter_for_good(
    database: Database, store: Store, orders: AssetScope
) -> None:
    await store.aset(orders, "key", "0")

    async def set_and_delete() -> None:
        for _ in range(10):
            async with database.transaction() as connection, AsyncSession(connection) as session:
                await store.aset(orders, "key", "1", session=session)
                await store.adelete(orders, "key", session=session)

    async def delete() -> None:
        for _ in range(10):
            await store.adelete(orders, "key")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(set_and_delete)
        tasks.start_soon(delete)
    assert await store.aget(orders, "key") is None
