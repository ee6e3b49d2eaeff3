"""SQLAlchemy's engines: how connections to each database are made and configured."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import anyio
from sqlalchemy import URL, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from store.database.outages import sqlstate_of
from store.errors import DatabaseUnusable

CONNECT_DEADLINE: Final = 15.0
POOL_DEADLINE: Final = 120.0
"""Seconds to wait for a connection of SQLite's pool; PostgreSQL's is `SESSION_DEADLINE`."""
SESSION_DEADLINE: Final = 60.0
SQLITE_PATIENCE: Final = 30.0
"""Seconds for which a statement waits while another program has the file locked."""
APPLICATION: Final = "asset-watcher"
"""The name of our sessions in PostgreSQL."""
OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING
WRITING: Final = "READ COMMITTED"
TLS_OPTIONS: Final = ("ssl", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl")
_READ_ONLY: Final = "25006"
_LEAVING: Final = frozenset({"57P01", "57P02", "57P03"})
"""Codes of a server that ends its sessions or takes none: it is being stopped, has crashed, or starts."""

Connect: TypeAlias = Callable[..., Awaitable[Any]]
"""What opens a session of PostgreSQL, with the arguments and errors of `asyncpg.connect`; it may also raise `StoreError`."""


def checked(url: URL) -> URL:
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


def sqlite_engine(url: URL, pool_size: int, *, read_only: bool = False) -> AsyncEngine:
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=POOL_DEADLINE,
    )
    pragmas = [f"busy_timeout={SQLITE_PATIENCE * 1000:.0f}", "synchronous=FULL", "foreign_keys=ON"]
    if read_only:
        pragmas.append("query_only=ON")

    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins no transaction by itself; `start` does
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
    """Switch the file to WAL, with retries.

    The switch needs a new file for itself. Of several processes that switch at once, some are told immediately that it
    is locked, whatever their timeout.
    """
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


@dataclass(kw_only=True)
class SessionRenewal:
    """Decides for the pools of one PostgreSQL database which of their sessions are too old to be used again.

    A server that became read-only, or that refuses work, keeps its sessions open. After such an error no pool uses a
    session that was begun before it, so the next ones lead to wherever the address leads by then.
    """

    renewals: int = 0

    def watch(self, engine: AsyncEngine) -> None:
        event.listen(engine.sync_engine, "do_connect", self._remember)
        event.listen(engine.sync_engine, "checkout", self._refuse_old)
        event.listen(engine.sync_engine, "handle_error", self._judge)

    def _remember(self, _dialect: Any, record: Any, _arguments: Any, _options: Any) -> None:
        record.info["renewals"] = self.renewals

    def _refuse_old(self, connection: Any, record: Any, _proxy: Any) -> None:
        """Let the pool reconnect, also after a restart of the server.

        SQLAlchemy's own ping costs three round trips each time.
        """
        if record.info["renewals"] != self.renewals or connection.driver_connection.is_closed():
            raise DisconnectionError

    def _judge(self, context: ExceptionContext) -> None:
        """Count an error after which sessions are renewed; a new session that a read-only server refuses is none."""
        code, connection = sqlstate_of(context.original_exception), context.connection
        writing = connection is not None and not connection.get_execution_options().get("postgresql_readonly")
        self.renewals += code in _LEAVING or (code == _READ_ONLY and writing)


def postgresql_engine(
    url: URL,
    pool_size: int,
    idle_in_transaction_timeout: float,
    renewal: SessionRenewal,
    connect: Connect | None,
) -> AsyncEngine:
    """Make a pool of sessions that `connect` opens; the driver itself by default."""
    import asyncpg  # noqa: PLC0415  not needed for SQLite

    async def connect_to_primary(**address: Any) -> Any:
        try:
            return await (connect or asyncpg.connect)(**address)
        except asyncpg.exceptions.TargetServerAttributeNotMatched:
            raise asyncpg.exceptions.ReadOnlySQLTransactionError("a new session may not write there") from None

    bare, tls = _without_tls(url.set(drivername="postgresql+asyncpg"))
    engine = create_async_engine(
        bare,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=SESSION_DEADLINE,
        isolation_level=WRITING,
        connect_args={
            "async_creator_fn": connect_to_primary,
            "timeout": CONNECT_DEADLINE,
            "target_session_attrs": "read-write",
            "server_settings": {
                "application_name": APPLICATION,
                "idle_in_transaction_session_timeout": str(int(idle_in_transaction_timeout * 1000)),
            },
            **tls,
        },
    )
    renewal.watch(engine)
    return engine


def _without_tls(url: URL) -> tuple[URL, dict[str, str]]:
    """Return the address without what it says about TLS, and asyncpg's argument with that: a dsn, the only place for files."""
    given = {"sslmode" if name == "ssl" else name: url.query[name] for name in TLS_OPTIONS if name in url.query}
    if not given:
        return url, {}
    return url.difference_update_query(TLS_OPTIONS), {"dsn": f"postgresql://?{urlencode(given, quote_via=quote)}"}
