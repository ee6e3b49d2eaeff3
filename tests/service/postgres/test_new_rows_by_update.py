from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import asyncpg
import pytest

from tests.servers import PostgresDatabase, PostgresServer
from tests.service.postgres.conftest import Connect, MortalServer
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.errors import SourceChanged, SourceUnavailable, TriggerError
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.server import session

pytestmark = pytest.mark.service

CUSTOMERS = """
CREATE TABLE customers (id int PRIMARY KEY, note text, updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON customers (updated_at);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION touch();
"""
OPTIONS = {"table": "public.customers", "mode": "updated_at"}

OUTLAST_THE_MARGIN = "SELECT pg_sleep(1.2)"
"""Longer than the second that is subtracted from the clock: only then could a floor that moves too early pass an open writer."""


@pytest.fixture
async def customers(connect: Connect) -> asyncpg.Connection:
    connection = await connect()
    await connection.execute(CUSTOMERS)
    return connection


async def insert(connection: asyncpg.Connection, *ids: int) -> None:
    await connection.executemany("INSERT INTO customers (id, note) VALUES ($1, 'a')", [(number,) for number in ids])


async def test_a_start_at_now_reports_rows_inserted_or_updated_after_it(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await insert(customers, 1, 2, 3)
    async with hosted(postgres_database.dsn, **OPTIONS, columns=["note"]) as host:
        assert host.committed.events == []

        await insert(customers, 4)
        await customers.execute("UPDATE customers SET note = 'b' WHERE id = 2")
        assert sorted(await host.catch_up()) == [2, 4]
        assert await host.catch_up() == []

        [event] = host.committed.events
        assert event.payload["table"] == "public.customers"
        assert event.payload["column"] == "updated_at"
        assert sorted(row["note"] for row in event.payload["rows"]) == ["a", "b"]
        assert event.watermark["from"] <= event.watermark["to"] == host.committed.watermark["up_to"]


async def test_a_start_at_all_reports_every_row_in_bounded_events(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await insert(customers, *range(25))
    async with hosted(postgres_database.dsn, **OPTIONS, start="all", batch={"max_rows": 10}) as host:
        assert sorted(host.committed.ids) == list(range(25))
        assert [event.count for event in host.committed.events] == [10, 10, 5]
        assert host.committed.writes == 4


async def test_a_start_at_a_timestamp_makes_it_the_first_floor(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await customers.execute("INSERT INTO customers VALUES (1, 'a', '2026-01-01'), (2, 'a', '2026-01-03')")
    async with hosted(postgres_database.dsn, **OPTIONS, start="2026-01-02T00:00:00Z") as host:
        assert host.committed.ids == [2]


async def test_rows_of_writers_in_progress_are_found_although_later_transactions_commit_first(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, connect: Connect
) -> None:
    early, prepared = await connect(), await connect()
    await early.execute("BEGIN; INSERT INTO customers VALUES (1); SAVEPOINT a; INSERT INTO customers VALUES (2)")
    await prepared.execute("BEGIN; INSERT INTO customers VALUES (3); PREPARE TRANSACTION 'waiting'")
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        await insert(customers, 4)
        assert await host.catch_up() == [4]
        await customers.execute(OUTLAST_THE_MARGIN)
        await host.catch_up()
        await early.execute("ROLLBACK TO a; INSERT INTO customers VALUES (5); COMMIT")
        assert await host.catch_up() == [1, 5]
        await host.catch_up()
        await prepared.execute("COMMIT PREPARED 'waiting'")
        assert await host.catch_up() == [3]


@pytest.mark.parametrize("kind", ["timestamptz", "timestamptz(0)"])
async def test_later_transactions_of_a_multi_statement_text_are_found_although_their_now_is_the_time_it_was_received(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, connect: Connect, kind: str
) -> None:
    """A column that rounds to seconds brings a time that is even earlier."""
    await customers.execute(f"ALTER TABLE customers ALTER updated_at TYPE {kind}")
    text = "BEGIN; SELECT pg_advisory_lock(1); COMMIT; BEGIN; INSERT INTO customers VALUES (1); SELECT pg_advisory_lock(2); COMMIT"
    await customers.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")
    writer = await connect()
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        await customers.execute(
            "SELECT pg_sleep(1.3 - extract(microseconds FROM clock_timestamp())::int8 % 1000000 / 1e6)"
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.execute, text)
            for number in (1, 2):
                await has_to_wait_for(number, customers)
                await customers.execute(OUTLAST_THE_MARGIN)
                for _ in range(3):
                    await host.catch_up()
                await customers.execute(f"SELECT pg_advisory_unlock({number})")
        assert await host.catch_up() == [1]


async def has_to_wait_for(number: int, connection: asyncpg.Connection) -> None:
    """Wait until a session waits for the advisory lock."""
    waits = f"SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {number} AND NOT granted)"
    with anyio.fail_after(60):
        while not await connection.fetchval(waits):
            pass


async def test_a_procedure_that_commits_again_and_again_does_not_keep_the_floor_down(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, connect: Connect
) -> None:
    """In a procedure now() is the time at which the current transaction began."""
    await customers.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")
    writer = await connect()
    async with hosted(postgres_database.dsn, **OPTIONS, lateness="0s") as host, anyio.create_task_group() as tasks:
        tasks.start_soon(
            writer.execute, "DO $$ BEGIN PERFORM pg_advisory_lock(1); COMMIT; PERFORM pg_advisory_lock(2); END $$"
        )
        await has_to_wait_for(1, customers)
        began = await customers.fetchval(
            "SELECT to_char((now() - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')"
        )
        await customers.execute(f"{OUTLAST_THE_MARGIN}; {OUTLAST_THE_MARGIN}")
        await host.catch_up()
        await customers.execute("SELECT pg_advisory_unlock(1)")
        await has_to_wait_for(2, customers)
        for _ in range(3):
            await host.catch_up()
        await insert(customers, 1)
        await host.catch_up()
        assert host.committed.watermark["floor"] > began
        await customers.execute("SELECT pg_advisory_unlock(2)")


@pytest.mark.usefixtures("customers")
async def test_the_watermark_names_the_transaction_that_keeps_the_floor_down(
    postgres_database: PostgresDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    async with hosted(postgres_database.dsn, **OPTIONS, gap_alarm={"age": "0s"}) as host:
        slow = await connect()
        async with slow.transaction():
            await slow.execute("SELECT 1")
            await host.catch_up()
            with anyio.fail_after(60):
                while host.committed.watermark["oldest"]["pid"] != slow.get_server_pid():
                    await host.catch_up()  # the server's own, as autovacuum, may be alive for a moment too
            assert host.committed.watermark["alarm"]["query"] == "SELECT 1"
        await host.catch_up()
        assert "alarm" not in host.committed.watermark


async def test_the_watermark_names_a_transaction_of_another_database_that_keeps_many_xids_remembered(
    postgres_server: PostgresServer,
    postgres_database: PostgresDatabase,
    customers: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    options = {**OPTIONS, "gap_alarm": {"count": 20, "age": "1s"}}
    with postgres_server.database() as other:
        slow = await asyncpg.connect(other.dsn)
        await slow.execute("BEGIN; SELECT pg_current_xact_id()")
        async with hosted(postgres_database.dsn, **options) as host:
            for number in range(20):
                await insert(customers, number)
            await host.catch_up()
            with anyio.fail_after(60):
                while "alarm" not in host.committed.watermark:
                    await host.catch_up()
            assert host.committed.watermark["oldest"]["pid"] == slow.get_server_pid()
            assert host.committed.watermark["alarm"]["database"] == other.name
        await slow.close()


async def test_a_long_transaction_beside_very_many_short_ones_delays_no_row(
    postgres_database: PostgresDatabase,
    customers: asyncpg.Connection,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a small scale: a statement may take two seconds, and there are fewer than millions of other transactions."""
    monkeypatch.setattr(session, "LONGEST", session.QUICK.statement)
    slow = await connect()
    await slow.execute("BEGIN; SELECT pg_current_xact_id()")
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        await customers.execute(
            "DO $$ BEGIN FOR number IN 1..20000 LOOP INSERT INTO customers (id) VALUES (number); COMMIT; END LOOP; END $$"
        )
        assert len(await host.catch_up()) == 20_000
        assert await host.catch_up() == []


async def test_the_error_of_a_poll_that_takes_too_long_names_the_remedy(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(postgres_database.dsn, **OPTIONS, where="pg_sleep(5) IS NOT NULL", unsafe_where=True) as host:
        monkeypatch.setattr(session, "LONGEST", timedelta(milliseconds=100))
        await insert(customers, 1)
        with pytest.raises(
            SourceUnavailable, match=r"end transactions that are open for a long time, .* VACUUM ANALYZE"
        ):
            await host.catch_up()


async def test_a_table_that_takes_too_long_to_read_once_can_begin_at_a_time(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small scale: a statement may take a fiftieth of a second, and the table is not very large."""
    await customers.execute(
        "INSERT INTO customers (id, updated_at) SELECT n, now() - interval '1 day' FROM generate_series(1, 1000000) n"
    )
    yesterday = (datetime.now(UTC) - timedelta(hours=23)).isoformat()
    async with hosted(postgres_database.dsn, **OPTIONS, start=yesterday) as host:
        host.committed.state = None
        host.options = host.options.model_copy(update={"start": "now"})
        await host.stop()
        little = timedelta(milliseconds=20)
        monkeypatch.setattr(session, "LONGEST", little)
        monkeypatch.setattr(session, "QUICK", replace(session.QUICK, statement=little))
        error = ""
        with anyio.fail_after(60):
            while "begin at a time instead" not in error:  # another statement may be slow, too, on a busy machine
                with pytest.raises(TriggerError) as refused:
                    await host.catch_up()
                error = str(refused.value)
    monkeypatch.undo()
    start = error.split("`")[1].removeprefix("start: ")
    async with hosted(postgres_database.dsn, **OPTIONS, start=start) as host:
        assert host.committed.ids == []
        await insert(customers, 0)
        assert await host.catch_up() == [0]


async def test_a_position_is_written_for_filtered_rows_but_not_for_the_clock_alone(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll believes that a minute has passed since the previous one."""
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    async with hosted(postgres_database.dsn, **OPTIONS, where="id < 100") as host:
        await insert(customers, 1)
        assert await host.catch_up() == [1]
        written = host.committed.writes
        for _ in range(50):
            await customers.execute("SELECT pg_current_xact_id()")  # the server's transactions go on
            await host.poll()
        assert host.committed.writes == written
        await insert(customers, 200)
        await host.poll()
        await host.poll()
        assert host.committed.writes == written + 1


async def test_a_snapshot_is_written_silently_before_it_gets_too_old(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.postgres.by_update.window.OLD", 20)
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        written, watermark = host.committed.writes, host.committed.watermark
        for _ in range(50):
            await customers.execute("SELECT pg_current_xact_id()")
            await host.poll()
        assert 0 < host.committed.silent == host.committed.writes - written <= 3
        assert host.committed.watermark == watermark
        await insert(customers, 1)
        await host.crash()
        assert await host.catch_up() == [1]


async def test_handled_xids_are_stored_as_rows_and_deleted_later(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, connect: Connect
) -> None:
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        slow = await connect()
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("INSERT INTO customers VALUES (0)")
        for number in range(1, 6):
            await insert(customers, number)
            await host.catch_up()
        assert len(host.committed.rows) == 5

        await transaction.commit()
        assert await host.catch_up() == [0]
        await insert(customers, 6)
        await host.catch_up()
        assert host.committed.rows == {}


async def test_a_crash_before_the_commit_repeats_nothing_and_loses_nothing(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        await insert(customers, 1, 2)
        await host.crash()
        await insert(customers, 3)
        await host.catch_up()
        assert sorted(host.committed.ids) == [1, 2, 3]


async def test_where_filters_row_versions(postgres_database: PostgresDatabase, customers: asyncpg.Connection) -> None:
    async with hosted(postgres_database.dsn, **OPTIONS, where="note = 'wanted'") as host:
        await insert(customers, 1, 2)
        assert await host.catch_up() == []
        await customers.execute("UPDATE customers SET note = 'wanted' WHERE id = 2")
        assert await host.catch_up() == [2]


async def test_keys_of_several_columns_are_lists(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await customers.execute(
        "CREATE TABLE lines (nr numeric, part text, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (nr, part));"
        "CREATE INDEX ON lines (updated_at)"
    )
    async with hosted(postgres_database.dsn, table="public.lines", mode="updated_at") as host:
        await customers.execute("INSERT INTO lines VALUES (1.10, 'a')")
        await host.catch_up()
        assert host.committed.events[0].payload["keys"] == [["1.10", "a"]]


async def test_partitions_are_watched_together(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await customers.execute(
        "CREATE TABLE parted (id int PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE high PARTITION OF parted FOR VALUES FROM (10) TO (20); CREATE INDEX ON parted (updated_at)"
    )
    async with hosted(postgres_database.dsn, table="public.parted", mode="updated_at") as host:
        await customers.execute("INSERT INTO parted VALUES (1), (11)")
        assert sorted(await host.catch_up()) == [1, 11]
        await customers.execute("VACUUM FULL high")
        await assert_blocked(host, "public.high was rewritten or emptied")


@pytest.mark.parametrize(
    "statement", ["VACUUM FULL customers", "ALTER TABLE customers ALTER note TYPE varchar(99)", "TRUNCATE customers"]
)
async def test_a_rewritten_table_blocks_the_watcher(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, statement: str
) -> None:
    async with hosted(postgres_database.dsn, **OPTIONS) as host:
        await insert(customers, 1)
        await host.catch_up()
        await customers.execute(statement)
        await assert_blocked(host, "public.customers was rewritten or emptied")


async def test_a_table_that_is_rewritten_between_the_parts_of_the_first_read_blocks_the_watcher(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await insert(customers, *range(20))
    await customers.execute("DELETE FROM customers WHERE id < 5")
    async with hosted(postgres_database.dsn, **OPTIONS, batch={"max_rows": 4}) as host:
        host.committed.state = None
        host.options = host.options.model_copy(update={"start": "all"})
        await host.start()
        for _ in range(2):
            await host.commit_one()
        await customers.execute("VACUUM FULL customers")
        await host.start()
        await assert_blocked(host, "customers was rewritten or emptied")


async def assert_blocked(host: TinyHost, sentence: str) -> None:
    with pytest.raises(SourceChanged, match=sentence):
        await host.catch_up()


async def test_many_waiting_rows_are_reported_in_parts_and_a_crash_between_parts_loses_and_repeats_nothing(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sessions write in the meantime, and the list of waiting rows is cut off as well."""
    monkeypatch.setattr("triggers.postgres.by_update.reader.MOST_PLACES", 25)
    monkeypatch.setattr("triggers.postgres.by_update.statements.MOST_PLACES", 25)
    await customers.execute("INSERT INTO customers (id, note) SELECT n, 'a' FROM generate_series(1, 60) n")
    await insert(customers, *range(61, 80))
    options = {**OPTIONS, "columns": ["note"], "batch": {"max_rows": 7}}
    async with hosted(postgres_database.dsn, **options, start="2026-01-01T00:00:00Z") as host:
        assert len(host.committed.ids) == 79
        await customers.execute("UPDATE customers SET note = 'b' WHERE id <= 60")
        await insert(customers, 100)
        for _ in range(2):
            await host.commit_one()
        await customers.execute("UPDATE customers SET note = 'c' WHERE id % 10 = 0")
        for _ in range(2):
            await host.commit_one()
        await host.catch_up()
        events = host.committed.events
    rows = [
        (key, row["note"])
        for event in events
        for key, row in zip(event.payload["keys"], event.payload["rows"], strict=True)
    ]
    assert len(rows) == len(set(rows))
    newest = {(row["id"], row["note"]) for row in await customers.fetch("SELECT id, note FROM customers")}
    assert newest | {(n, "a") for n in range(1, 80)} <= set(rows)
    assert max(event.count for event in events) == 7


async def test_a_restart_ends_open_writers_and_keeps_prepared_ones(mortal_server: MortalServer) -> None:
    writer = await asyncpg.connect(mortal_server.dsn)
    await writer.execute(CUSTOMERS)
    async with hosted(mortal_server.dsn, **OPTIONS) as host:
        await writer.execute("BEGIN; INSERT INTO customers VALUES (1); PREPARE TRANSACTION 'waiting'")
        await writer.execute("INSERT INTO customers VALUES (2)")
        assert await host.catch_up() == [2]
        await anyio.to_thread.run_sync(mortal_server.restart, "fast")
        writer.terminate()

        again = await asyncpg.connect(mortal_server.dsn)
        await again.execute(f"INSERT INTO customers VALUES (3); {OUTLAST_THE_MARGIN}")
        await host.start()
        assert await host.catch_up() == [3]
        await host.catch_up()
        await again.execute("COMMIT PREPARED 'waiting'")
        assert await host.catch_up() == [1]
        await again.close()


@pytest.mark.parametrize(("kind", "mark"), [("timestamptz", "now()"), ("boolean", "true")])
async def test_rows_that_are_marked_as_deleted_are_listed_apart(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection, kind: str, mark: str
) -> None:
    await customers.execute(f"ALTER TABLE customers ADD gone {kind}")
    await insert(customers, 1, 2, 3)
    async with hosted(postgres_database.dsn, **OPTIONS, soft_delete="gone") as host:
        await customers.execute(f"UPDATE customers SET gone = {mark} WHERE id IN (1, 3)")
        await customers.execute("UPDATE customers SET note = 'b' WHERE id = 2")
        await host.catch_up()
        await customers.execute("UPDATE customers SET gone = NULL WHERE id = 1")
        await host.catch_up()
    named = [
        (sorted(event.payload["keys"]), sorted(event.payload["deleted"]), event.count)
        for event in host.committed.events
    ]
    assert named == [([2], [1, 3], 3), ([1], [], 1)]


async def test_marked_rows_have_their_columns(
    postgres_database: PostgresDatabase, customers: asyncpg.Connection
) -> None:
    await customers.execute("ALTER TABLE customers ADD gone boolean")
    async with hosted(postgres_database.dsn, **OPTIONS, columns=["id"], soft_delete="gone") as host:
        await customers.execute("INSERT INTO customers (id, gone) VALUES (1, true), (2, false)")
        await host.catch_up()
    [event] = host.committed.events
    assert (event.payload["keys"], event.payload["deleted"], event.payload["rows"]) == (
        [2],
        [1],
        [{"id": 1}, {"id": 2}],
    )
