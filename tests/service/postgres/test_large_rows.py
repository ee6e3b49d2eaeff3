"""What is read and reported at a time is bounded however large rows are, and each row is reported once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import hosted
from triggers.errors import ConfigurationError

pytestmark = pytest.mark.service

MOST = 400_000
INSERT = "INSERT INTO orders (note) SELECT repeat($1, $2) FROM generate_series(1, $3)"


@pytest.mark.parametrize("letter", ["x", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "\1"])
async def test_batches_of_large_rows_have_a_bounded_size(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, letter: str
) -> None:
    async with hosted(postgres_database.dsn, columns=["note"], max_batch_bytes=MOST) as host:
        await orders.execute("INSERT INTO orders (note) VALUES ('small')")
        await orders.execute(INSERT, letter, 30_000, 20)
        await orders.execute("INSERT INTO orders (note) VALUES (NULL)")
        await host.catch_up()

    assert host.committed.ids == list(range(1, 23))
    assert max(host.committed.sizes) <= MOST
    assert len(host.committed.sizes) >= 2


async def test_batches_of_large_late_rows_have_a_bounded_size(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    async with hosted(postgres_database.dsn, columns=["note"], max_batch_bytes=MOST) as host:
        late = [await connect() for _ in range(3)]
        transactions = [session.transaction() for session in late]
        for session, transaction in zip(late, transactions, strict=True):
            await transaction.start()
            await session.execute(INSERT, "x", 60_000, 4)
            await orders.execute(INSERT, "x", 60_000, 4)
        await host.catch_up()
        assert len(host.committed.ids) == 12
        for transaction in transactions:
            await transaction.commit()
        await orders.execute(INSERT, "x", 60_000, 4)
        await host.catch_up()

    assert sorted(host.committed.ids) == list(range(1, 29))
    assert max(host.committed.sizes) <= MOST
    assert host.committed.watermark["gaps"] == 0


async def test_the_error_names_a_row_that_is_larger_than_a_batch(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn, columns=["note"], max_batch_bytes=MOST) as host:
        await orders.execute("INSERT INTO orders (note) VALUES ('small')")
        await orders.execute(INSERT, "x", MOST + 1, 1)
        with pytest.raises(
            ConfigurationError,
            match=r"the row with id 2 of public\.orders holds 400001 bytes, .* settings\.triggerer\.batch\.max_bytes",
        ):
            await host.catch_up()
        assert host.committed.ids == [1]


async def test_a_large_row_that_fails_where_is_not_read(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn, columns=["note"], where="length(note) < 9", max_batch_bytes=MOST) as host:
        await orders.execute(INSERT, "x", MOST + 1, 1)
        await orders.execute("INSERT INTO orders (note) VALUES ('small')")
        assert await host.catch_up() == [2]


async def test_sizes_are_not_read_of_rows_that_cannot_be_large(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn, columns=["id"], max_batch_bytes=1) as host:
        await orders.execute("INSERT INTO orders (note) VALUES ('small')")
        assert await host.catch_up() == [1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["id", "updated_at"])
async def test_an_event_is_bounded_by_bytes_so_twenty_rows_of_five_megabytes_are_twenty_events(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, mode: str
) -> None:
    await orders.execute("ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now()")
    await orders.execute("CREATE INDEX ON orders (updated_at)")
    async with hosted(postgres_database.dsn, mode=mode, columns=["note"]) as host:
        before = resident()
        await orders.execute(INSERT, "x", 5_000_000, 20)
        await orders.execute(INSERT, "x", 300_000, 20)
        await host.catch_up()
        counts = [event.count for event in host.committed.events]
        sizes = [len(json.dumps(event.payload)) for event in host.committed.events]
        grown = resident() - before
    assert sorted(host.committed.ids) == list(range(1, 41))
    assert counts[:20] == [1] * 20
    assert max(sizes[20:]) <= 1_000_000
    assert len(counts) <= 28
    assert max(host.committed.sizes) <= 16_000_000
    assert grown < 100_000_000 + sum(sizes), "all that is kept here is what was told"


def resident() -> int:
    """Return the resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
