"""Migrated metadata databases as tests need them: made once a session, copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import event, insert

from store.database import Database, migrations, sqlite_url
from store.database.schema import asset, database_now
from tests.servers import PostgresServer

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)]
on_both = pytest.mark.parametrize("dialect", BOTH, indirect=True)
"""For a test with a database, where PostgreSQL alone is the rule."""


def migrate(url: str) -> None:
    """Bring one database to this program's schema."""
    anyio.run(partial(_migrate, url))


async def _migrate(url: str) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)


@contextmanager
def migrated_postgres(server: PostgresServer) -> Iterator[str]:
    """The address of a fresh database with the schema in it."""
    with server.database(template=server.template("metadata", migrate)) as database:
        yield database.sqlalchemy_url


def migrated_file(folder: Path) -> Path:
    """A database file to copy."""
    path = folder / "template.db"
    migrate(str(sqlite_url(path)))
    return path


def copied(template: Path, folder: Path) -> str:
    """The address of a fresh copy of a database file."""
    return str(sqlite_url(Path(shutil.copy(template, folder / "watcher.db"))))


async def new_asset(database: Database, name: str) -> int:
    """The id of an asset made for a test; its uri is `test://<name>`."""
    now = database_now()
    row = insert(asset).values(name=name, uri=f"test://{name}", origin="yaml", created_at=now, updated_at=now)
    async with database.transaction() as session:
        return int((await session.execute(row.returning(asset.c.id))).scalar_one())


@contextmanager
def statements_of(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """What the block sends to the database, with its parameters, without BEGIN."""
    sent: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            sent.append((statement, parameters[0] if isinstance(parameters, list) else parameters))

    engines = {database._writer.sync_engine, database._single.sync_engine}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", remember)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", remember)
