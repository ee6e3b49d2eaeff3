"""The metadata database: SQLite embedded, PostgreSQL in production, one way to read and one way to write.

SQLite: a transaction that reads first and writes later fails at once with "database is locked" whatever the timeout, so
every writing transaction begins with BEGIN IMMEDIATE on the process's one writer connection (callers without an event
loop have another and wait their turn), and readers have connections of their own.
https://www.sqlite.org/lang_transaction.html https://www.sqlite.org/wal.html

PostgreSQL: writing transactions are READ COMMITTED, because the store's statements rely on each of them seeing what was
committed while the one before it waited for a lock; readers get one snapshot.
https://www.postgresql.org/docs/current/transaction-iso.html
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from sqlalchemy import URL, Engine, event, make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from store.errors import CommitUnknown, ConnectionLost, DatabaseUnusable

READ_DEADLINE: Final = 60.0
WRITE_DEADLINE: Final = 120.0
COMMIT_DEADLINE: Final = 30.0

OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING
WRITING: Final = "READ COMMITTED"
READING: Final = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


class Database:
    """Connections to the metadata database. Made by `open`.

    A connection is never cancelled half-way: once begun it runs shielded, and ends by itself within its deadline
    (`TimeoutError`). A caller that is cancelled already begins none.
    Nesting one in another of the same task can wait for itself: pass the connection on instead.
    """

    def __init__(self, url: URL, pool_size: int, idle_in_transaction_timeout: float) -> None:
        self.url = url
        self.loop = asyncio.get_running_loop()
        self._idle_milliseconds = str(int(idle_in_transaction_timeout * 1000))
        if self.dialect == "sqlite":
            self._writer, self._reader = _sqlite_engine(url, 1), _sqlite_engine(url, pool_size, read_only=True)
        else:
            self._writer = _postgresql_engine(url, pool_size, self._idle_milliseconds)
            self._reader = self._writer.execution_options(**READING)

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
            with anyio.CancelScope(shield=True):
                await database._close()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.url.get_backend_name()

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """One writing transaction: committed when the block ends, rolled back when it raises.

        Raises `ConnectionLost` when the database went away before COMMIT: nothing was written. Raises `CommitUnknown`
        when the connection broke during COMMIT, or COMMIT took too long: then only the database knows.
        """
        return _connected(self._writer, WRITE_DEADLINE, commits=True)

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection on one snapshot; the database refuses to write in it. Raises `ConnectionLost`."""
        return _connected(self._reader, READ_DEADLINE)

    async def _close(self) -> None:
        await self._writer.dispose()
        await self._reader.dispose()


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
async def _connected(engine: AsyncEngine, deadline: float, *, commits: bool = False) -> AsyncIterator[AsyncConnection]:
    await checkpoint_if_cancelled()
    connection = engine.connect()
    with anyio.CancelScope(shield=True):
        try:
            with anyio.fail_after(deadline), _losses_told():
                await _begin(connection)
                yield connection
            if commits:
                with _unknown_outcomes_told(), anyio.fail_after(COMMIT_DEADLINE):
                    await connection.commit()
        finally:
            if connection.sync_connection is not None:
                await connection.close()


async def _begin(connection: AsyncConnection) -> None:
    """Take a connection now, so that a refusal is known as one, and on SQLite the lock of the one writer."""
    try:
        await connection.start()
    except OSError as error:  # asyncpg's word for "nobody listens"
        raise ConnectionLost(
            f"the database cannot be reached: {error}; start it, or correct settings.database.url"
        ) from error
    if connection.dialect.name == "sqlite":
        await connection.begin()


@contextmanager
def _losses_told() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if error.connection_invalidated:
            raise ConnectionLost("the connection to the database broke; nothing of the transaction was kept") from error
        raise


@contextmanager
def _unknown_outcomes_told() -> Iterator[None]:
    try:
        yield
    except (OSError, DBAPIError) as error:  # TimeoutError is an OSError
        if isinstance(error, DBAPIError) and not error.connection_invalidated:
            raise  # the database answered: it refused
        raise CommitUnknown(
            "the connection to the database broke during COMMIT; read what it has before going on"
        ) from error


def _sqlite_engine(url: URL, pool_size: int, *, read_only: bool = False) -> AsyncEngine:
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=WRITE_DEADLINE,
    )
    _prepared(engine.sync_engine, read_only=read_only)
    return engine


def _prepared(engine: Engine, *, read_only: bool = False) -> Engine:
    # First of all the patience: turning on WAL needs the file for itself.
    pragmas = ["busy_timeout=30000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"]
    if read_only:
        pragmas.append("query_only=ON")

    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; `start` does
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", start)
    return engine


def _postgresql_engine(url: URL, pool_size: int, idle_milliseconds: str) -> AsyncEngine:
    engine = create_async_engine(
        _with_tls(url.set(drivername="postgresql+asyncpg"), "ssl"),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=READ_DEADLINE,
        isolation_level=WRITING,
        connect_args={
            "server_settings": {
                "application_name": "asset-watcher",
                "idle_in_transaction_session_timeout": idle_milliseconds,
            }
        },
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def _refuse_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """Let the pool connect anew after a restart of the server; SQLAlchemy's own ping costs three round trips each time."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _with_tls(url: URL, name: str) -> URL:
    """The address with its TLS mode under the driver's name for it: `ssl` (asyncpg) or `sslmode` (libpq)."""
    mode = url.query.get("sslmode") or url.query.get("ssl")
    bare = url.difference_update_query(["ssl", "sslmode"])
    return bare if mode is None else bare.update_query_dict({name: mode})
