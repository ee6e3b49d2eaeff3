"""Sessions: what is committed when, who may write, and what a broken connection leaves behind."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database, sqlite_url
from store.database.schema import database_now, setting
from store.errors import CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable
from tests.postgres_proxy import proxied
from tests.service.store.words import until_somebody_waits

ONE = {"key": "one", "value": "1"}
Begin: TypeAlias = Callable[[Database], AbstractAsyncContextManager[AsyncConnection]]


async def stored(database: Database) -> dict[str, str]:
    async with database.reading() as session:
        return {row.key: row.value for row in await session.execute(select(setting))}


async def write(session: AsyncConnection, key: str = "one", value: str = "1") -> None:
    await session.execute(insert(setting).values(key=key, value=value))


# --- transactions


async def test_a_transaction_is_committed_at_its_end(database: Database) -> None:
    async with database.transaction() as session:
        await write(session)
        assert await stored(database) == {}
    assert await stored(database) == {"one": "1"}


async def test_an_exception_anywhere_leaves_nothing(database: Database) -> None:
    with suppress(ZeroDivisionError):
        async with database.transaction() as session:
            await write(session)
            raise ZeroDivisionError
    assert await stored(database) == {}


async def test_a_cancelled_caller_finishes_its_transaction(database: Database) -> None:
    async with anyio.create_task_group() as tasks:

        async def write_and_be_cancelled() -> None:
            async with database.transaction() as session:
                tasks.cancel_scope.cancel()
                await write(session)

        tasks.start_soon(write_and_be_cancelled)
    assert await stored(database) == {"one": "1"}


async def test_a_loop_of_transactions_alone_can_be_cancelled(database: Database) -> None:
    with anyio.move_on_after(0.05) as scope:
        for _ in range(1_000):
            await stored(database)
            async with database.transaction():
                pass
    assert scope.cancelled_caught


async def test_a_transaction_ends_at_its_deadline_and_frees_its_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.database.engine.WRITE_DEADLINE", 0.05)
    with suppress(DatabaseUnavailable):
        async with database.transaction() as session:
            await write(session)
            await anyio.sleep_forever()
    monkeypatch.undo()
    async with database.transaction() as session:
        await write(session, value="2")
    assert await stored(database) == {"one": "2"}


async def test_an_error_of_the_database_is_raised_as_it_is(database: Database) -> None:
    async with database.transaction() as session:
        await write(session)
    with pytest.raises(IntegrityError):
        async with database.transaction() as session:
            await write(session)


async def test_a_reading_session_stays_on_its_snapshot_and_cannot_write(database: Database) -> None:
    count = select(func.count()).select_from(setting)
    async with database.reading() as session:
        assert (await session.execute(count)).scalar_one() == 0
        async with database.transaction() as writing:
            await write(writing)
        assert (await session.execute(count)).scalar_one() == 0
        with pytest.raises(DBAPIError, match=r"read-?only"):
            await write(session, key="two")
    assert await stored(database) == {"one": "1"}


async def test_writing_transactions_see_what_was_committed_meanwhile(postgres: Database) -> None:
    count = select(func.count()).select_from(setting)
    async with postgres.transaction() as session:
        assert (await session.execute(count)).scalar_one() == 0
        async with postgres.transaction() as other:
            await write(other)
        assert (await session.execute(count)).scalar_one() == 1


async def test_the_databases_clock_is_utc_and_moves(database: Database) -> None:
    async with database.transaction() as session:
        first, second = [(await session.execute(select(database_now()))).scalar_one() for _ in range(2)]
    assert str(first.tzinfo) == "UTC"
    assert first <= second


# --- SQLite


async def test_sqlite_is_never_locked_for_readers_and_writers_of_one_process(tmp_path: Path) -> None:
    """This holds from the very first connection on, when the file is not even in WAL mode yet."""
    async with Database.open(sqlite_url(tmp_path / "new.db")) as database:
        async with database.transaction() as session:
            await session.execute(text("CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT)"))

        async def read_and_write(number: int) -> None:
            for turn in range(5):
                async with database.transaction() as session:
                    await session.execute(select(func.count()).select_from(setting))
                    await write(session, key=f"{number}/{turn}")
                await stored(database)

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(read_and_write, number)
        assert len(await stored(database)) == 12 * 5


@pytest.mark.parametrize("file", range(10))  # one in five hundred of them was told that it is locked
async def test_many_connections_at_once_may_open_a_new_file(tmp_path: Path, file: int) -> None:
    async with (
        Database.open(sqlite_url(tmp_path / f"{file}.db"), pool_size=10) as database,
        anyio.create_task_group() as tasks,
    ):

        async def look() -> None:
            async with database.reading() as session:
                assert (await session.execute(text("PRAGMA journal_mode"))).scalar_one() == "wal"

        async def begin() -> None:
            async with database.transaction() as session:
                await session.execute(text("CREATE TABLE IF NOT EXISTS t (a)"))

        for _ in range(10):
            tasks.start_soon(look)
            tasks.start_soon(begin)


async def test_sqlite_is_set_up_to_survive_a_power_cut(tmp_path: Path) -> None:
    async with Database.open(sqlite_url(tmp_path / "new.db")) as database, database.transaction() as session:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = [(await session.execute(text(f"PRAGMA {name}"))).scalar_one() for name in pragmas]
    assert found == ["wal", 2, 1, 30000]


# --- addresses


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://localhost/x", "mysql cannot hold the metadata; give a postgresql+asyncpg:// or sqlite+aiosqlite:///"),
        ("sqlite://", "an embedded database needs a file; give a path"),
        ("sqlite+aiosqlite:///:memory:", "an embedded database needs a file; give a path"),
    ],
)
async def test_an_address_that_cannot_work_is_refused_with_a_remedy(url: str, sentence: str) -> None:
    with pytest.raises(DatabaseUnusable, match=re.escape(sentence)):
        async with Database.open(url):
            pass


@pytest.mark.parametrize("query", ["sslmode=disable", "ssl=disable", "sslmode=prefer", ""])
async def test_the_tls_mode_reaches_the_driver_under_either_name(postgres_url: str, query: str) -> None:
    async with Database.open(f"{postgres_url}?{query}") as database, database.reading() as session:
        assert (await session.execute(text("SELECT 1"))).scalar_one() == 1


# --- connections that break


async def backend_pid(session: AsyncConnection) -> int:
    return int((await session.execute(text("SELECT pg_backend_pid()"))).scalar_one())


async def terminate(database: Database, pid: int) -> None:
    async with database.transaction() as session:
        assert (await session.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})).scalar_one()


async def test_a_session_ended_by_the_server_leaves_nothing_and_the_next_one_works(postgres: Database) -> None:
    async def write_and_lose_the_connection() -> None:
        async with postgres.transaction() as session:
            await write(session)
            await terminate(postgres, await backend_pid(session))
            await write(session, key="two")

    with pytest.raises(ConnectionLost, match="nothing of the transaction was kept"):
        await write_and_lose_the_connection()
    assert await stored(postgres) == {}
    async with postgres.transaction() as session:
        await write(session)
    assert await stored(postgres) == {"one": "1"}


async def test_a_statement_in_flight_when_the_server_ends_the_session_raises_the_same(postgres: Database) -> None:
    async def wait_for_the_lock() -> None:
        async with postgres.transaction() as session:
            pids.append(await backend_pid(session))
            await session.execute(text("SELECT pg_advisory_xact_lock(1)"))

    async def end_it() -> None:
        await until_somebody_waits(postgres)
        await terminate(postgres, pids[0])

    pids: list[int] = []
    async with postgres.reading() as holder, anyio.create_task_group() as tasks:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        tasks.start_soon(end_it)
        with pytest.raises(ConnectionLost):
            await wait_for_the_lock()


async def test_a_transaction_that_idles_too_long_is_ended_by_the_server(postgres: Database, postgres_url: str) -> None:
    """A process that hangs must not keep others from taking its watchers over."""

    async def hang() -> None:
        async with database.transaction() as session:
            await write(session)
            pid = await backend_pid(session)
            while await backends(postgres, pid):
                pass
            await write(session, key="two")

    async with Database.open(postgres_url, idle_in_transaction_timeout=0.05) as database:
        with pytest.raises(ConnectionLost):
            await hang()
    assert await stored(postgres) == {}


@asynccontextmanager
async def soon_cut(
    postgres: Database, url: str
) -> AsyncIterator[tuple[Database, Callable[[AsyncConnection], Awaitable[None]]]]:
    """A database of one session, which the server cuts when it idles in a transaction; and what waits until it has."""

    async def until_cut(session: AsyncConnection) -> None:
        pid = await backend_pid(session)
        while await backends(postgres, pid):
            pass

    async with Database.open(url, pool_size=1, idle_in_transaction_timeout=1) as database:
        yield database, until_cut


async def test_the_first_error_is_raised_and_not_that_the_session_was_cut_afterwards(
    postgres: Database, postgres_url: str
) -> None:
    async with soon_cut(postgres, postgres_url) as (database, until_cut):

        async def go_wrong() -> None:
            async with database.transaction() as session:
                await until_cut(session)
                raise ZeroDivisionError

        for _ in range(2):  # each gives its connection back
            with pytest.raises(ZeroDivisionError):
                await go_wrong()
        assert await stored(database) == {}


async def test_a_session_cut_after_the_last_read_is_no_loss(postgres: Database, postgres_url: str) -> None:
    async with soon_cut(postgres, postgres_url) as (database, until_cut):
        async with database.reading() as session:
            await until_cut(session)
        assert await stored(database) == {}


async def test_a_process_that_slept_too_long_learns_of_its_lost_session_at_its_next_statement(
    postgres: Database, postgres_url: str
) -> None:
    """It has not read the server's last word yet."""

    async def sleep_through() -> None:
        async with database.transaction() as session:
            await write(session)
            time.sleep(2)  # noqa: ASYNC251  as a process that was stopped
            await write(session, key="two")

    async with soon_cut(postgres, postgres_url) as (database, _):
        with pytest.raises(ConnectionLost):
            await sleep_through()
        assert await stored(database) == {}


