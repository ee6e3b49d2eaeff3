"""The metadata database: SQLite embedded, PostgreSQL in production, one way to read and one way to write.

SQLite: a transaction that reads first and writes later fails at once with "database is locked" whatever the timeout, so
every writing transaction begins with BEGIN IMMEDIATE on the process's one writer connection, and readers have
connections of their own.
https://www.sqlite.org/lang_transaction.html https://www.sqlite.org/wal.html

PostgreSQL: writing transactions are READ COMMITTED, because the store's statements rely on each of them seeing what was
committed while the one before it waited for a lock; readers get one snapshot.
https://www.postgresql.org/docs/current/transaction-iso.html
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from sqlalchemy import URL, event, make_url, text
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from store.database.outages import Outages
from store.errors import CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable, StoreError

READ_DEADLINE: Final = 60.0
WRITE_DEADLINE: Final = 120.0
COMMIT_DEADLINE: Final = 30.0
CONNECT_DEADLINE: Final = 15.0
CLOSE_DEADLINE: Final = 5.0
SQLITE_PATIENCE: Final = 30.0
"""Seconds for which a statement waits while another program has the file locked."""
RESERVED: Final = 3
"""Sessions beside those of transactions for statements by themselves: no heartbeat waits behind commits."""

_APPLICATION: Final = "asset-watcher"
"""What PostgreSQL calls our sessions."""
OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING
WRITING: Final = "READ COMMITTED"
READING: Final = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

_END_FROZEN: Final = text("""
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND application_name = :application
      AND state = 'active' AND wait_event = 'ClientRead'
      AND state_change < clock_timestamp() - make_interval(secs => :seconds)
