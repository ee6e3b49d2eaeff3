"""A connection to PostgreSQL as all watchers of it share it: few sessions that only read, one list of lock holders for all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal

import anyio
import asyncpg
from pydantic import Field, SecretStr, field_validator, model_validator

from triggers.base import BaseConnection
from triggers.postgres.failures import close_connection, driver_errors
from triggers.postgres.ledger import LockSet
from triggers.postgres.notifications import Notifications
from triggers.postgres.sql import LOCKS, SERVER

STATEMENT_TIMEOUT: Final = 60.0
CONNECT_TIMEOUT: Final = 15.0
SETTINGS: Final = {
    "application_name": "asset-watcher",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "read committed",
    "statement_timeout": str(int(STATEMENT_TIMEOUT * 1000)),
    "idle_in_transaction_session_timeout": str(int(STATEMENT_TIMEOUT * 1000)),
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    # Rows are read along the index: what a limit cuts off is then never looked at. A bitmap or a sort would read all of a
    # large gap for each part of it. Compiling costs more than any statement here.
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
}


class PostgresConnection(BaseConnection):
    type: Literal["postgres"] = "postgres"
    dsn: SecretStr | None = None
    host: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    database: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    pool_size: int = Field(default=4, ge=1, le=100)

    @field_validator("dsn")
    @classmethod
    def _readable(cls, dsn: SecretStr | None) -> SecretStr | None:
        if dsn is not None and not dsn.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("write the dsn as postgresql://user:password@host:5432/database")
        return dsn

    @model_validator(mode="after")
    def _one_address(self) -> PostgresConnection:
        parts = {"host", "port", "database", "user", "password"} & self.model_fields_set
        if self.dsn is not None and parts:
            raise ValueError(f"give either dsn or {', '.join(sorted(parts))}, not both")
        if self.dsn is None and self.host is None:
            raise ValueError("give a dsn, or at least a host")
        return self

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PostgresClient]:
        async with AsyncExitStack() as stack:
            sessions = [Session(self.connect) for _ in range(self.pool_size)]
            for session in sessions:
                stack.push_async_callback(session.close)
            notifications = Notifications(self.connect)
            await stack.enter_async_context(_running_beside(notifications.run))
            yield PostgresClient(sessions, notifications)

    async def connect(self, **settings: str) -> asyncpg.Connection:
        """A connection to the primary; `settings` override the usual ones. Raises the driver's errors."""
        address = {
            "dsn": self.dsn and self.dsn.get_secret_value(),
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "password": self.password and self.password.get_secret_value(),
            "ssl": self.sslmode,
        }
        return await asyncpg.connect(
            **{name: value for name, value in address.items() if value is not None},
            target_session_attrs="primary",
            timeout=CONNECT_TIMEOUT,
            command_timeout=STATEMENT_TIMEOUT + 5,  # the server's own limit comes first, unless it is gone
            statement_cache_size=1000,
            max_cached_statement_lifetime=0,
            server_settings=SETTINGS | settings,
        )


@dataclass(frozen=True, kw_only=True)
class Server:
    """`boot` tells one life of the server from the next, `timeline` one history from the one after a failover."""

    system_identifier: str
    timeline: int
    boot: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """The rows of one statement, and the server that gave them."""

    rows: Sequence[Any]
    server: Server


class Session:
    """One connection at a time, made when it is needed and again when it was lost; callers take turns.

    It stays with its tables, so that their statements stay prepared (asyncpg keeps them per connection). A pool would do
    the same, and add more time to each statement than the statement takes.
    """

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]]) -> None:
        self._connect = connect
        self._connection: asyncpg.Connection | None = None
        self._server: Server
        self._turn = anyio.Lock(fast_acquire=True)
        self._may_lead_elsewhere = False

    async def fetch(self, statement: str, *arguments: object) -> Result:
        """One statement, one snapshot. Raises ConfigurationError or SourceUnavailable, and nothing of the driver's."""
        with driver_errors():
            async with self._turn:
                connection = await self._connected()
                try:
                    return Result(rows=await connection.fetch(statement, *arguments), server=self._server)
                except asyncpg.PostgresError:
                    raise
                except BaseException:  # cancelled, or lost, in the middle of an answer
                    await self.close()
                    raise

    def reconnect(self) -> None:
        """The next statement gets a new connection."""
        self._may_lead_elsewhere = True

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed() or self._may_lead_elsewhere:
            await self.close()
            self._may_lead_elsewhere = False
            self._connection = await self._connect()
            try:
                self._server = Server(**await self._connection.fetchrow(SERVER))
            except BaseException:
                await self.close()
                raise
        return self._connection


class PostgresClient:
    """What the triggers of one connection share."""

    def __init__(self, sessions: Sequence[Session], notifications: Notifications) -> None:
        self.locks = LockHolders(sessions[0])
        self.notifications = notifications
        self._sessions = sessions
        self._next = cycle(sessions)
        self._pinned: dict[Hashable, Session] = {}

    def session(self, key: Hashable) -> Session:
        """The same session for the same key."""
        if key not in self._pinned:
            self._pinned[key] = next(self._next)
        return self._pinned[key]

    def reconnect(self) -> None:
        """All sessions anew: some may still lead to a server that is no longer the one."""
        for session in self._sessions:
            session.reconnect()


class LockHolders:
    """Lists of lock holders, read once for all who wait for one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = anyio.Lock()
        self._gathering = _LockQuery()

    async def read(self, relations: Iterable[int]) -> LockSet:
        """Who writes to `relations`, read after this call began: whoever comes while a list is being read gets the next."""
        watched = frozenset(relations)
        query = self._gathering
        query.relations |= watched
        async with self._turn:
            if query.row is None:
                if self._gathering is query:
                    self._gathering = _LockQuery()
                query.row = (await self._session.fetch(LOCKS, sorted(query.relations))).rows[0]
        row = query.row
        holders = {transaction: pid for relation, transaction, pid in row["locks"] if relation in watched}
        return LockSet(boot=row["boot"], at=row["at"], holders=holders)


@dataclass(eq=False)
class _LockQuery:
    """A list to be read, and for which relations; `row` None: not read yet."""

    relations: frozenset[int] = frozenset()
    row: Any = None


@asynccontextmanager
async def _running_beside(function: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """`function`, which raises nothing, runs as long as the block, whose errors come out as they are."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(function)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        [error] = group.exceptions
        raise error from error.__cause__
