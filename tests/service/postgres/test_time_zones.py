"""Mode `updated_at` with a timestamp without time zone, whatever zone the sessions of writers and watcher have."""

from __future__ import annotations

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted, options
from triggers.base import JsonObject, TriggerContext
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows

pytestmark = pytest.mark.service

TABLE = """
CREATE TABLE orders (id int PRIMARY KEY, note text, updated_at timestamp{precision} NOT NULL DEFAULT (now() AT TIME ZONE '{zone}'));
CREATE INDEX ON orders (updated_at);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.updated_at := now() AT TIME ZONE '{zone}'; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();
"""
FLOOR_PASSES = "SELECT pg_sleep(1.2)"
"""After this time the floor lies above what was written before it."""


@pytest.mark.parametrize(("zone", "precision"), [("UTC", ""), ("Asia/Kolkata", "(0)"), ("Etc/GMT+12", "")])
async def test_each_row_is_reported_once_from_local_times_of_the_zone(
    postgres_database: PostgresDatabase, connect: Connect, zone: str, precision: str
) -> None:
    admin, late = await connect(), await connect()
    await admin.execute(TABLE.format(zone=zone, precision=precision))
    await late.execute("SET TimeZone = 'America/New_York'")
    await admin.execute("INSERT INTO orders VALUES (1)")
    async with hosted(postgres_database.dsn, mode="updated_at", time_zone=zone, lateness="0s") as host:
        assert host.committed.ids == []
        await late.execute("BEGIN; INSERT INTO orders VALUES (2)")
        await insert_when_the_floor_has_passed(admin, host, 3)
        await admin.execute("UPDATE orders SET note = 'b' WHERE id = 1")
        assert sorted(await host.catch_up()) == [1]
        await host.crash()
        await late.execute("COMMIT")
        assert await host.catch_up() == [2]
        await insert_when_the_floor_has_passed(late, host, 4)
        assert host.committed.ids == [3, 1, 2, 4]
        await is_above_what_was_written(admin, host)

        between = await admin.fetchval(
            f"SELECT to_char((SELECT updated_at FROM orders WHERE id = 3) AT TIME ZONE '{zone}' AT TIME ZONE 'UTC'"
            " - interval '1 microsecond', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        )
        await host.rewind(between)
        assert sorted(await host.catch_up()) == [1, 3, 4]


async def insert_when_the_floor_has_passed(connection: asyncpg.Connection, host: TinyHost, number: int) -> None:
    for _ in range(3):
        await connection.execute(FLOOR_PASSES)
        await host.catch_up()
    await connection.execute("INSERT INTO orders VALUES ($1)", number)
    assert await host.catch_up() == [number]


async def is_above_what_was_written(connection: asyncpg.Connection, host: TinyHost) -> None:
    """The floor keeps the reads short, also in this zone: with another conversion each poll would read the whole table."""
    for _ in range(3):
        await connection.execute(FLOOR_PASSES)
        await host.catch_up()
    window = host.trigger._reader.progress.memory.window
    zone = host.options.time_zone
    above = await connection.fetchval(
        f"SELECT count(*) FROM orders WHERE updated_at AT TIME ZONE '{zone}' > '{window.floor}'::timestamptz"
    )
    assert above == 0


async def test_a_position_belongs_to_its_time_zone(postgres_database: PostgresDatabase, connect: Connect) -> None:
    admin = await connect()
    await admin.execute(TABLE.format(zone="UTC", precision=""))
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:

        async def identity(**values: object) -> JsonObject:
            trigger = NewRows(options(mode="updated_at", **values), client, TriggerContext(watcher="orders_rows"))
            await trigger.check()
            return trigger.source_identity()

        in_utc, in_kolkata = await identity(time_zone="UTC"), await identity(time_zone="Asia/Kolkata")
        assert in_utc != in_kolkata
        await admin.execute("ALTER TABLE orders ALTER updated_at TYPE timestamptz USING updated_at AT TIME ZONE 'UTC'")
        before = await identity()
        assert set(before) == {"trigger", "system_identifier", "database", "table", "mode", "column", "where"}