async def test_statements_are_committed_each_by_itself_and_leave_ordinary_transactions_behind(
    database: Database,
) -> None:
    with suppress(ZeroDivisionError):
        async with database.statements() as session:
            await write(session)
            raise ZeroDivisionError
    assert await stored(database) == ({} if database.dialect == "sqlite" else {"one": "1"})
    with suppress(ZeroDivisionError):
        async with database.transaction() as session:
            await write(session, key="two")
            raise ZeroDivisionError
    assert "two" not in await stored(database)


async def backends(database: Database, pid: int) -> int:
    count = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    async with database.reading() as session:
        return int((await session.execute(count, {"pid": pid})).scalar_one())


async def test_idle_connections_that_the_server_closed_are_never_handed_out(postgres_url: str) -> None:
    async with Database.open(postgres_url, pool_size=3) as database:
        async with database.reading() as one, database.reading() as two:
            pids = [await backend_pid(one), await backend_pid(two)]
        for pid in pids:
            with suppress(OperationalError):
                await terminate(database, pid)
        for _ in range(3):
            async with database.reading() as session:
                assert await backend_pid(session) not in pids


async def test_an_unreachable_database_is_reported_in_a_sentence() -> None:
    async with Database.open("postgresql+asyncpg://nobody:secret@127.0.0.1:1/nothing") as database:
        with pytest.raises(ConnectionLost, match="the database cannot be reached") as refused:
            async with database.reading():
                pass
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("begin", "breaks_at", "kept"),
    [
        (Database.transaction, b"COMMIT;", {}),
        (Database.transaction, b"COMMIT\x00", {"one": "1"}),
        (Database.statement, b"INSERT INTO", {}),
        (Database.statement, b"INSERT 0 1\x00", {"one": "1"}),
    ],
)
async def test_a_connection_that_breaks_in_commit_leaves_the_outcome_to_the_database(
    postgres: Database, postgres_url: str, begin: Begin, breaks_at: bytes, kept: dict[str, str]
) -> None:
    """It breaks before COMMIT reaches the server, or before the answer comes back; a single statement behaves alike."""
    async with proxied(postgres_url) as proxy, Database.open(proxy.url) as database:
        proxy.breaks_at = breaks_at
        with pytest.raises(CommitUnknown):
            async with begin(database) as session:
                await write(session)
        proxy.breaks_at = b""
        assert await stored(database) == kept
    assert await stored(postgres) == kept


