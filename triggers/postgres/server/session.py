"""Sessions at a watched PostgreSQL, and how a watcher shares them.

A session runs statements one after the other, each in a snapshot of its own, and knows which server answers. Watchers share
a few quick sessions. A statement on a quick session may wait for a lock, and run, only for a moment: then the server cancels
it, and it is sent once more on the patient session, where locked and slow statements wait for each other and nobody waits for
them. A statement that was cancelled returned nothing, so repeating it changes no promise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import anyio
import asyncpg

from triggers.errors import SourceUnavailable
from triggers.postgres.history.judgement import is_another_timeline
from triggers.postgres.history.kept_rows import ServerMarks
from triggers.postgres.server.functions import REFUSALS, FunctionRights
from triggers.postgres.server.marks import SERVER, marks_of
from triggers.postgres.sql import SET_LIMITS
from triggers.shared.postgres.failures import (
    LOCK_TIMEOUT,
    STATEMENT_TIMEOUT,
    close_connection,
    driver_errors,
    sqlstate_of,
)

LOST: Final = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
)
"""Errors of a connection that somebody ended, or that broke. The driver's internal one is its refusal to send anything on it."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server that answers. `boot` changes when it is restarted, `timeline` after a failover, `replayed` after a crash.

    `marks` were read when this connection was opened, at the moment `at` by anyio's clock.
    """

    system_identifier: str | None
    """None where the server refuses to tell it."""
    timeline: int
    boot: str
    replayed: int | None = None
    marks: ServerMarks = field(default=ServerMarks(), compare=False)
    at: float = field(default=0.0, compare=False)

    def has_left_timeline(self, before: int) -> bool:
        """Return whether the server is known to be on another timeline than `before`: after a failover, or a restore."""
        return is_another_timeline(before, self.timeline)


NO_SERVER: Final = Server(system_identifier="", timeline=0, boot="")
"""The server of a session that was never connected."""


@dataclass(frozen=True, kw_only=True)
class StatementLimits:
    """How long a statement may run, and wait for a lock, before the server cancels it, and whether it is planned each time."""

    statement: timedelta
    lock: timedelta
    one_plan: bool = False
    """Whether one plan is used for all arguments: planning takes longer than a statement that finds nothing."""

    @property
    def settings(self) -> tuple[str, ...]:
        times = (str(max(1, time // timedelta(milliseconds=1))) for time in (self.statement, self.lock))
        return (*times, "force_generic_plan" if self.one_plan else "auto")


LONGEST: Final = timedelta(seconds=60)
QUICK: Final = StatementLimits(statement=timedelta(seconds=2), lock=timedelta(milliseconds=100))
QUICK_WITH_ONE_PLAN: Final = replace(QUICK, one_plan=True)
PATIENT_FOR: Final = 60.0
"""Seconds for which a watcher whose statement was too slow stays on the patient session."""


@dataclass(frozen=True, kw_only=True)
class StatementResult:
    """The rows of one statement, and the server that returned them."""

    rows: Sequence[Any]
    server: Server


class Session:
    """One connection at a time, opened when it is needed and again after it was lost. Callers take turns.

    A session is used for the same tables again and again, so their statements stay prepared (asyncpg keeps them per
    connection). A pool would do the same, and add more time to each statement than the statement takes.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[asyncpg.Connection]], functions: FunctionRights | None = None
    ) -> None:
        self.connect = connect
        self.functions = FunctionRights() if functions is None else functions
        self._connection: asyncpg.Connection | None = None
        self._server = NO_SERVER
        self._limits: StatementLimits | None = None
        self._turn = anyio.Lock(fast_acquire=True)
        self._may_lead_elsewhere = False

    async def fetch(self, statement: str, *arguments: object, limits: StatementLimits | None = None) -> StatementResult:
        """Run one statement in one snapshot. Raises ConfigurationError or SourceUnavailable, never an error of the driver.

        Without `limits` the limits of the previous statement stay in force, or those of the connection's settings. If a
        connection that was open before is lost, the statement is run once more on a new one: it returned nothing.
        """
        with driver_errors():
            async with self._turn:
                was_open = self._connection is not None
                try:
                    return await self._fetch(statement, arguments, limits)
                except LOST:
                    await self.close()
                    if not was_open:
                        raise
                return await self._fetch(statement, arguments, limits)

    async def _fetch(
        self, statement: str, arguments: Sequence[object], limits: StatementLimits | None
    ) -> StatementResult:
        connection = await self._connected()
        try:
            if limits is not None and limits != self._limits:
                await connection.fetchrow(SET_LIMITS, *limits.settings)
                self._limits = limits
            rows = await self._rows(connection, statement, *arguments)
            return StatementResult(rows=rows, server=self._server)
        except asyncpg.PostgresError:
            raise
        except BaseException:  # cancelled, or lost, in the middle of a result
            await self.close()
            raise

    async def _rows(self, connection: asyncpg.Connection, statement: str, *arguments: object) -> Sequence[Any]:
        """Return a statement's rows; it is repeated without the functions that the server turns out to refuse."""
        rows: Sequence[Any]
        try:
            rows = await connection.fetch(self.functions.usable(statement), *arguments)
        except REFUSALS:
            if not await self.functions.learn(connection, statement):
                raise
            rows = await connection.fetch(self.functions.usable(statement), *arguments)
        return rows

    def reconnect(self, *, opened_by: float) -> None:
        """Open a new connection for the next statement, if this one was opened by that moment."""
        self._may_lead_elsewhere = self._may_lead_elsewhere or self._server.at <= opened_by

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed() or self._may_lead_elsewhere:
            await self.close()
            self._may_lead_elsewhere = False
            self._connection, self._limits = await self.connect(), None
            try:
                self._server = await self._server_of(self._connection)
            except BaseException:
                await self.close()
                raise
        return self._connection

    async def _server_of(self, connection: asyncpg.Connection) -> Server:
        at, [row] = anyio.current_time(), await self._rows(connection, SERVER)
        marks = marks_of(row, self.functions.refused)
        return Server(
            system_identifier=row["system_identifier"],
            timeline=marks.timeline,
            boot=marks.boot,
            replayed=marks.replayed,
            marks=marks,
            at=at,
        )


