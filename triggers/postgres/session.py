"""A session at a watched PostgreSQL: statements one after the other, each a snapshot of its own, and which server gave it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio
import asyncpg

from triggers.postgres.failures import close_connection, driver_errors
from triggers.postgres.sql import SERVER, SET_LIMITS


@dataclass(frozen=True, kw_only=True)
class Server:
    """`boot` tells one life of the server from the next, `timeline` one history from the one after a failover."""

    system_identifier: str
    timeline: int
    boot: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a statement may work, and wait for a lock, before the server ends it, and whether it is planned each time."""

    statement: timedelta
    lock: timedelta
    one_plan: bool = False
    """Planned once, for any arguments: planning takes longer than a statement that finds nothing."""

    @property
    def settings(self) -> tuple[str, ...]:
        times = (str(max(1, time // timedelta(milliseconds=1))) for time in (self.statement, self.lock))
        return (*times, "force_generic_plan" if self.one_plan else "auto")


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
        self._limits: Limits | None = None
        self._turn = anyio.Lock(fast_acquire=True)
        self._may_lead_elsewhere = False

    async def fetch(self, statement: str, *arguments: object, limits: Limits | None = None) -> Result:
        """One statement, one snapshot. Raises ConfigurationError or SourceUnavailable, and nothing of the driver's.

        Without `limits` those of the statement before are in force, or of the connection's settings.
        """
        with driver_errors():
            async with self._turn:
                connection = await self._connected()
                try:
                    if limits is not None and limits != self._limits:
                        await connection.fetchrow(SET_LIMITS, *limits.settings)
                        self._limits = limits
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
            self._connection, self._limits = await self._connect(), None
            try:
                self._server = Server(**await self._connection.fetchrow(SERVER))
            except BaseException:
                await self.close()
                raise
        return self._connection
