"""The metadata database's history: one sequence of migrations for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from store.database.engine import Database
from store.errors import SchemaOutdated

_UPGRADE_LOCK = 4_037_871_201  # an arbitrary number, the same in every release


async def upgrade(database: Database) -> None:
    """Bring the schema to this program's revision; does nothing when it is there. Two processes do it one at a time.

    Raises `SchemaOutdated` for a schema from which no way leads there.
    """
    with _misfits_named():
        async with database.transaction() as connection:
            if database.dialect == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
            revision = await connection.run_sync(_revision)
            if revision == _scripts().get_current_head():
                return
            if revision not in {None, *(script.revision for script in _scripts().walk_revisions())}:
                raise _outdated(revision)
            await connection.run_sync(lambda synchronous: command.upgrade(config(synchronous), "head"))


async def check(database: Database, deadline: float | None = None) -> None:
    """Raise `SchemaOutdated` unless the schema is exactly this program's."""
    with _misfits_named():
        async with database.reading(deadline) as connection:
            revision = await connection.run_sync(_revision)
    if revision != _scripts().get_current_head():
        raise _outdated(revision)


def _outdated(revision: str | None) -> SchemaOutdated:
    return SchemaOutdated(
        f"the database's schema is at revision {revision or 'none'}, this program needs {_scripts().get_current_head()}; "
        f"run `watcher db upgrade` with the newest version of the program"
    )


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@cache
def _scripts() -> ScriptDirectory:
    """Read once: each reading imports every migration."""
    return ScriptDirectory.from_config(config())


@contextmanager
def _misfits_named() -> Iterator[None]:
    """What alembic and the database refuse is what the schema is like: what the database itself lacks is named before."""
    try:
        yield
    except (CommandError, SQLAlchemyError) as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise SchemaOutdated(
            f"the database's schema is not one of this program's ({reason}); give it an empty database, or a backup"
        ) from error


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, without a file."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made
