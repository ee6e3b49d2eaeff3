"""The history of the metadata database's schema: one sequence of migrations for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.engine import Database
from store.errors import SchemaOutdated

if TYPE_CHECKING:
    from alembic.config import Config

HERE: Final = Path(__file__).parent
REVISIONS: Final = tuple(sorted(script.name.partition("_")[0] for script in (HERE / "versions").glob("[0-9]*_*.py")))
"""All revisions by the names of their files; the last is this program's. Only who migrates loads alembic."""
_FOLDED: Final = frozenset(f"{number:04}" for number in range(18, 38))
"""Revisions between 0.2.0 and 0.3.0. No release had one, and 0038 stands for them."""
_BEFORE_FOLDING: Final = "032e2bf1"
"""The last commit of the project that has a migration for each of them."""
_UPGRADE_LOCK = 4_037_871_201  # an arbitrary number, the same in every release


async def upgrade(database: Database) -> None:
    """Bring the schema to this program's revision, if it is not there. Two processes do it one after the other.

    Raises `SchemaOutdated` for a schema that no migration leads from. It names the commit that upgrades one that has a
    revision between two releases.
    """
    with _misfits_named():
        async with database.transaction() as connection:
            await lock(connection)
            revision = await connection.run_sync(_revision)
            if revision == REVISIONS[-1]:
                return
            if revision not in {None, *REVISIONS}:
                raise _outdated(revision)
            await connection.run_sync(_migrate)


async def lock(connection: AsyncConnection) -> None:
    """Let nobody else upgrade anything until this transaction ends. SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})


async def check(database: Database, deadline: float | None = None) -> None:
    """Raise `SchemaOutdated` unless the schema is exactly this program's."""
    with _misfits_named():
        async with database.reading(deadline) as connection:
            revision = await connection.run_sync(_revision)
    if revision != REVISIONS[-1]:
        raise _outdated(revision)


def _outdated(revision: str | None) -> SchemaOutdated:
    if revision in _FOLDED:
        return SchemaOutdated(
            f"the database's schema is at revision {revision}, between the releases 0.2.0 and 0.3.0; run `watcher db upgrade` "
            f"of the project's commit {_BEFORE_FOLDING} first, which brings it to 0038"
        )
    return SchemaOutdated(
        f"the database's schema is at revision {revision or 'none'}, this program needs {REVISIONS[-1]}; "
        f"run `watcher db upgrade` with the newest version of the program"
    )


def _revision(connection: Connection) -> str | None:
    """Return the revision that alembic keeps."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return ", ".join(connection.scalars(text("SELECT version_num FROM alembic_version"))) or None


def _migrate(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  only who migrates loads it
    from alembic.util import CommandError  # noqa: PLC0415

    try:
        command.upgrade(config(connection), "head")
    except CommandError as error:
        raise _misfit(error) from error


@contextmanager
def _misfits_named() -> Iterator[None]:
    """Turn errors of statements into `SchemaOutdated`; outages of the database are recognised before."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _misfit(error) from error


def _misfit(error: Exception) -> SchemaOutdated:
    reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
    return SchemaOutdated(
        f"the database's schema is not one of this program's ({reason}); give it an empty database, or a backup"
    )


def config(connection: Connection | None = None) -> Config:
    """Make alembic's configuration, without a file."""
    from alembic.config import Config  # noqa: PLC0415  only who migrates loads it

    made = Config()
    made.set_main_option("script_location", str(HERE).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made
