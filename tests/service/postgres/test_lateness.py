"""Mode `updated_at` where clients set the timestamp themselves, by clocks that are behind the server's."""

from __future__ import annotations

import json

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.postgres.by_update.statements import NewsByUpdate
from triggers.postgres.sql import news_of
from triggers.shared.postgres.sql import TableName

pytestmark = pytest.mark.service

TABLE = """
CREATE TABLE orders (id int PRIMARY KEY, note text, updated_at timestamptz NOT NULL);
CREATE INDEX ON orders (updated_at);
"""
SET = "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at := now(); RETURN NEW; END';"
OTHER = "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := ''seen''; RETURN NEW; END';"
LONGER = "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := TG_ARGV[0] || ''updated_at_all''; RETURN NEW; END';"
GENERIC = """
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], now())); RETURN NEW; END';
"""
TRIGGER = "CREATE TRIGGER {name} BEFORE {event} ON orders FOR EACH ROW {when} EXECUTE FUNCTION stamp({argument});"


def trigger(event: str = "INSERT OR UPDATE", *, name: str = "a", when: str = "", argument: str = "") -> str:
    return TRIGGER.format(name=name, event=event, when=when, argument=argument)


async def client_inserts(connection: asyncpg.Connection, number: int, *, behind: str) -> None:
    await connection.execute(f"INSERT INTO orders VALUES ($1, 'a', clock_timestamp() - interval '{behind}')", number)


async def let_the_floor_follow(connection: asyncpg.Connection, host: TinyHost) -> None:
    """Poll until the floor is as high as it can be: a moment lies a second before the list of transactions."""
    for _ in range(2):
        await connection.execute("SELECT pg_sleep(1.2)")
        assert await host.catch_up() == []


async def test_rows_of_clients_whose_clocks_are_behind_are_reported_once(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    admin, late = await connect(), await connect()
    await admin.execute(TABLE)
    async with hosted(postgres_database.dsn, mode="updated_at") as host:
        await let_the_floor_follow(admin, host)
        await client_inserts(admin, 1, behind="50 s")
        assert await host.catch_up() == [1]
        transaction = late.transaction()
        await transaction.start()
        await client_inserts(late, 2, behind="50 s")
        await client_inserts(admin, 3, behind="0 s")
        assert await host.catch_up() == [3]
        await let_the_floor_follow(admin, host)
        await host.crash()
        await transaction.commit()
        assert await host.catch_up() == [2]
        await admin.execute("UPDATE orders SET updated_at = clock_timestamp() - interval '55 s' WHERE id = 1")
        assert await host.catch_up() == [1]
        assert await host.catch_up() == []
        await client_inserts(admin, 4, behind="10 m")
        assert await host.catch_up() == [], "behind by more than `lateness`: no reader of a timestamp finds this"


async def test_lateness_says_how_far_clocks_may_be_behind_and_may_be_raised_later(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    admin = await connect()
    await admin.execute(TABLE)
    async with hosted(postgres_database.dsn, mode="updated_at", lateness="0s") as host:
        await let_the_floor_follow(admin, host)
        await client_inserts(admin, 1, behind="50 s")
        assert await host.catch_up() == []
        await client_inserts(admin, 2, behind="0 s")
        assert await host.catch_up() == [2]
        host.options = host.options.model_copy(update={"lateness": None})
        await host.start()
        assert await host.catch_up() == [], "what was handled is not reported again from a lower floor"
        await client_inserts(admin, 3, behind="50 s")
        assert await host.catch_up() == [3]


@pytest.mark.parametrize(
    ("triggers", "is_set"),
    [
        ("", False),
        (SET + trigger("UPDATE"), False),
        (SET + trigger("INSERT"), False),
        (SET + trigger(), True),
        (SET + trigger("INSERT") + trigger("UPDATE", name="b"), True),
        (GENERIC + trigger(argument="'updated_at'"), True),
        (GENERIC + trigger(argument="'note'"), False),
        (GENERIC + trigger(argument="'note', 'updated_at'"), True),
        (OTHER + trigger(), False),
        (LONGER + trigger(argument="'my_updated_at'"), False),
        (SET + trigger(when="WHEN (NEW.note IS NULL)"), False),
        (SET + trigger("INSERT") + trigger("UPDATE OF note", name="b"), False),
        (SET + trigger() + "ALTER TABLE orders DISABLE TRIGGER a;", False),
    ],
)
async def test_a_trigger_that_sets_the_column_at_each_write_needs_no_margin(
    postgres_database: PostgresDatabase, connect: Connect, triggers: str, is_set: bool
) -> None:
    admin = await connect()
    await admin.execute(TABLE + triggers)
    async with hosted(postgres_database.dsn, mode="updated_at") as host:
        assert host.trigger is not None
        messages = {finding.check: finding.message for finding in host.trigger.findings}
        assert ("clock" in messages) is not is_set
        if not is_set:
            assert "over 1m behind" in messages["clock"]


async def test_a_trigger_that_is_dropped_while_the_watcher_runs_brings_the_margin_back(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    admin = await connect()
    await admin.execute(TABLE + SET + trigger())
    async with hosted(postgres_database.dsn, mode="updated_at") as host:
        await let_the_floor_follow(admin, host)
        await client_inserts(admin, 1, behind="50 s")
        assert await host.catch_up() == [1], "the trigger set the server's time"
        await admin.execute("DROP TRIGGER a ON orders; SELECT 1")
        assert await host.catch_up() == []
        await client_inserts(admin, 2, behind="0 s")
        assert await host.catch_up() == [2]
        await client_inserts(admin, 3, behind="50 s")
        assert await host.catch_up() == [3]
        assert host.trigger is not None
        assert "clock" in {finding.check for finding in host.trigger.findings}


async def test_a_probe_reads_no_row_of_the_margin_while_no_xid_is_assigned(connect: Connect) -> None:
    admin = await connect()
    await admin.execute(TABLE)
    await admin.execute("INSERT INTO orders SELECT n, '', now() FROM generate_series(1, 10000) n")
    await admin.execute("VACUUM ANALYZE orders")
    question = NewsByUpdate(table=TableName.parse("public.orders"), column="updated_at")
    await admin.execute(f"PREPARE news AS {news_of([question])}")

    async def rows_read(xid: int) -> int:
        asked = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE news ('{{{xid}}}', '{{2026-01-01 00:00:00Z}}')"
        return sum(_rows_of(json.loads(await admin.fetchval(asked))[0]["Plan"]))

    for mode in ("force_custom_plan", "force_generic_plan"):
        await admin.execute(f"SET plan_cache_mode = {mode}")
        newest = await admin.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8")
        assert await rows_read(newest) == 0, mode
        await admin.execute("SELECT pg_current_xact_id()")
        assert await rows_read(newest) == 10_000, mode


def _rows_of(plan: dict[str, object]) -> list[int]:
    """Return how many rows of the table each of the plan's nodes read, with those that it left out."""
    plans = plan.get("Plans", [])
    assert isinstance(plans, list)
    inner = [number for each in plans for number in _rows_of(each)]
    if plan.get("Relation Name") != "orders" or not plan["Actual Loops"]:
        return inner
    return [*inner, round(float(str(plan["Actual Rows"]))) + int(str(plan.get("Rows Removed by Filter", 0)))]
