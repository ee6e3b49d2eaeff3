"""What a watcher reports after a rewind, with the position of `rewound` stored as the host stores it."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.base import TriggerBatch
from triggers.errors import ConfigurationError
from triggers.postgres.reading.progress import ReadProgress

pytestmark = pytest.mark.service

UPDATED_AT = "ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now(); CREATE INDEX ON orders (updated_at)"
BY_UPDATE = {"mode": "updated_at", "start": "all"}


async def insert(connection: asyncpg.Connection, rows: int = 1) -> None:
    await connection.execute("INSERT INTO orders (note) SELECT 'a' FROM generate_series(1, $1::int)", rows)


async def rewind(host: TinyHost, to: str) -> None:
    trigger = await host.start()
    position = trigger.rewound(host.committed.position, to)
    host.committed.apply(TriggerBatch(position=position))
    await host.start()


async def test_a_rewind_to_an_id_is_exclusive_and_later_rows_are_reported_again(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 5)
        await host.catch_up()
        await rewind(host, "3")
        assert host.committed.watermark == {"up_to": 3, "gaps": 0, "open_ids": 0, "oldest": None}
        assert await host.catch_up() == [4, 5]


async def test_gaps_at_or_below_the_id_stay_open_and_gaps_above_it_are_opened_again(
    postgres_database: PostgresDatabase,
    orders: asyncpg.Connection,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    slow = await connect()
    async with hosted(postgres_database.dsn) as host:
        async with slow.transaction():
            for _ in range(2):
                await insert(slow, 2)
                await insert(orders, 1)
            assert await host.catch_up() == [3, 6]
            await host.catch_up()
            await rewind(host, "4")
            assert host.committed.watermark["gaps"] == 2
            assert host.committed.watermark["open_ids"] == 3
            assert await host.catch_up() == [6]
        assert await host.catch_up() == [1, 2, 4, 5]


async def test_a_rewind_to_a_higher_id_skips_the_rows_in_between(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await rewind(host, "3")
        await insert(orders, 5)
        assert await host.catch_up() == [4, 5]


async def test_a_rewind_to_start_begins_at_the_first_row(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await insert(orders, 3)
    async with hosted(postgres_database.dsn) as host:
        await rewind(host, "start")
        assert host.committed.watermark["up_to"] == 0
        assert await host.catch_up() == [1, 2, 3]


async def test_a_rewind_to_now_skips_visible_rows_and_finds_rows_of_open_transactions(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    slow = await connect()
    async with hosted(postgres_database.dsn, start="all") as host:
        async with slow.transaction():
            await insert(slow)
            await insert(orders, 3)
            await rewind(host, "now")
            await rewind(host, "now")
            assert await host.catch_up() == []
            assert host.committed.watermark["up_to"] == 4
        assert await host.catch_up() == [1]


async def test_a_rewind_is_possible_before_the_first_start_and_after_a_rewind_to_now(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await insert(orders, 3)
    async with hosted(postgres_database.dsn) as host:
        host.committed.state = None
        await rewind(host, "1")
        assert await host.catch_up() == [2, 3]
        await rewind(host, "now")
        await rewind(host, "2")
        assert await host.catch_up() == [3]


async def test_mode_updated_at_rewinds_to_a_time_to_start_and_to_now(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    await orders.execute(UPDATED_AT)
    await orders.execute("INSERT INTO orders (updated_at) VALUES ('2026-01-01'), ('2026-01-02'), ('2026-01-03')")
    async with hosted(postgres_database.dsn, **BY_UPDATE) as host:
        slow = await connect()
        async with slow.transaction():
            await insert(slow)
            await insert(orders)
            assert await host.catch_up() == [5]
            assert host.committed.rows
            await rewind(host, "2026-01-02T01:00:00+01:00")
            assert host.committed.rows == {}
            assert host.committed.watermark["up_to"] == "2026-01-02T00:00:00.000000Z"
            assert await host.catch_up() == [3, 5]
            await rewind(host, "now")
            assert await host.catch_up() == []
        assert await host.catch_up() == [4]
        await rewind(host, "start")
        assert sorted(await host.catch_up()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", ["id", "updated_at"])
async def test_rows_reported_before_the_rewind_are_distinguished_from_new_ones(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect, mode: str
) -> None:
    """They are distinguished by ids or by xids, also a row that was being written and a row that fails `where`."""
    await orders.execute(UPDATED_AT)
    await insert(orders, 3)
    async with hosted(postgres_database.dsn, mode=mode, start="all", where="note <> 'out'") as host:
        slow = await connect()
        async with slow.transaction():
            await insert(slow)
            await insert(orders)
            assert await host.catch_up() == [5]
            await host.rewind("start")
            await orders.execute("INSERT INTO orders (note) VALUES ('out')")
            assert await host.catch_up() == [1, 2, 3, 5]
            assert set(host.retold) == {True}
        assert await host.catch_up() == [4]
        assert host.retold[-1] is False


async def test_an_update_is_a_version_that_was_not_reported_before(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    """The same holds for rows that the kept position, in the middle of many rows, was about to report."""
    await orders.execute(UPDATED_AT)
    async with hosted(postgres_database.dsn, **BY_UPDATE, batch={"max_rows": 2}) as host:
        await insert(orders, 6)
        await host.commit_one()
        await host.rewind("start")
        assert await host.catch_up() == [1, 2, 3, 4, 5, 6]
        assert host.retold == [True, False, False]
        await host.rewind("start")
        await orders.execute("UPDATE orders SET updated_at = now() WHERE id = 2")
        assert await host.catch_up() == [1, 3, 4, 5, 6, 2]
        assert host.retold == [True, True, False]


@pytest.mark.parametrize(
    ("mode", "to", "sentence"),
    [
        (
            "id",
            "2026-01-02T00:00:00Z",
            "with mode: id there is no rewind to '2026-01-02T00:00:00Z': write start, now or an id",
        ),
        ("id", "yesterday", "write start, now or an id"),
        ("id", str(2**63), "write start, now or an id"),
        ("updated_at", "4711", "write start, now or an ISO timestamp like 2026-11-20T09:00:00Z"),
        ("updated_at", "0001-01-01T00:00:00+14:00", "write start, now or an ISO timestamp"),
    ],
)
async def test_a_place_that_the_table_does_not_have_is_refused(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, mode: str, to: str, sentence: str
) -> None:
    await orders.execute(UPDATED_AT)
    async with hosted(postgres_database.dsn, mode=mode) as host:
        with pytest.raises(ConfigurationError, match=sentence):
            await rewind(host, to)
