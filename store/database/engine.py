"""The metadata database: SQLite embedded, PostgreSQL in production, one way to read and one way to write.

SQLite: a transaction that reads first and writes later fails at once with "database is locked" whatever the timeout. So
every writing transaction begins with BEGIN IMMEDIATE on the process's one writer connection, and readers have
connections of their own. https://www.sqlite.org/lang_transaction.html https://www.sqlite.org/wal.html

PostgreSQL: writing transactions are READ COMMITTED, because each of the store's statements relies on seeing what was
committed while the statement before it waited for a lock. Readers get one snapshot.
https://www.postgresql.org/docs/current/transaction-iso.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.database.drivers import APPLICATION, Connect, SessionRenewal, checked, postgresql_engine, sqlite_engine
from store.database.outages import Outages, nothing_written
from store.errors import CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable, StoreError

READ_DEADLINE: Final = 60.0
WRITE_DEADLINE: Final = 120.0
COMMIT_DEADLINE: Final = 30.0
CLOSE_DEADLINE: Final = 5.0
RESERVED: Final = 3
"""Sessions beside those of transactions, for single statements: no heartbeat waits behind commits."""

READING: Final = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

_END_FROZEN: Final = text("""
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND application_name = :application
      AND state = 'active' AND wait_event = 'ClientRead'
      AND state_change < clock_timestamp() - make_interval(secs => :seconds)