""")


class Database:
    """Connections to the metadata database. Made by `open`.

    A connection is never cancelled half-way: once begun it runs shielded, and ends by itself within its deadline
    (`DatabaseUnavailable`). A caller that is cancelled already begins none.
    Nesting one in another of the same task can wait for itself: pass the connection on instead.
    """

    outage: StoreError | None = None
    """Why the database failed a commit, since it last kept one; None: it did not, or the error was its caller's own."""

    def __init__(self, url: URL, pool_size: int, idle_in_transaction_timeout: float) -> None:
        self.url = url
        self.loop = asyncio.get_running_loop()
        self._place = url.database or ""
        self._idle_timeout = idle_in_transaction_timeout
        if self.dialect == "sqlite":
            self._writer, self._reader = _sqlite_engine(url, 1), _sqlite_engine(url, pool_size, read_only=True)
            self._single = self._writer
        else:
            self._writer = _postgresql_engine(url, pool_size, idle_in_transaction_timeout)
            self._reader = self._writer.execution_options(**READING)
            self._alone = self._writer.execution_options(isolation_level="AUTOCOMMIT")
            reserved = _postgresql_engine(url, RESERVED, idle_in_transaction_timeout)
            self._single = reserved.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str | URL, *, pool_size: int = 10, idle_in_transaction_timeout: float = 10.0
    ) -> AsyncIterator[Database]:
        """Connect on first use. `idle_in_transaction_timeout` (seconds, PostgreSQL) must be shorter than a lease.

        Raises `DatabaseUnusable` for an address that cannot be a metadata database.
        """
        database = cls(_checked(make_url(url)), pool_size, idle_in_transaction_timeout)
        try:
            yield database
        finally:
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                await database._writer.dispose()
                await database._reader.dispose()
                await database._single.dispose()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.url.get_backend_name()

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """One writing transaction: committed when the block ends, rolled back when it raises.

        Raises `DatabaseUnavailable`, or `ConnectionLost` when the database went away before COMMIT: nothing was written.
        Raises `CommitUnknown` when the connection broke during COMMIT, or COMMIT took too long: then only the database
        knows. Raises `DatabaseUnusable` when that will stay so until a person acts.
        """
        return self._writing(self._writer)

    def statements(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection on which each statement is a transaction of its own, in one round trip; on SQLite, one for all.

        Nothing is held between two statements, so nobody waits for us while we are slow or stopped. Only for statements
        that may be done again: `ConnectionLost` leaves open what became of the last one.
        """
        return self._writing(self._single)

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[AsyncConnection]:
        """A connection for one statement that is a transaction by itself, in one round trip (PostgreSQL).

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
        if kept:
            self.outage = None

    @asynccontextmanager
    async def session_of_its_own(self) -> AsyncIterator[Any]:
        """Asyncpg's connection, beside the pool and for the block alone (PostgreSQL). Raises `ConnectionLost`."""
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
        """End ours whose process was stopped in the middle of a statement, locks and all, and say how many (PostgreSQL).

        asyncpg sends a statement it has not prepared in two halves. A session that waits for the second counts as busy, so that
        idle_in_transaction_session_timeout does not run; it may wait for as long as that. Its process finds it gone, as after that.
        https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT
        """
        if self.dialect != "postgresql":
            return 0
        async with self.statements() as connection:
            ended = await connection.execute(_END_FROZEN, {"application": _APPLICATION, "seconds": self._idle_timeout})
            return int(ended.scalar_one())

    def reading(self, deadline: float | None = None) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection on one snapshot; the database refuses to write in it. Raises as `transaction` does."""
        return _connected(self._reader, deadline or READ_DEADLINE, Outages(place=self._place, writing=False))

    def _changes(self, connection: AsyncConnection) -> int | None:
        """How many rows it has written, where a commit of nothing succeeds on a full disk: SQLite."""
        if self.dialect != "sqlite" or connection.sync_connection is None:
            return None
        driver: Any = connection.sync_connection.connection.driver_connection
        return int(driver.total_changes)


def sqlite_url(path: Path) -> URL:
    """The URL of an embedded database file."""
    return URL.create("sqlite+aiosqlite", database=str(path))


def _checked(url: URL) -> URL:
    name = url.get_backend_name()
    if name not in {"sqlite", "postgresql"}:
        raise DatabaseUnusable(
            f"{name} cannot hold the metadata; give a postgresql+asyncpg:// or sqlite+aiosqlite:/// address"
        )
    if name == "sqlite" and url.database in {None, "", ":memory:"}:
        raise DatabaseUnusable("an embedded database needs a file; give a path, as in sqlite+aiosqlite:///watcher.db")
    if name == "sqlite" and sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseUnusable(
            f"this Python has SQLite {sqlite3.sqlite_version}, too old to hold the metadata; use a Python with 3.35 or newer"
        )
    return url


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
    """Whatever rolling back says of a session that is gone: what it did not commit is undone, and the pool makes another."""
    if connection.sync_connection is not None:
        with anyio.move_on_after(CLOSE_DEADLINE), suppress(OSError, DBAPIError):  # the pool drops what does not answer
            await connection.close()


async def _begin(connection: AsyncConnection, outages: Outages) -> None:
    """Take a connection now, so that a refusal is known as one, and begin: a backend's session only joins."""
    try:
        await connection.start()
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
            f"the database took longer than {deadline:g} s; look what it does, or who holds its locks"
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
        if isinstance(error, OSError) or error.connection_invalidated or isinstance(outage, ConnectionLost):
            raise CommitUnknown(
                "the connection to the database broke during COMMIT; read what it has before going on"
            ) from error
        if outage is None:
            raise
        raise outage from error  # the database answered: it refused


def _sqlite_engine(url: URL, pool_size: int, *, read_only: bool = False) -> AsyncEngine:
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=WRITE_DEADLINE,
    )
    pragmas = [f"busy_timeout={SQLITE_PATIENCE * 1000:.0f}", "synchronous=FULL", "foreign_keys=ON"]
    if read_only:
        pragmas.append("query_only=ON")

    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; `start` does
        connection.run_async(_turn_on_wal)
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine.sync_engine, "connect", configure)
    event.listen(engine.sync_engine, "begin", start)
    return engine


async def _turn_on_wal(driver: Any) -> None:
    """It needs a new file for itself, and of several who want to, some are told at once that it is locked, whatever their timeout."""
    deadline = anyio.current_time() + SQLITE_PATIENCE
    while True:
        try:
            cursor = await driver.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or anyio.current_time() >= deadline:
                raise
            await anyio.sleep(0.01)
        else:
            await cursor.close()
            return


def _postgresql_engine(url: URL, pool_size: int, idle_in_transaction_timeout: float) -> AsyncEngine:
    engine = create_async_engine(
        _with_tls(url.set(drivername="postgresql+asyncpg")),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=READ_DEADLINE,
        isolation_level=WRITING,
        connect_args={
            "timeout": CONNECT_DEADLINE,
            "server_settings": {
                "application_name": _APPLICATION,
                "idle_in_transaction_session_timeout": str(int(idle_in_transaction_timeout * 1000)),
            },
        },
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def _refuse_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """Let the pool connect anew after a restart of the server; SQLAlchemy's own ping costs three round trips each time."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _with_tls(url: URL) -> URL:
    """The address with its TLS mode under asyncpg's name for it."""
    mode = url.query.get("sslmode") or url.query.get("ssl")
    bare = url.difference_update_query(["ssl", "sslmode"])
    return bare if mode is None else bare.update_query_dict({"ssl": mode})
