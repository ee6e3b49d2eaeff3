"""The watcher stops at a row that cannot be reported: everything before it is reported once, and nothing else is lost."""

from __future__ import annotations

import re

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.errors import SourceChanged
from triggers.postgres.reading.bad_rows import BadRow

pytestmark = pytest.mark.service

NOTES = """
CREATE TABLE notes (id bigserial PRIMARY KEY, note text, data json, updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON notes (updated_at)
"""
DEEP, LONE = "[" * 3000 + "]" * 3000, r'{"a": "\ud800"}'
POISONS = {
    "nested 3,000 deep": (
        {"columns": ["id", "data"]},
        DEEP,
        "the column data: its JSON is nested deeper than 190 levels",
    ),
    "a lone surrogate": ({"columns": ["data", "id"]}, LONE, "the column data: its JSON holds a lone surrogate"),
    "where divides by zero": (
        {"where": "1 / length(note) >= 0"},
        "{}",
        r"the condition `where`: PostgreSQL refused: division by zero \(SQLSTATE 22012\)",
    ),
}
MODES = ["id", "updated_at"]


@pytest.fixture
async def notes(connect: Connect) -> asyncpg.Connection:
    connection = await connect()
    await connection.execute(NOTES)
    return connection


async def assert_stopped(host: TinyHost, sentence: str) -> None:
    for _ in range(2):  # and it stays there
        with pytest.raises(BadRow, match=sentence):
            await host.catch_up()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("poison", POISONS)
async def test_the_watcher_stops_at_a_bad_row_and_reports_the_rest_once_it_is_fixed(
    postgres_database: PostgresDatabase, notes: asyncpg.Connection, mode: str, poison: str
) -> None:
    options, data, sentence = POISONS[poison]
    async with hosted(postgres_database.dsn, table="public.notes", mode=mode, **options) as host:
        await notes.execute("INSERT INTO notes (note, data) SELECT 'a', '{}' FROM generate_series(1, 137)")
        await notes.execute("INSERT INTO notes (note, data) VALUES ($1, $2)", "" if data == "{}" else "a", data)
        await notes.execute("INSERT INTO notes (note, data) SELECT 'a', '{}' FROM generate_series(1, 50)")
        named = r"the row with (id|the key) 138 of public\.notes cannot be reported, because of "
        await assert_stopped(host, named + sentence)
        assert sorted(host.committed.ids) == list(range(1, 138))
        assert len(host.committed.ids) == 137

        await notes.execute("UPDATE notes SET note = 'a', data = '{}' WHERE id = 138")
        await host.catch_up()
    assert sorted(host.committed.ids) == list(range(1, 189))


async def test_gaps_below_a_bad_row_are_read_and_gaps_above_it_wait(
    postgres_database: PostgresDatabase, notes: asyncpg.Connection, connect: Connect
) -> None:
    insert = "INSERT INTO notes (note) VALUES ($1)"
    early, poisoned, later = await connect(), await connect(), await connect()
    async with hosted(postgres_database.dsn, table="public.notes", where="1 / length(note) >= 0") as host:
        for session, note in ((early, "a"), (poisoned, ""), (later, "a")):
            await session.execute("BEGIN")
            await session.execute(insert, note)
        await notes.execute(insert, "a")
        assert await host.catch_up() == [4]
        await poisoned.execute("COMMIT")
        await later.execute("COMMIT")
        await notes.execute(insert, "a")
        await assert_stopped(host, "id 2 of public.notes")
        await early.execute("COMMIT")
        await assert_stopped(host, "id 2 of public.notes")
        assert host.committed.ids == [4, 1]
        await notes.execute("DELETE FROM notes WHERE id = 2")
        await host.catch_up()
    assert host.committed.ids == [4, 1, 3, 5]


@pytest.mark.parametrize("mode", MODES)
async def test_a_row_with_bytes_that_are_not_text_is_found(
    postgres_database: PostgresDatabase, connect: Connect, mode: str
) -> None:
    admin = await connect()
    await admin.execute(
        "CREATE DATABASE raw TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc"
    )
    dsn = postgres_database.dsn.replace(postgres_database.name, "raw")
    raw = await asyncpg.connect(dsn)
    try:
        await raw.execute(NOTES)
        async with hosted(dsn, table="public.notes", mode=mode, columns=["note"]) as host:
            await raw.execute("INSERT INTO notes (note) SELECT 'a' FROM generate_series(1, 20)")
            await raw.execute("INSERT INTO notes (note) VALUES (convert_from('\\xff', 'SQL_ASCII')), ('b')")
            await assert_stopped(host, r"(id|the key) 21 of public\.notes .* the column note: .* 0xff .SQLSTATE 22021")
            assert sorted(host.committed.ids) == list(range(1, 21))
    finally:
        await raw.close()
        await admin.execute("DROP DATABASE raw WITH (FORCE)")