@dataclass(kw_only=True, eq=False, slots=True)
class Lane:
    """The sessions of one watcher. `quick` is None if the watcher has the connection to itself and can delay nobody."""

    quick: Session | None
    patient: Session
    lock_timeout: timedelta
    one_plan: bool = False
    """Whether one plan suits all arguments of the statements that are sent as `repeated`.

    A watcher that alternates with others on a session pays a round trip for each switch.
    """
    _patient_until: float = 0.0

    async def fetch(
        self, statement: str, *arguments: object, repeated: bool = False, longest: timedelta | None = None
    ) -> StatementResult:
        """Run one statement in one snapshot, and wait for other sessions' locks for at most `lock_timeout`.

        `repeated` is for a statement that is sent again and again and can only be planned along the table's index. The server
        cancels a statement that takes longer than `longest`, or than `LONGEST`.
        """
        one_plan = repeated and self.one_plan
        if self.quick is not None and anyio.current_time() >= self._patient_until:
            try:
                return await self.quick.fetch(statement, *arguments, limits=QUICK_WITH_ONE_PLAN if one_plan else QUICK)
            except SourceUnavailable as error:
                if sqlstate_of(error) == STATEMENT_TIMEOUT:
                    self._patient_until = anyio.current_time() + PATIENT_FOR
                elif sqlstate_of(error) != LOCK_TIMEOUT:
                    raise
        limits = StatementLimits(statement=longest or LONGEST, lock=self.lock_timeout, one_plan=one_plan)
        return await self.patient.fetch(statement, *arguments, limits=limits)
