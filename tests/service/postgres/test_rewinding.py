"""What follows a rewind, with the position that `rewound` makes stored as the host stores it."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.base import TriggerBatch
from triggers.errors import ConfigurationError
from triggers.postgres.progress import ReadProgress

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


async def test_an_id_is_exclusive_and_what_follows_comes_again(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 5)
        await host.catch_up()
        await rewind(host, "3")
        assert host.committed.watermark == {"up_to": 3, "gaps": 0, "open_ids": 0, "oldest": None}
        assert await host.catch_up() == [4, 5]


async def test_gaps_at_or_below_the_id_stay_open_and_those_above_are_found_anew(
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


async def test_an_id_ahead_skips_what_lies_between(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await rewind(host, "3")
        await insert(orders, 5)
        assert await host.catch_up() == [4, 5]


async def test_start_is_the_very_first_row(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> None:
    await insert(orders, 3)
    async with hosted(postgres_database.dsn) as host:
        await rewind(host, "start")
        assert host.committed.watermark["up_to"] == 0
        assert await host.catch_up() == [1, 2, 3]


async def test_now_skips_what_is_there_and_finds_who_is_writing(
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


async def test_a_place_may_be_chosen_before_the_first_start_and_before_now_was_reached(
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


async def test_mode_updated_at_goes_back_to_a_time_or_the_start_or_now(
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
async def test_rows_that_were_told_before_are_told_apart_from_those_that_were_not(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect, mode: str
) -> None:
    """By ids, or by who wrote them: also one that was being written, and one that `where` leaves out."""
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


async def test_an_update_is_a_version_that_was_not_told(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    """Nor is what the kept position was about to tell, being in the middle of many rows."""
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
async def test_there_are_places_a_table_does_not_have(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, mode: str, to: str, sentence: str
) -> None:
    await orders.execute(UPDATED_AT)
    async with hosted(postgres_database.dsn, mode=mode) as host:
        with pytest.raises(ConfigurationError, match=sentence):
            await rewind(host, to)