async def retry(host: TinyHost) -> list[int]:
    """Retry all rejected rows, as a person does, and return the ids that are reported."""
    host.committed.retried = True
    await host.start()
    return await host.catch_up()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("poison", POISONS)
async def test_bad_rows_are_rejected_and_reported_once_they_can_be(
    postgres_database: PostgresDatabase, notes: asyncpg.Connection, mode: str, poison: str
) -> None:
    options, data, sentence = POISONS[poison]
    async with hosted(
        postgres_database.dsn, table="public.notes", mode=mode, on_bad_row="report", batch={"max_rows": 50}, **options
    ) as host:
        insert = "INSERT INTO notes (note, data) VALUES ($1, $2)"
        await notes.execute("INSERT INTO notes (note, data) SELECT 'a', '{}' FROM generate_series(1, 70)")
        for _ in range(3):
            await notes.execute(insert, "" if data == "{}" else "a", data)
        await notes.execute("INSERT INTO notes (note, data) SELECT 'a', '{}' FROM generate_series(1, 50)")
        await host.catch_up()
        assert sorted(host.committed.ids) == [*range(1, 71), *range(74, 124)]
        assert [item.key for item in host.committed.rejected.values()] == [71, 72, 73]
        first = next(iter(host.committed.rejected.values()))
        words = f"the column {first.column}" if first.column else ""
        assert re.search(sentence, f"{words}: {first.reason}" if words else first.reason)
        named = [key for event in host.committed.events for key in event.payload.get("rejected", ())]
        assert named == [71, 72, 73]

        events = len(host.committed.events)
        assert await retry(host) == []
        assert (len(host.committed.events), len(host.committed.rejected)) == (events, 3)
        await notes.execute("DELETE FROM notes WHERE id = 73")
        if mode == "id":
            await notes.execute("UPDATE notes SET note = 'a', data = '{}' WHERE id = 71")
            assert await retry(host) == [71]
            assert [item.key for item in host.committed.rejected.values()] == [72]
        else:
            await notes.execute("UPDATE notes SET note = 'a', data = '{}', updated_at = now() WHERE id = 71")
            assert await host.catch_up() == [71]  # a new version comes by itself, and settles the old one
            assert await retry(host) == []
            assert [item.key for item in host.committed.rejected.values()] == [72]


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_is_rejected_if_every_row_is_bad(
    postgres_database: PostgresDatabase, notes: asyncpg.Connection, mode: str
) -> None:
    options = {"table": "public.notes", "mode": mode, "columns": ["data"], "on_bad_row": "report"}
    async with hosted(postgres_database.dsn, **options) as host:
        await notes.execute("INSERT INTO notes (data) VALUES ($1)", LONE)
        await host.catch_up()
        [event] = host.committed.events
        payload = dict(event.payload)
        assert (event.count, payload["rejected"], payload["rows"]) == (0, [1], [])

        await notes.execute("INSERT INTO notes (data) SELECT $1::json FROM generate_series(1, 3)", LONE)
        for _ in range(2):
            with pytest.raises(
                SourceChanged, match=r"all 3 rows of one batch of public\.notes .* key 2 .* the column data"
            ):
                await host.catch_up()
        await notes.execute("INSERT INTO notes (data) VALUES ('{}')")
        await host.catch_up()
        assert host.committed.ids == [5]
        assert [item.key for item in host.committed.rejected.values()] == [1, 2, 3, 4]

        await notes.execute(
            "INSERT INTO notes (data) SELECT (CASE WHEN n > 101 THEN '{}' ELSE $1 END)::json FROM generate_series(1, 200) n",
            LONE,
        )
        with pytest.raises(SourceChanged, match="more than 100 rows of one batch"):
            await host.catch_up()


@pytest.mark.parametrize("mode", MODES)
async def test_only_the_row_that_is_too_large_is_rejected(
    postgres_database: PostgresDatabase, notes: asyncpg.Connection, mode: str
) -> None:
    options = {"table": "public.notes", "mode": mode, "columns": ["note"], "on_bad_row": "report"}
    async with hosted(postgres_database.dsn, max_batch_bytes=100_000, where="id <> 1", **options) as host:
        sizes = [1, 60_000, 200_000, 5, 90_000, 200_000]
        await notes.execute("INSERT INTO notes (note) SELECT repeat('a', n) FROM unnest($1::int[]) n", sizes)
        await host.catch_up()
        assert sorted(host.committed.ids) == [2, 4, 5]
        assert sorted(item.key for item in host.committed.rejected.values()) == [3, 6]
        await notes.execute("UPDATE notes SET note = 'a', updated_at = now() WHERE id IN (3, 6)")
        await retry(host)
        assert sorted(host.committed.ids) == [2, 3, 4, 5, 6]
        assert host.committed.rejected == {}
