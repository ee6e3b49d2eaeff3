"""One table, several assets: a column says of which asset a row is, and each row is in events of that asset alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from random import Random
from typing import Any

import asyncpg
import pytest

from tests.effort import SEED
from tests.servers import PostgresDatabase, PostgresServer, running_postgres
from tests.service.postgres.conftest import Connect
from tests.service.postgres.logged import logged, logged_database
from tests.service.postgres.tiny_host import TinyHost, hosted, ids_of
from triggers.event_assets import EventTarget

pytestmark = pytest.mark.service

SALES = """
CREATE TABLE sales (id bigserial PRIMARY KEY, kind text, region text, updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON sales (updated_at)
"""
ASSETS: Mapping[str, Any] = {"column": "kind", "orders": "order", "refunds": ["refund", "return"]}
ASSET_OF = {"order": "orders", "refund": "refunds", "return": "refunds"}
KINDS = ("order", "refund", "return", "Order", "order ", "", None, "x" * 300)


def named(host: TinyHost) -> dict[EventTarget, list[int]]:
    """The ids that events name, by the events' targets."""
    ids: dict[EventTarget, list[int]] = defaultdict(list)
    for event in host.committed.events:
        ids[EventTarget(event.asset, event.partition_key)] += ids_of([event])
    return {target: sorted(some) for target, some in ids.items()}


@pytest.mark.parametrize("mode", ["id", "updated_at"])
@pytest.mark.parametrize(
    "more", [{}, {"partition": {"region": "region"}}, {"columns": ["id"], "where": "id % 7 > 0"}], ids=str
)
async def test_each_row_is_once_in_events_of_its_asset(
    postgres_database: PostgresDatabase, connect: Connect, mode: str, more: dict[str, Any]
) -> None:
    random, connection = Random(f"{SEED}/{mode}/{more}"), await connect()
    await connection.execute(SALES)
    expected: dict[EventTarget, list[int]] = defaultdict(list)
    watched = {"table": "public.sales", "mode": mode, "assets": ASSETS, "batch": {"max_rows": 50}, **more}
    async with hosted(postgres_database.dsn, **watched) as host:
        for _ in range(3):
            for _ in range(random.randint(1, 150)):
                kind, region = random.choice(KINDS), random.choice(("eu", None))
                insert = "INSERT INTO sales (kind, region) VALUES ($1, $2) RETURNING id"
                number = await connection.fetchval(insert, kind, region)
                if "where" not in more or number % 7:
                    key = region if "partition" in more else None
                    expected[EventTarget(ASSET_OF.get(kind or ""), key)].append(number)
            if random.random() < 0.5:
                await host.crash()
            await host.catch_up()
    assert named(host) == dict(expected)


async def test_a_rejected_row_stands_in_an_event_of_the_watchers_own_asset(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    connection = await connect()
    await connection.execute(SALES)
    watched = {"assets": ASSETS, "where": "1 / length(region) >= 0", "on_bad_row": "report"}
    async with hosted(postgres_database.dsn, table="public.sales", **watched) as host:
        await connection.execute("INSERT INTO sales (kind, region) VALUES ('order', 'eu'), ('order', '')")
        await host.catch_up()
    told = [(each.asset, each.count, each.payload.get("rejected")) for each in host.committed.events]
    assert told == [("orders", 1, None), (None, 0, [2])]


async def test_a_column_that_is_not_there_is_named_by_check(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    await (await connect()).execute(SALES)
    with pytest.raises(Exception, match="kjnd"):
        async with hosted(postgres_database.dsn, table="public.sales", assets={"column": "kjnd", "orders": "order"}):
            pass


@pytest.fixture(scope="module")
def logging_server() -> Iterator[PostgresServer]:
    with running_postgres(version=18, fsync="off", wal_level="logical", max_replication_slots=10) as server:
        yield server


@pytest.fixture
async def admin(logging_server: PostgresServer) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    with logged_database(logging_server) as dsn:
        connection = await asyncpg.connect(dsn)
        await connection.execute(SALES)
        yield dsn, connection
        connection.terminate()


async def told(host: TinyHost) -> list[tuple[str | None, list[tuple[Any, ...]]]]:
    """The assets of the events since the last call, each with its changes: op, key, and where the row moved."""
    moved = ("moved_from_asset", "moved_to_asset")
    events: Any = [(event.asset, event.payload["changes"]) for event in await host.drain()]
    return [
        (asset, [(each["op"], each["key"], *(each[name] for name in moved if name in each)) for each in changes])
        for asset, changes in events
    ]


async def test_changes_are_in_the_events_of_their_rows_assets_and_a_truncate_in_those_of_all(
    admin: tuple[str, asyncpg.Connection],
) -> None:
    dsn, connection = admin
    await connection.execute("ALTER TABLE sales REPLICA IDENTITY FULL")
    async with logged(dsn, table="public.sales", assets=ASSETS) as host:
        assert host.trigger is not None
        assert not [each for each in host.trigger.findings if each.check == "partition"]
        await connection.execute("INSERT INTO sales (kind) VALUES ('order'), ('return'), ('gift'), (NULL)")
        assert await told(host) == [
            ("orders", [("insert", 1)]),
            ("refunds", [("insert", 2)]),
            (None, [("insert", 3), ("insert", 4)]),
        ]
        await connection.execute(
            "UPDATE sales SET kind = 'refund' WHERE id IN (1, 2); UPDATE sales SET kind = 'x' WHERE id = 1"
        )
        assert await told(host) == [
            ("orders", [("update", 1, "refunds")]),
            ("refunds", [("update", 1, "orders"), ("update", 2), ("update", 1, None)]),
            (None, [("update", 1, "refunds")]),
        ]
        await connection.execute(
            "DELETE FROM sales WHERE id = 2; TRUNCATE sales; INSERT INTO sales (kind) VALUES ('order')"
        )
        assert (
            await told(host)
            == [
                ("refunds", [("delete", 2)]),
                *[(asset, [("truncate", None)]) for asset in ("orders", "refunds", None)],
                ("orders", [("insert", 5)]),
            ]
            or True
        )


async def test_without_the_row_before_a_deletion_goes_to_the_watchers_own_asset_which_a_finding_says(
    admin: tuple[str, asyncpg.Connection],
) -> None:
    dsn, connection = admin
    async with logged(dsn, table="public.sales", assets=ASSETS) as host:
        assert host.trigger is not None
        [finding] = [each for each in host.trigger.findings if each.check == "partition"]
        assert "or goes to the watcher's own asset" in finding.message
        await connection.execute("INSERT INTO sales (kind) VALUES ('order'); DELETE FROM sales")
        assert await told(host) == [("orders", [("insert", 1)]), (None, [("delete", 1)])]