""")


class Database:
    """Connections to the metadata database, made by `open`.

    A connection is never cancelled half-way: once begun it runs shielded, and ends by itself within its deadline
    (`DatabaseUnavailable`). A caller that is already cancelled begins none. Nesting one in another of the same task can
    wait for itself: pass the connection on instead.
    """

    outage: StoreError | None = None
    """Why the database failed a commit, since the last one that succeeded. None: it failed none.

    An error that is the caller's own changes nothing here.
    """

    def __init__(self, url: URL, pool_size: int, idle_in_transaction_timeout: float, connect: Connect | None) -> None:
        self.url = url
        self.on_recovery: Callable[[], None] = lambda: None
        """Called when a commit succeeds after one that the database failed. Must not block."""
        self.loop = asyncio.get_running_loop()
        self._place = url.database or ""
        self._idle_timeout = idle_in_transaction_timeout
        if self.dialect == "sqlite":
            self._writer, self._reader = sqlite_engine(url, 1), sqlite_engine(url, pool_size, read_only=True)
            self._single = self._writer
        else:
            renewal = SessionRenewal()
            self._writer = postgresql_engine(url, pool_size, idle_in_transaction_timeout, renewal, connect)
            self._reader = self._writer.execution_options(**READING)
            self._alone = self._writer.execution_options(isolation_level="AUTOCOMMIT")
            reserved = postgresql_engine(url, RESERVED, idle_in_transaction_timeout, renewal, connect)
            self._single = reserved.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str | URL,
        *,
        pool_size: int = 10,
        idle_in_transaction_timeout: float = 10.0,
        connect: Connect | None = None,
    ) -> AsyncIterator[Database]:
        """Make the database's connections on first use.

        `idle_in_transaction_timeout` (seconds, PostgreSQL) must be shorter than a lease. `connect` opens its
        sessions in place of the driver (PostgreSQL). Raises `DatabaseUnusable` for an address that cannot be a metadata database.
        """
        database = cls(checked(make_url(url)), pool_size, idle_in_transaction_timeout, connect)
        try:
            yield database
        finally:
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                await database._writer.dispose()
                await database._reader.dispose()
                await database._single.dispose()

    @property
    def dialect(self) -> str:
        """The dialect: `sqlite` or `postgresql`."""
        return self.url.get_backend_name()

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open one writing transaction: committed when the block ends, rolled back when it raises.

        Raises `DatabaseUnavailable`, or `ConnectionLost` if the database went away, or became read-only, before COMMIT took effect:
        nothing was written, and the sessions of both pools are renewed.
        Raises `CommitUnknown` if the connection broke during COMMIT, or COMMIT took too long: only the database knows
        the outcome. Raises `DatabaseUnusable` if that will stay so until a person acts.
        """
        return self._writing(self._writer)

    def statements(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a connection on which each statement is its own transaction, in one round trip; on SQLite, one for all.

        Nothing is locked between two statements, so nobody waits while this process is slow or stopped. Use it only for
        statements that may be repeated: after `ConnectionLost` the outcome of the last one is unknown.
        """
        return self._writing(self._single)

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for one statement that is a transaction by itself, in one round trip (PostgreSQL).

        Raises as `transaction` does; what breaks while the statement runs is `CommitUnknown`.
        """
        outages = Outages(place=self._place, writing=True)
        async with self._writing(self._alone) as connection:
            with _outcome_named(outages), anyio.fail_after(COMMIT_DEADLINE):
                yield connection

    @asynccontextmanager
    async def _writing(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        outages = Outages(place=self._place, writing=True)
        try:
            async with _connected(engine, WRITE_DEADLINE, outages) as connection:
                before = self._changes(connection)
                yield connection
                kept = before is None or before != self._changes(connection)
        except (DatabaseUnavailable, DatabaseUnusable, CommitUnknown) as error:
            self.outage = error
            raise
        if kept and self.outage is not None:
            self.outage = None
            self.on_recovery()

    @asynccontextmanager
    async def session_of_its_own(self) -> AsyncIterator[Any]:
        """Open asyncpg's connection, outside the pool and for the block alone (PostgreSQL). Raises `ConnectionLost`."""
        connection = self._single.connect()
        outages = Outages(place=self._place, writing=False)
        try:
            with anyio.CancelScope(shield=True), _within(READ_DEADLINE), _outages_named(outages):
                await _begin(connection, outages)
                driver = (await connection.get_raw_connection()).driver_connection
                await connection.run_sync(lambda synchronous: synchronous.detach())
            yield driver
        finally:
            with anyio.CancelScope(shield=True):
                await _give_back(connection)

    async def end_frozen_sessions(self) -> int:
        """End our sessions whose process was stopped in the middle of a statement; return how many (PostgreSQL).

        Such a session keeps its locks. asyncpg sends a statement that it has not prepared in two halves. A session that
        waits for the second counts as busy, so idle_in_transaction_session_timeout does not apply to it; here it gets
        the same time. Its process finds it gone, as after that timeout.
        https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT
        """
        if self.dialect != "postgresql":
            return 0
        async with self.statements() as connection:
            ended = await connection.execute(_END_FROZEN, {"application": APPLICATION, "seconds": self._idle_timeout})
            return int(ended.scalar_one())

    def reading(self, deadline: float | None = None) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a connection on one snapshot; the database refuses writes in it. Raises as `transaction` does."""
        return _connected(self._reader, deadline or READ_DEADLINE, Outages(place=self._place, writing=False))

    def _changes(self, connection: AsyncConnection) -> int | None:
        """Return how many rows the connection has written, on SQLite.

        There a commit of nothing succeeds on a full disk.
        """
        if self.dialect != "sqlite" or connection.sync_connection is None:
            return None
        driver: Any = connection.sync_connection.connection.driver_connection
        return int(driver.total_changes)


def sqlite_url(path: Path) -> URL:
    """Return the URL of an embedded database file."""
    return URL.create("sqlite+aiosqlite", database=str(path))


@asynccontextmanager
async def _connected(engine: AsyncEngine, deadline: float, outages: Outages) -> AsyncIterator[AsyncConnection]:
    await checkpoint_if_cancelled()
    connection = engine.connect()
    with anyio.CancelScope(shield=True):
        try:
            with _within(deadline), _outages_named(outages):
                await _begin(connection, outages)
                yield connection
            if outages.writing:
                with _outcome_named(outages), anyio.fail_after(COMMIT_DEADLINE):
                    await connection.commit()
        finally:
            await _give_back(connection)


async def _give_back(connection: AsyncConnection) -> None:
    """Return a connection to the pool, and ignore errors of a session that is gone.

    What it did not commit is undone, and the pool makes another one.
    """
    if connection.sync_connection is not None:
        with (
            anyio.move_on_after(CLOSE_DEADLINE),
            suppress(OSError, DBAPIError),
        ):  # the pool drops a connection that does not answer
            await connection.close()


async def _begin(connection: AsyncConnection, outages: Outages) -> None:
    """Take a connection now, so that a refusal is recognised as one, and begin: a backend's session only joins."""
    try:
        await connection.start()
    except InvalidRequestError as error:  # twice, the pool's session was not to be used any more
        raise ConnectionLost("the sessions of the database are ending; nothing of the transaction was kept") from error
    except Exception as error:
        if (outage := outages.named(error, connecting=True)) is not None:
            raise outage from error
        raise
    await connection.begin()


@contextmanager
def _within(deadline: float) -> Iterator[None]:
    with anyio.move_on_after(deadline) as scope:
        yield
    if scope.cancelled_caught:
        raise DatabaseUnavailable(
            f"the database took longer than {deadline:g} s; check what it is doing, and who holds its locks"
        )


@contextmanager
def _outages_named(outages: Outages) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if (outage := outages.named(error)) is not None:
            raise outage from error
        raise


@contextmanager
def _outcome_named(outages: Outages) -> Iterator[None]:
    try:
        yield
    except (OSError, DBAPIError) as error:  # TimeoutError is an OSError
        outage = outages.named(error)
        lost = isinstance(error, OSError) or error.connection_invalidated or isinstance(outage, ConnectionLost)
        if lost and not nothing_written(error):
            raise CommitUnknown(
                "the connection to the database broke during COMMIT; read what it stored before you continue"
            ) from error
        if outage is None:
            raise
        raise outage from error  # the database answered: it refused
