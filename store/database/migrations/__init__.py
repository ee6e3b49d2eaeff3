"""The metadata database's history: one sequence of migrations for SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from store.database.engine import Database
from store.errors import SchemaOutdated

_UPGRADE_LOCK = 4_037_871_201  # an arbitrary number, the same in every release


async def upgrade(database: Database) -> None:
    """Bring the schema to this program's revision; does nothing when it is there. Two processes do it one at a time."""
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        await connection.run_sync(lambda synchronous: command.upgrade(config(synchronous), "head"))


async def check(database: Database) -> None:
    """Raise `SchemaOutdated` unless the schema is exactly this program's."""
    async with database.reading() as connection:
        revision = await connection.run_sync(
            lambda synchronous: MigrationContext.configure(synchronous).get_current_revision()
        )
    head = ScriptDirectory.from_config(config()).get_current_head()
    if revision != head:
        raise SchemaOutdated(
            f"the database's schema is at revision {revision or 'none'}, this program needs {head}; "
            f"run `watcher db upgrade` with the newest version of the program"
        )


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, without a file."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made
