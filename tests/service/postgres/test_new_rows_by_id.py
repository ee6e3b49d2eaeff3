from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from structlog.testing import capture_logs

from asset_job.sources.table_names import table_sql
from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import ORDERS, Connect
from tests.service.postgres.tiny_host import hosted
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.postgres.new_rows import NewRows
from triggers.postgres.reading.progress import ReadProgress

pytestmark = pytest.mark.service


async def insert(connection: asyncpg.Connection, rows: int = 1) -> list[int]:
    statement = "INSERT INTO orders (note, price) SELECT 'a', 1.50 FROM generate_series(1, $1) RETURNING id"
    return [row["id"] for row in await connection.fetch(statement, rows)]


async def test_a_start_at_now_reports_the_rows_inserted_after_it(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await insert(orders, 10)
    async with hosted(postgres_database.dsn) as host:
        assert host.committed.watermark == {"up_to": 10, "gaps": 0, "open_ids": 0, "oldest": None}

        await insert(orders, 2)
        await host.catch_up()

        [event] = host.committed.events
        assert event.count == 2
        assert event.watermark == {"from": 10, "to": 12}
        assert event.payload == {"table": "public.orders", "column": "id", "ranges": [[11, 12]]}


async def test_a_start_at_all_reports_every_row(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await insert(orders, 25)
    async with hosted(postgres_database.dsn, start="all", batch={"max_rows": 10}) as host:
        assert host.committed.ids == list(range(1, 26))
        assert [event.count for event in host.committed.events] == [10, 10, 5]


async def test_a_start_at_an_id_is_exclusive(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> None:
    await insert(orders, 25)
    async with hosted(postgres_database.dsn, start=20) as host:
        assert host.committed.ids == [21, 22, 23, 24, 25]


async def test_an_empty_table_is_watched_from_its_first_row(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 3)
        assert await host.catch_up() == [1, 2, 3]


async def test_rows_of_writers_in_progress_at_the_start_are_found(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    early, late = await connect(), await connect()
    first, second = early.transaction(), late.transaction()
    await first.start()
    await insert(early, 2)
    await insert(orders, 2)
    await second.start()
    await insert(late, 2)

    async with hosted(postgres_database.dsn) as host:
        assert host.committed.watermark["up_to"] == 4
        assert host.committed.watermark["open_ids"] == 2
        await first.commit()
        assert await host.catch_up() == [1, 2]
        await second.commit()
        assert await host.catch_up() == [5, 6]


async def test_a_missing_id_splits_a_range_and_its_late_row_is_reported_later(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    async with hosted(postgres_database.dsn) as host:
        slow = await connect()
        transaction = slow.transaction()
        await insert(orders, 2)
        await transaction.start()
        await insert(slow, 1)
        await insert(orders, 1)
        assert await host.catch_up() == [1, 2, 4]
        assert host.committed.events[-1].payload["ranges"] == [[1, 2], [4, 4]]

        await transaction.commit()
        assert await host.catch_up() == [3]
        assert host.committed.events[-1].watermark == {"from": 4, "to": 4}


@pytest.mark.parametrize("created", ["before the watcher began", "while it runs", "in the transaction that draws"])
async def test_the_watcher_waits_for_an_id_drawn_from_a_separate_sequence_before_its_row_is_inserted(
    postgres_database: PostgresDatabase, connect: Connect, created: str
) -> None:
    """Object-relational mappers draw ids like this, and the catalog does not show it."""
    create, draw = "CREATE SEQUENCE drawn START 10", "SELECT nextval('drawn')"
    owner, slow = await connect(), await connect()
    await owner.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
    if created.startswith("before"):
        await owner.execute(create)
    async with hosted(postgres_database.dsn, unsafe_ids=True) as host:
        if created.startswith("while"):
            await owner.execute(create)
        async with slow.transaction():
            if created.startswith("in"):
                await slow.execute(create)
            number = await slow.fetchval(draw)
            await owner.execute("INSERT INTO orders VALUES ($1)", number + 1)
            assert await host.catch_up() == [number + 1]
            assert await host.catch_up() == []
            await slow.execute("INSERT INTO orders VALUES ($1)", number)
        assert await host.catch_up() == [number]
        await host.catch_up()
        assert host.committed.watermark["up_to"] == number + 1


@pytest.mark.parametrize("level", ["parent", "grandparent"])
async def test_a_partition_is_watched_with_the_sequence_of_the_table_above_it(
    postgres_database: PostgresDatabase, connect: Connect, level: str
) -> None:
    """An INSERT into that table draws the id before it locks a partition."""
    owner, slow = await connect(), await connect()
    if owner.get_server_version().major < 17:
        pytest.skip("a partition inherits an identity column from PostgreSQL 17 on")
    await owner.execute(
        f"CREATE TABLE {level} (id bigint GENERATED BY DEFAULT AS IDENTITY, day int DEFAULT 1) PARTITION BY LIST (day)"
    )
    if level == "grandparent":
        await owner.execute("CREATE TABLE parent PARTITION OF grandparent DEFAULT PARTITION BY LIST (day)")
    await owner.execute("CREATE TABLE orders PARTITION OF parent DEFAULT; CREATE UNIQUE INDEX ON orders (id)")
    async with hosted(postgres_database.dsn) as host:
        async with slow.transaction():
            number = await slow.fetchval(f"SELECT nextval(pg_get_serial_sequence('{level}', 'id'))")
            await owner.execute(f"INSERT INTO {level} DEFAULT VALUES")
            assert await host.catch_up() == [number + 1]
            assert await host.catch_up() == []
            await slow.execute(f"INSERT INTO {level} (id) VALUES ($1)", number)
        assert await host.catch_up() == [number]


async def test_the_watermark_names_the_transaction_that_keeps_a_gap_open(
    postgres_database: PostgresDatabase,
    orders: asyncpg.Connection,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    async with hosted(postgres_database.dsn, gap_alarm={"count": 1}) as host:
        slow = await connect()
        async with slow.transaction():
            await insert(slow)
            await insert(orders)
            await host.catch_up()
            await host.catch_up()

            watermark = host.committed.watermark
            assert watermark["gaps"] == 1
            assert watermark["oldest"]["pid"] == slow.get_server_pid()
            assert watermark["alarm"]["reason"] == "too many gaps are open"
            assert "INSERT INTO orders" in watermark["alarm"]["query"]
        await host.catch_up()
        assert host.committed.watermark == {"up_to": 2, "gaps": 0, "open_ids": 0, "oldest": None}


async def test_a_late_copy_fills_one_gap_in_many_bounded_reads(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    async with hosted(postgres_database.dsn, batch={"max_rows": 700}) as host:
        loader = await connect()
        async with loader.transaction():
            await loader.copy_records_to_table("orders", records=[("copied",)] * 25_000, columns=["note"])
            await insert(orders)
            assert await host.catch_up() == [25_001]
        assert await host.catch_up() == list(range(1, 25_001))
        assert max(event.count for event in host.committed.events) == 700


async def test_deleted_rows_leave_no_gap_open(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 10)
        await orders.execute("DELETE FROM orders WHERE id % 2 = 0")
        assert await host.catch_up() == [1, 3, 5, 7, 9]
        await orders.execute("DELETE FROM orders")
        await insert(orders, 1)
        assert await host.catch_up() == [11]


async def test_updates_and_rewrites_report_no_row_twice(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 10)
        await host.catch_up()
        await orders.execute("UPDATE orders SET note = 'b'")
        await orders.execute("VACUUM FULL orders")
        await orders.execute("ALTER TABLE orders ALTER COLUMN note TYPE varchar(99)")
        await insert(orders, 1)
        assert await host.catch_up() == [11]


async def test_columns_are_reported_as_json_values(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await orders.execute(
        "ALTER TABLE orders ADD at timestamptz, ADD document json, ADD ratio float8, ADD raw bytea, ADD tags text[],"
        ' ADD "Odd ""name" uuid, ADD prices numeric[]'
    )
    columns = ["id", "price", "at", "document", "ratio", "raw", "tags", 'Odd "name', "prices"]
    async with hosted(postgres_database.dsn, columns=columns) as host:
        await orders.execute(
            "INSERT INTO orders (price, at, document, ratio, raw, tags, prices) VALUES"
            " (12.30, '2026-11-20 10:00:00.5+01', '{\"a\": [1, 2.5, 1e999]}', 'NaN', '\\x00ff', '{a,b}', '{0.1}')"
        )
        await host.catch_up()
        [event] = host.committed.events
        assert event.payload["rows"] == [
            {
                "id": 1,
                "price": "12.30",
                "at": "2026-11-20T09:00:00.5+00:00",
                "document": {"a": [1, 2.5, "1e999"]},
                "ratio": "NaN",
                "raw": "\\x00ff",
                "tags": ["a", "b"],
                'Odd "name': None,
                "prices": ["0.1"],
            }
        ]


async def test_where_filters_events_but_not_the_ledger(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    where = "note = 'wanted' -- and a comment"
    async with hosted(postgres_database.dsn, where=where, columns=["note"]) as host:
        slow = await connect()
        async with slow.transaction():
            await slow.execute("INSERT INTO orders (note) VALUES ('wanted'), ('other'), (NULL)")
            await orders.execute("INSERT INTO orders (note) VALUES ('other'), ('wanted')")
            assert await host.catch_up() == [5]
        assert await host.catch_up() == [1]
        assert host.committed.watermark["gaps"] == 0
        await orders.execute("UPDATE orders SET note = 'wanted'")
        assert await host.catch_up() == []


async def test_names_may_hold_any_character(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> None:
    await orders.execute(
        'CREATE SCHEMA "a b"; CREATE TABLE "a b"."gap" ("keep" int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "low" int)'
    )
    async with hosted(postgres_database.dsn, table="a b.gap", column="keep", columns=["low"], where="low > 1") as host:
        await orders.execute('INSERT INTO "a b"."gap" (low) VALUES (1), (2), (3)')
        assert await host.catch_up() == [2, 3]


@pytest.mark.parametrize("mode", ["id", "updated_at"])
async def test_names_of_schema_and_table_may_hold_dots_quotes_slashes_and_braces(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, mode: str
) -> None:
    table = '"a.b ""c"""."d/e {0} %s $1 é.f"'
    at = '"{at} "".%"'
    await orders.execute(
        'CREATE SCHEMA "a.b ""c"""; CREATE TABLE {table} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "x.y" int,'
        " {at} timestamptz NOT NULL DEFAULT now()); CREATE INDEX ON {table} ({at})".replace("{table}", table).replace(
            "{at}", at
        )
    )
    column = {} if mode == "id" else {"column": '{at} ".%'}
    async with hosted(postgres_database.dsn, table=table, mode=mode, columns=["x.y"], **column) as host:
        await orders.execute(f'INSERT INTO {table} ("x.y") VALUES (1), (2)')
        assert await host.catch_up() == [1, 2]
        [event] = host.committed.events
        assert event.payload["table"] == table
        assert await orders.fetchval(f"SELECT count(*) FROM {table_sql(table)}") == 2


async def test_a_crash_before_the_commit_repeats_nothing_and_loses_nothing(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await insert(orders, 3)
        await host.crash()
        await insert(orders, 3)
        await host.catch_up()
        assert host.committed.ids == [1, 2, 3, 4, 5, 6]


async def test_an_idle_poll_writes_nothing(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> None:
    await insert(orders, 3)
    async with hosted(postgres_database.dsn) as host:
        assert host.committed.writes == 1
        await orders.execute("BEGIN; INSERT INTO orders DEFAULT VALUES; ROLLBACK")
        for _ in range(5):
            await host.poll()
        assert host.committed.writes == 1


async def test_a_state_that_changed_without_an_event_is_written_once_a_minute(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    async with hosted(postgres_database.dsn, where="note = 'never'") as host:
        await insert(orders, 3)
        for _ in range(5):
            await host.poll()
        assert host.committed.watermark["up_to"] == 3
        assert host.committed.writes == 2


async def test_a_gap_that_stays_open_is_written_once(
    postgres_database: PostgresDatabase,
    orders: asyncpg.Connection,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each poll believes that a minute has passed since the previous one."""
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    async with hosted(postgres_database.dsn) as host:
        slow = await connect()
        async with slow.transaction():
            await insert(slow)
            await insert(orders)
            await host.catch_up()
            await host.poll()
            written = host.committed.writes
            for _ in range(50):
                await orders.execute("BEGIN; SELECT 1; COMMIT")
                await host.poll()
            assert host.committed.writes == written


async def test_another_table_under_the_same_name_is_noticed(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewRows, "check_again_every", timedelta(0))
    async with hosted(postgres_database.dsn) as host:
        await orders.execute(f"ALTER TABLE orders RENAME TO old; {ORDERS}")
        with pytest.raises(SourceChanged, match=r"public\.orders is another table now"):
            await host.catch_up()


async def test_a_sequence_that_is_altered_is_noticed(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewRows, "check_again_every", timedelta(0))
    async with hosted(postgres_database.dsn) as host:
        await orders.execute("ALTER SEQUENCE orders_id_seq CACHE 20")
        with pytest.raises(ConfigurationError, match="ALTER SEQUENCE orders_id_seq CACHE 1"):
            await host.catch_up()


async def test_partitions_that_are_added_later_are_watched(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    await orders.execute(
        "CREATE TABLE parted (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (3)"
    )
    async with hosted(postgres_database.dsn, table="public.parted") as host:
        await orders.execute("CREATE TABLE high PARTITION OF parted FOR VALUES FROM (3) TO (9)")
        slow = await connect()
        async with slow.transaction():
            await slow.execute("INSERT INTO parted SELECT FROM generate_series(1, 4)")
            await orders.execute("INSERT INTO parted DEFAULT VALUES")
            assert await host.catch_up() == [5]
            assert await host.catch_up() == []
        assert await host.catch_up() == [1, 2, 3, 4]


async def test_a_start_warns_of_writers_that_may_have_drawn_a_lower_id(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    slow = await connect()
    async with slow.transaction():
        await insert(slow)
        await orders.execute("INSERT INTO orders (note) SELECT 'a' FROM generate_series(1, 100001)")
        with capture_logs() as logs:
            async with hosted(postgres_database.dsn) as host:
                await host.catch_up()
    [warning] = [entry for entry in logs if entry["event"] == "postgres.start_window"]
    assert warning["watched_from"] == 3
    assert warning["writers"] == [slow.get_server_pid()]


async def test_a_start_with_too_many_holes_watches_the_newest(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    slow = await connect()
    await orders.execute("INSERT INTO orders (id) SELECT 2 * n FROM generate_series(1, 10100) n")
    await orders.execute("SELECT setval('orders_id_seq', 20200)")
    async with slow.transaction():
        await insert(slow)
        with capture_logs() as logs:
            async with hosted(postgres_database.dsn) as host:
                assert host.committed.watermark["gaps"] == 5_000
    [warning] = [entry for entry in logs if entry["event"] == "postgres.start_window"]
    assert warning["watched_from"] == 10_201


@pytest.mark.usefixtures("orders")
async def test_another_server_behind_the_address_is_noticed(postgres_database: PostgresDatabase) -> None:
    async with hosted(postgres_database.dsn) as host:
        session = host.client.session("orders_rows")
        session._server = replace(session._server, system_identifier="another")
        with pytest.raises(SourceChanged, match="leads to another server now"):
            await host.catch_up()


async def test_lock_holders_listed_after_a_restart_of_the_server_close_no_gap(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn) as host:
        await orders.execute("BEGIN; INSERT INTO orders DEFAULT VALUES; ROLLBACK")
        await insert(orders)
        await host.catch_up()
        session = host.client.session("orders_rows")
        session._server = replace(session._server, boot="another")
        with pytest.raises(SourceUnavailable, match="restarted or replaced"):
            await host.catch_up()
        assert await host.catch_up() == []
