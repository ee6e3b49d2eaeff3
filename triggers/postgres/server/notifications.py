"""`listen: true`: PostgreSQL notifies the watcher when its table is written to, so the next poll need not wait for the interval.

A notification is a hint. One that is lost, while the connection is reopened or because writes bypassed the trigger, costs an
interval and no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import anyio
import structlog

from triggers.errors import Finding, TriggerError
from triggers.postgres.sql import NOTIFY_CHANNEL
from triggers.postgres.table_options import TableOptions
from triggers.retries import listen_for_ever
from triggers.shared.postgres.failures import close_connection, driver_errors
from triggers.shared.postgres.sql import quoted

PROBE_EVERY: Final = 20.0
"""Seconds between two statements that find out whether the connection is still alive: a network that is gone reports nothing."""

PROBE_TIMEOUT: Final = 10.0
"""Seconds for such a statement. With the time to close the connection, a dead one is noticed within 40 s."""

log = structlog.get_logger()


class Notifications:
    """One connection for all watchers of a database, opened for the first that listens, and again whenever it is lost."""

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        """`connect` returns an asyncpg connection whose commands time out."""
        self._connect = connect
        self._fault: str | None = None
        """Why no notification arrives now."""
        self._needed = anyio.Event()
        self._wakes: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)

    @contextmanager
    def waking(self, table_oid: int, wake: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call `wake` when the table may have been written to, or when notifications may have been lost."""
        wakes = self._wakes[str(table_oid)]
        wakes.add(wake)
        self._needed.set()
        try:
            yield
        finally:
            wakes.discard(wake)

    async def run(self) -> None:
        """Listen until cancelled. Raises nothing: polls have connections of their own, so a failure here is only logged."""
        await self._needed.wait()
        await listen_for_ever(self._listen, log, "postgres.listen_lost")

    @property
    def findings(self) -> Sequence[Finding]:
        """What a person should know while no notification arrives."""
        if self._fault is None:
            return ()
        message = f"no notifications arrive ({self._fault}), so polls wait for the interval"
        remedy = "check the server and the network to it; the watcher connects again by itself, and finds rows without notifications"
        return [Finding.warning("listen", message, remedy)]

    async def _listen(self, works: Callable[[], None]) -> None:
        """Listen until the connection is lost, then raise a TriggerError. All watchers poll then, and show the finding."""
        try:
            with driver_errors():
                await self._listen_on_one_connection(works)
        except TriggerError as error:
            is_news, self._fault = self._fault is None, str(error)
            if is_news:
                self._wake_all()
            raise

    async def _listen_on_one_connection(self, works: Callable[[], None]) -> None:
        connection = await self._connect()
        try:
            lost = anyio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(NOTIFY_CHANNEL, self._notified)
            log.info("postgres.listening", channel=NOTIFY_CHANNEL)
            works()
            self._fault = None
            self._wake_all()
            while True:
                with anyio.move_on_after(PROBE_EVERY):
                    await lost.wait()
                await connection.execute("SELECT 1", timeout=PROBE_TIMEOUT)
        finally:
            await close_connection(connection)

    def _wake_all(self) -> None:
        for table_oid in self._wakes:
            self._notified(None, 0, NOTIFY_CHANNEL, table_oid)

    def _notified(self, _connection: object, _pid: int, _channel: str, table_oid: str) -> None:
        for wake in tuple(self._wakes.get(table_oid, ())):
            wake()


_DEFINITION: Final = """\
-- After this, PostgreSQL refuses PREPARE TRANSACTION in transactions that wrote to the table: one that notifies cannot be prepared.
BEGIN;
SET LOCAL lock_timeout = '5s';  -- writers wait while the trigger is created
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM pg_catalog.pg_notify('{channel}', TG_RELID::text);
  RETURN NULL;
END
$function$;
CREATE OR REPLACE TRIGGER {trigger} AFTER {events} ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION {function}();
COMMIT;
"""


def definition(options: TableOptions) -> str:
    """Return the script with which the table's owner creates the trigger that notifies. Running it again changes nothing.

    This trigger is the only thing that is ever written to the watched database, and only on request. There is one trigger per
    mode and one function per schema.
    """
    table = options.source
    return _DEFINITION.format(
        function=f"{quoted(table.schema)}.asset_watcher_notify",
        channel=NOTIFY_CHANNEL,
        trigger=f"asset_watcher_{options.mode}",
        events=options.writes,
        table=table.sql,
    )


class Connects(Protocol):
    """A configured connection: `connect` opens an asyncpg connection with these settings of the session."""

    async def connect(self, **settings: str) -> Any: ...


async def install(connection: Connects, options: TableOptions) -> None:
    """Run the script of `definition`. Raises ConfigurationError or SourceUnavailable."""
    with driver_errors():
        session = await connection.connect(default_transaction_read_only="off")
        try:
            await session.execute(definition(options))
        finally:
            await close_connection(session)
