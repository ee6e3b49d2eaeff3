"""The trigger in the watched database that wakes watchers with `listen: true`: all that is ever written there, and only on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from triggers.postgres.failures import errors_told_apart, say_goodbye
from triggers.postgres.sql import NOTIFY_CHANNEL, quoted

if TYPE_CHECKING:
    from triggers.postgres.connection import PostgresConnection
    from triggers.postgres.options import NewRowsOptions

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
    """A script for the table's owner; running it again changes nothing. One trigger per mode, one function per schema."""
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
    with errors_told_apart():
        session = await connection.connect(default_transaction_read_only="off")
        try:
            await session.execute(definition(options))
        finally:
            await say_goodbye(session)
