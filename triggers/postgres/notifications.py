"""`listen: true`: PostgreSQL says that a table was written to, so that the next poll need not wait for its interval.

A notification is a hint. One that is lost, while the connection is made anew or because writes went around the trigger,
costs an interval and no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import structlog

from triggers.hosting import listen_for_ever
from triggers.postgres.failures import close_connection, driver_errors
from triggers.postgres.sql import NOTIFY_CHANNEL, quoted

if TYPE_CHECKING:
    from triggers.postgres.connection import PostgresConnection
    from triggers.postgres.options import NewRowsOptions

PROBE_EVERY: Final = 30.0
"""A network that is gone says nothing by itself."""

log = structlog.get_logger()


class Notifications:
    """One connection for all watchers of a database, made when the first wants it, and again whenever it is lost."""

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        """`connect` gives an asyncpg connection, whose commands time out."""
        self._connect = connect
        self._needed = anyio.Event()
        self._wakes: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)

    @contextmanager
    def waking(self, table_oid: int, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` when the table may have been written to, also when notifications may have been lost."""
        wakes = self._wakes[str(table_oid)]
        wakes.add(wake)
        self._needed.set()
        try:
            yield
        finally:
            wakes.discard(wake)

    async def run(self) -> None:
        """Until cancelled. Nothing that goes wrong leaves it: polls have connections of their own."""
        await self._needed.wait()
        await listen_for_ever(self._listen, log, "postgres.listen_lost")

    async def _listen(self, works: Callable[[], None]) -> None:
        """Until the connection is lost. Raises a TriggerError."""
        with driver_errors():
            connection = await self._connect()
            try:
                lost = anyio.Event()
                connection.add_termination_listener(lambda _: lost.set())
                await connection.add_listener(NOTIFY_CHANNEL, self._notified)
                log.info("postgres.listening", channel=NOTIFY_CHANNEL)
                works()
                for table_oid in self._wakes:
                    self._notified(None, 0, NOTIFY_CHANNEL, table_oid)
                while True:
                    with anyio.move_on_after(PROBE_EVERY):
                        await lost.wait()
                    await connection.execute("SELECT 1")
            finally:
                await close_connection(connection)

    def _notified(self, _connection: object, _pid: int, _channel: str, table_oid: str) -> None:
        for wake in tuple(self._wakes.get(table_oid, ())):
            wake()


_EVENTS: Final = {"id": "INSERT", "updated_at": "INSERT OR UPDATE"}
_DEFINITION: Final = """\
-- From then on PostgreSQL refuses PREPARE TRANSACTION to whoever wrote to the table: what notifies cannot be prepared.
BEGIN;
SET LOCAL lock_timeout = '5s';  -- writers wait meanwhile
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


def definition(options: NewRowsOptions) -> str:
    """The script that makes the trigger which notifies, for the table's owner; running it again changes nothing.

    It is all that is ever written to the watched database, and only on request. One trigger per mode, one function per
    schema.
    """
    table = options.source
    return _DEFINITION.format(
        function=f"{quoted(table.schema)}.asset_watcher_notify",
        channel=NOTIFY_CHANNEL,
        trigger=f"asset_watcher_{options.mode}",
        events=_EVENTS[options.mode],
        table=table.sql,
    )


async def install(connection: PostgresConnection, options: NewRowsOptions) -> None:
    """Run the script. Raises ConfigurationError or SourceUnavailable."""
    with driver_errors():
        session = await connection.connect(default_transaction_read_only="off")
        try:
            await session.execute(definition(options))
        finally:
            await close_connection(session)
