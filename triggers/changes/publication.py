"""What people run beside a watcher of changes: the script that makes the publication, and the end of slots that nobody reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from triggers.base import refuse_errors
from triggers.changes.checks import judge_identities, judge_table
from triggers.changes.options import ChangesOptions
from triggers.changes.slot import drop
from triggers.changes.statements import IDENTITIES, THERE
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import FACTS
from triggers.postgres.server.notifications import Connects
from triggers.postgres.server.session import Session
from triggers.shared.postgres.failures import close_connection, driver_errors
from triggers.shared.postgres.sql import quoted

_DEFINITION: Final = """\
DO $publication$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = {text}) THEN
    CREATE PUBLICATION {name} FOR TABLE {table}
      WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
  END IF;
END $publication$;
"""


async def definition(connection: Connects, options: ChangesOptions) -> str:
    """Return the script with which the table's owner makes the publication. Running it again changes nothing.

    Raises ConfigurationError if it would make an UPDATE or DELETE of the table fail, or if changes would not say which row they
    are of: the table needs a replica identity first.
    """
    async with _session(connection) as session:
        table = options.source
        rows = (await session.fetch(FACTS, table.schema, table.name, "")).rows
        facts = TableFacts.from_row(rows[0]) if rows else None
        refuse_errors(judge_table(facts, options))
        if facts is not None:
            identities = (await session.fetch(IDENTITIES, facts.relations)).rows
            refuse_errors(judge_identities(facts, options, identities))
    name = options.publication_name
    text = "'" + name.replace("'", "''") + "'"
    return _DEFINITION.format(text=text, name=quoted(name), table=table.sql)


async def install(connection: Connects, script: str) -> None:
    """Run the script of `definition`. Raises ConfigurationError or SourceUnavailable."""
    with driver_errors():
        session = await connection.connect(default_transaction_read_only="off")
        try:
            await session.execute(script)
        finally:
            await close_connection(session)


async def slots_at(connection: Connects, names: Collection[str]) -> frozenset[str]:
    """Return those of the slots that the server has. Raises ConfigurationError or SourceUnavailable."""
    async with _session(connection) as session:
        return frozenset(row["name"] for row in (await session.fetch(THERE, [*names])).rows)


async def drop_slot(connection: Connects, name: str) -> None:
    """Drop the slot, if it is there. Raises ConfigurationError or SourceUnavailable."""
    async with _session(connection) as session:
        await drop(session, name)


@asynccontextmanager
async def _session(connection: Connects) -> AsyncIterator[Session]:
    session = Session(connection.connect)
    try:
        yield session
    finally:
        await session.close()
