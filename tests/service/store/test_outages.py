"""What is the database's own fault, what it says of it, and what is its callers'."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.schema import setting
from store.errors import ConnectionLost, DatabaseUnavailable, DatabaseUnusable
from tests.effort import PATIENCE
from tests.postgres_proxy import proxied
from tests.servers import PostgresServer

pytestmark = pytest.mark.service
on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


async def write(database: Database, key: str = "key") -> None:
    async with database.transaction() as connection:
        await insert_into(connection, key)


async def insert_into(connection: AsyncConnection, key: str, value: str = "1") -> None:
    await connection.execute(insert(setting).values(key=key, value=value))


async def test_an_error_of_the_caller_is_not_an_outage(database: Database) -> None:
    await write(database)
    with pytest.raises(IntegrityError):
        await write(database)
    assert database.outage is None
    with pytest.raises(ZeroDivisionError):
        async with database.transaction():
            raise ZeroDivisionError
    assert database.outage is None


@on_sqlite
@pytest.mark.parametrize(
    ("pragma", "back", "words"),
    [
        ("max_page_count = 1", "max_page_count = 1000000", "the disk of .*watcher.db is full"),
        ("query_only = ON", "query_only = OFF", "watcher.db is read-only"),
    ],
)
async def test_a_file_that_accepts_no_writes_is_an_outage_until_it_does(
    database: Database, pragma: str, back: str, words: str
) -> None:
    await set_pragma(database, pragma)
    with pytest.raises(DatabaseUnavailable, match=words):
        await write_much(database)
    assert "free some space" in str(database.outage) or "let this account write" in str(database.outage)
    with suppress(DatabaseUnavailable):
        async with database.transaction():
            pass
    assert database.outage is not None, "a commit of nothing shows nothing"
    await set_pragma(database, back)
    await write(database)
    assert database.outage is None


async def write_much(database: Database) -> None:
    async with database.transaction() as connection:
        for number in range(1_000):
            await insert_into(connection, f"{number}", "x" * 10_000)


async def set_pragma(database: Database, pragma: str) -> None:
    """Settings of the writer's one connection, outside any transaction."""
    async with database._writer.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.execute(f"PRAGMA {pragma}")


@on_postgresql
async def test_a_server_that_accepts_no_writes_is_an_outage_until_it_does(
    database: Database, postgres_server: PostgresServer
) -> None:
    name = str(database.url.database)
    end_sessions = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    postgres_server.execute("ALTER DATABASE {} SET default_transaction_read_only = on", name)
    postgres_server.execute(end_sessions)
    with anyio.fail_after(PATIENCE):
        while "the database is read-only" not in str(database.outage):  # first the sessions end
            with pytest.raises(DatabaseUnavailable):
                await write(database)
    with pytest.raises(
        ConnectionLost, match=r"read-only .*; let it write, or name the primary in settings.database.url"
    ):
        async with database.reading() as connection:
            await connection.execute(text("SELECT 1"))
    assert "read-only" in str(database.outage)
    postgres_server.execute("ALTER DATABASE {} RESET default_transaction_read_only", name)
    postgres_server.execute(end_sessions)
    with anyio.fail_after(PATIENCE):
        await until_written(database, "another")
    assert database.outage is None


@on_postgresql
async def test_the_reason_of_a_server_that_refuses_is_one_sentence(
    database: Database, postgres_server: PostgresServer
) -> None:
    postgres_server.execute("CREATE ROLE {} LOGIN CONNECTION LIMIT 0", role := f"limited_{database.url.database}")
    try:
        await refused(database.url.set(username=role), DatabaseUnavailable, "no connection left")
        await refused(database.url.set(database="nowhere"), DatabaseUnusable, "there is no such database")
        await refused(database.url.set(username="nobody-of-the-kind"), DatabaseUnusable, "refuses the sign-in")
        await refused(database.url.set(host="127.0.0.1", port=1), ConnectionLost, "cannot be reached")
    finally:
        postgres_server.execute("DROP ROLE {}", role)


async def refused(url, kind: type[Exception], words: str) -> None:
    async with Database.open(url) as database:
        with pytest.raises(kind, match=words):
            await write(database)
        assert words in str(database.outage)


@on_postgresql
async def test_a_connection_without_answers_ends_in_time_and_the_next_one_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.database.engine.WRITE_DEADLINE", 0.5)
    monkeypatch.setattr("store.database.engine.CLOSE_DEADLINE", 0.5)
    async with proxied(database_url) as proxy, Database.open(proxy.url) as database:
        with anyio.fail_after(PATIENCE):
            await until_written(database, "before")
            proxy.swallows = True
            for _ in range(2):  # on an established connection, and on a new one
                with pytest.raises(DatabaseUnavailable):
                    await write(database, "never")
                assert database.outage is not None
                with pytest.raises(DatabaseUnavailable, match=r"took longer than 0\.1 s"):
                    async with database.reading(0.1) as connection:
                        await connection.execute(text("SELECT 1"))
            proxy.swallows = False
            await until_written(database, "after")
            assert database.outage is None


async def until_written(database: Database, key: str) -> None:
    while True:
        with suppress(DatabaseUnavailable):  # half a second may be too short on this machine
            await write(database, key)
            return
