"""A connection to PostgreSQL as all watchers of it share it: few sessions that only read, one list of lock holders for all."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal

import anyio
import asyncpg
from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from triggers.base import BaseConnection
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.postgres.ledger import LockSet
from triggers.postgres.sql import LOCKS, SERVER

STATEMENT_TIMEOUT: Final = 60.0
CONNECT_TIMEOUT: Final = 15.0
CLOSE_TIMEOUT: Final = 5.0
UNREADABLE_ADDRESS: Final = (
    "the connection's address is not understood: percent-encode special characters in the dsn's user and password"
)
READ_ONLY_TRANSACTION: Final = "25006"
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


class NotPrimary(SourceUnavailable):
    """A standby answered: it lists no lock holders and may be behind."""


class PostgresConnection(BaseConnection):
    model_config = ConfigDict(hide_input_in_errors=True)

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
            yield PostgresClient([await stack.enter_async_context(self._session()) for _ in range(self.pool_size)])

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        session = Session()
        address: dict[str, Any] = {
            "dsn": _revealed(self.dsn),
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "password": _revealed(self.password),
            "ssl": self.sslmode,
        }
        pool = asyncpg.create_pool(
            **{name: value for name, value in address.items() if value is not None},
            min_size=0,
            max_size=1,
            init=session.greet,
            reset=_keep_as_it_is,
            max_queries=10**9,
            statement_cache_size=1000,
            max_cached_statement_lifetime=0,
            command_timeout=STATEMENT_TIMEOUT + 5,  # the server's own limit comes first, unless it is gone
            timeout=CONNECT_TIMEOUT,
            target_session_attrs="primary",
            server_settings=SETTINGS,
        )
        session.pool = await pool
        try:
            yield session
        finally:
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await pool.close()
            pool.terminate()  # a server that is gone says no goodbye; else this does nothing


@dataclass(frozen=True, kw_only=True)
class Server:
    """`boot` tells one life of the server from the next, `timeline` one history from the one after a failover."""

    system_identifier: str
    timeline: int
    boot: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The rows of one statement, and the server that gave them."""

    rows: Sequence[Any]
    server: Server


class Session:
    """One connection at a time, made when it is needed and again when it was lost; callers take turns.

    It stays with its tables, so that their statements stay prepared (asyncpg keeps them per connection).
    """

    pool: asyncpg.Pool
    _server: Server

    async def greet(self, connection: Any) -> None:
        """Called by the pool with each new connection."""
        self._server = Server(**await connection.fetchrow(SERVER))

    async def fetch(self, statement: str, *arguments: object) -> Answer:
        """One statement, one snapshot. Raises ConfigurationError or SourceUnavailable, and nothing of the driver's."""
        with errors_told_apart():
            async with self.pool.acquire(timeout=STATEMENT_TIMEOUT) as connection:
                return Answer(rows=await connection.fetch(statement, *arguments), server=self._server)

    async def reconnect(self) -> None:
        """The next statement gets a new connection."""
        await self.pool.expire_connections()


class PostgresClient:
    """What the triggers of one connection share."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.locks = LockHolders(sessions[0])
        self._sessions = sessions
        self._next = cycle(sessions)
        self._kept: dict[Hashable, Session] = {}

    def session(self, key: Hashable) -> Session:
        """The same session for the same key."""
        if key not in self._kept:
            self._kept[key] = next(self._next)
        return self._kept[key]

    async def reconnect(self) -> None:
        """All sessions anew: some may still lead to a server that is no longer the one."""
        for session in self._sessions:
            await session.reconnect()


class LockHolders:
    """Lists of lock holders, read once for all who wait for one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = anyio.Lock()
        self._gathering = _Question()

    async def read(self, relations: Iterable[int]) -> LockSet:
        """Who writes to `relations`, read after this call began: whoever comes while a list is being read gets the next."""
        wanted = frozenset(relations)
        question = self._gathering
        question.relations |= wanted
        async with self._turn:
            if question.answer is None:
                if self._gathering is question:
                    self._gathering = _Question()
                question.answer = (await self._session.fetch(LOCKS, sorted(question.relations))).rows[0]
        row = question.answer
        holders = {transaction: pid for relation, transaction, pid in row["locks"] if relation in wanted}
        return LockSet(boot=row["boot"], at=row["at"], holders=holders)


class _Question:
    """A list to be read, and for which relations; `answer` None: not read yet."""

    def __init__(self) -> None:
        self.relations: frozenset[int] = frozenset()
        self.answer: Any = None


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


async def _keep_as_it_is(_: object) -> None:
    """No statement here changes the session: the pool need not reset it, which would cost a round trip each time."""


@contextmanager
def errors_told_apart() -> Iterator[None]:
    """Only a person mends refused names, rights and expressions; all else may pass by itself.

    Texts of the driver about the address are not repeated: they may quote a part of a password.
    """
    try:
        yield
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise NotPrimary("the server is a standby: connect to the primary") from error
    except asyncpg.PostgresError as error:
        raise _judged(error) from error
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(f"the server's certificate was refused: {error}") from error
    except OSError as error:
        raise SourceUnavailable(f"PostgreSQL did not answer: {str(error) or 'timeout'}") from error
    except ValueError:  # the driver's, of addresses; statements and their arguments are ours
        raise ConfigurationError(UNREADABLE_ADDRESS) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise SourceUnavailable(f"the connection to PostgreSQL was lost: {error}") from error


def _judged(error: asyncpg.PostgresError) -> ConfigurationError | SourceUnavailable:
    """By SQLSTATE (PostgreSQL manual, appendix A). Details and hints are left out: they may quote rows."""
    code = error.sqlstate or ""
    sentence = f"PostgreSQL refused: {error.args[0]} (SQLSTATE {code})"
    lasting = code[:2] in {"0A", "22", "28", "3D", "3F", "42"} or code == READ_ONLY_TRANSACTION
    if lasting and not isinstance(error, asyncpg.InvalidCachedStatementError):
        return ConfigurationError(sentence)
    return SourceUnavailable(sentence)
