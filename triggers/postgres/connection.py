"""A connection to PostgreSQL, shared by all of its watchers: a few read-only sessions, and one list of lock holders for all.

`pool_size` sessions poll, and one of them is for statements that are slow or locked (with a `pool_size` of 1 it comes in
addition). One session reads lists of lock holders, one probes and one listens. Each is opened when it is first needed, so there
are at most `pool_size` and three.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from itertools import cycle
from typing import Any, Final, Literal, TypeVar
from weakref import WeakSet

import anyio
import asyncpg
from anyio.abc import TaskGroup
from pydantic import Field

from triggers.postgres.catalog.statements import ANY_SEQUENCE, LOCK_HOLDER, LOCKS
from triggers.postgres.server.address import PostgresAddress
from triggers.postgres.server.functions import FunctionRights
from triggers.postgres.server.locks import LockSet
from triggers.postgres.server.notifications import Notifications
from triggers.postgres.server.probes import Probes
from triggers.postgres.server.session import LONGEST, Lane, Session
from triggers.shared.postgres.opener import SessionOpener

SessionT = TypeVar("SessionT", bound=Session)

CONNECT_TIMEOUT: Final = 15.0
SETTINGS: Final = {
    "application_name": "asset-watcher",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "read committed",
    "statement_timeout": str(LONGEST // timedelta(milliseconds=1)),
    "idle_in_transaction_session_timeout": str(LONGEST // timedelta(milliseconds=1)),
    # Texts of values do not depend on what is set for the role or the database.
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    # Rows are read along the index, so rows beyond a limit are never touched. A bitmap scan or a sort would read all of a
    # large gap for each part of it. JIT compilation costs more than any statement here.
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
    # A set of xids becomes a hash table if the planner expects it to fit. Otherwise each row is compared with each of them.
    "work_mem": "64MB",
}


PROBING: Final = {"lock_timeout": "50", "statement_timeout": "1000", "plan_cache_mode": "force_generic_plan"}
"""Settings of the session that probes: it gives up quickly on a table that is locked or slow, and plans a hundred tables once."""


class PostgresConnection(PostgresAddress):
    type: Literal["postgres"] = "postgres"
    pool_size: int = Field(default=4, ge=1, le=100)

    @cached_property
    def _opener(self) -> SessionOpener:
        return SessionOpener(passwords=self.passwords)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PostgresClient]:
        async with AsyncExitStack() as stack:
            functions = FunctionRights()
            quick = [Session(self.connect, functions) for _ in range(max(1, self.pool_size - 1))]
            patient = Session(self.connect, functions)
            locks = Session(self.connect, functions) if self.pool_size > 1 else quick[0]
            probing = Session(partial(self.connect, **PROBING), functions)
            for session in (*quick, patient, locks, probing):
                stack.push_async_callback(session.close)
            tasks = await stack.enter_async_context(_tasks_beside())
            notifications = Notifications(self.connect)
            tasks.start_soon(notifications.run)
            yield PostgresClient(quick, patient, locks, Probes(probing, tasks), notifications, self.place)

    async def connect(self, **settings: str) -> asyncpg.Connection:
        """Open a connection to the primary; `settings` override the usual ones. Raises the driver's errors and `SourceUnavailable`."""
        return await self._opener.open(
            **self.address,
            target_session_attrs="primary",
            timeout=CONNECT_TIMEOUT,
            command_timeout=LONGEST.total_seconds()
            + 5,  # the server's own limit comes first, unless the server is gone
            statement_cache_size=1000,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings=SETTINGS | settings,
        )


class PostgresClient:
    """The sessions that the triggers of one connection share."""

    def __init__(
        self,
        quick: Sequence[Session],
        patient: Session,
        locks: Session,
        probes: Probes,
        notifications: Notifications,
        place: str = "",
    ) -> None:
        self.patient = patient
        self.functions = patient.functions
        self.place = place
        """The server's host and port as configured."""
        self.locks = LockHolders(locks)
        self.probes = probes
        self.notifications = notifications
        self._sessions = (*quick, patient, locks, probes.session)
        self._next = cycle(quick)
        self._pinned: dict[Hashable, Session] = {}
        self._own = WeakSet[Session]()
        self.attempts = Counter[str]()
        """How often each replication slot could not be made yet."""

    @property
    def most_sessions(self) -> int:
        """The most sessions this client opens, the one that listens included."""
        return len({*self._sessions, *self._own}) + 1

    def own(self, kind: type[SessionT]) -> SessionT:
        """Return a session for one watcher alone, which may hold it for as long as it wants. The watcher closes it."""
        session = kind(self.patient.connect)
        self._own.add(session)
        return session

    def lane(self, key: Hashable, lock_timeout: timedelta, *, is_alone: bool) -> Lane:
        """Return a lane to the same quick session for the same key. A watcher that is alone needs no second session."""
        quick = self.session(key)
        return Lane(
            quick=None if is_alone else quick, patient=quick if is_alone else self.patient, lock_timeout=lock_timeout
        )

    def session(self, key: Hashable) -> Session:
        """Return the same quick session for the same key."""
        if key not in self._pinned:
            self._pinned[key] = next(self._next)
        return self._pinned[key]

    def reconnect(self, *, opened_by: float = math.inf) -> None:
        """Reopen all sessions that were opened by this moment of anyio's clock: some may still lead to a server that was replaced."""
        for session in (*self._sessions, *self._own):
            session.reconnect(opened_by=opened_by)


class LockHolders:
    """Lists of lock holders; one read serves all callers that wait for a list."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = anyio.Lock()
        self._gathering = _LockQuery()

    async def read(self, relations: Iterable[int]) -> LockSet:
        """List the transactions that write to `relations`. The list is read after this call began: a call during a read gets the next list."""
        watched = frozenset(relations)
        query = self._gathering
        query.relations |= watched
        async with self._turn:
            if query.row is None:
                if self._gathering is query:
                    self._gathering = _LockQuery()
                query.row = (await self._session.fetch(LOCKS, sorted(query.relations))).rows[0]
        row, any_sequence = query.row, ANY_SEQUENCE in watched
        holders = {
            transaction: pid
            for relation, transaction, pid, is_sequence in row["locks"]
            if relation in watched or (any_sequence and is_sequence)
        }
        return LockSet(boot=row["boot"], at=row["at"], holders=holders)

    async def exclusive(self, relations: Sequence[int]) -> Mapping[str, Any] | None:
        """Return the session that holds an exclusive lock on one of the relations, or waits for one; None if there is none now."""
        rows = (await self._session.fetch(LOCK_HOLDER, relations)).rows
        return dict(rows[0]) if rows else None


@dataclass(eq=False)
class _LockQuery:
    """A list of lock holders of these relations; `row` is None until it is read."""

    relations: frozenset[int] = frozenset()
    row: Any = None


@asynccontextmanager
async def _tasks_beside() -> AsyncIterator[TaskGroup]:
    """A task group that runs beside the block, for tasks that raise nothing. The block's own errors are raised unchanged."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        [error] = group.exceptions
        raise error from error.__cause__