async def test_a_single_statement_is_its_own_transaction(postgres: Database, postgres_url: str) -> None:
    async with proxied(postgres_url) as proxy, Database.open(proxy.url) as database:
        async with database.transaction() as session:
            await write(session)
        proxy.breaks_at = b"BEGIN"
        async with database.statement() as session:
            await session.execute(setting.delete())
            assert await stored(postgres) == {}, "committed, while its session is still held"
        async with postgres.transaction() as session:
            await write(session)
        with pytest.raises(IntegrityError):
            async with database.statement() as session:
                await write(session)
        assert database.outage is None, "that was its own error"


async def test_a_commit_that_takes_too_long_has_an_unknown_outcome(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deferred trigger waits inside COMMIT for a lock that is held here."""
    async with postgres.transaction() as session:
        for statement in SLOW_COMMIT:
            await session.execute(text(statement))
    monkeypatch.setattr("store.database.engine.COMMIT_DEADLINE", 0.1)
    async with postgres.reading() as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        with pytest.raises(CommitUnknown):
            async with postgres.transaction() as session:
                await write(session)
    monkeypatch.undo()
    async with postgres.transaction() as session:
        await session.execute(text("DROP TRIGGER slow ON setting"))


SLOW_COMMIT = (
    "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'",
    "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON setting DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
)
