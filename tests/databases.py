"""Migrated metadata databases for tests: they are made once a session and copied for each test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import psycopg
import pytest
from aiosqlite import core
from psycopg import sql
from sqlalchemy import event, insert

from store.database import Database, migrations, sqlite_url
from store.database.schema import asset, database_now, metadata
from store.errors import ConnectionLost
from tests import features
from tests.effort import LONG
from tests.servers import PostgresServer

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)]
on_both = pytest.mark.parametrize("dialect", BOTH, indirect=True)
"""Runs a test on both databases. The default is PostgreSQL only."""
OLDER_POSTGRES: Final = 16
on_both_versions = pytest.mark.parametrize(
    "postgres_database",
    [None, pytest.param(OLDER_POSTGRES, marks=pytest.mark.slow)],
    indirect=True,
    ids=["newest", "16"],
)
"""Runs a test on several versions of the watched server. The default is the newest PostgreSQL, or one that you name."""


def both_in_long_form(short: str) -> list[Any]:
    """Return parameters: the databases of a test that kills and tortures. In the short form one is enough."""
    return BOTH if LONG else [one for one in BOTH if short in str(one)]


def migrate(url: str) -> None:
    """Bring one database to this program's schema."""
    anyio.run(partial(_migrate, url))


async def _migrate(url: str) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)


SORTED_TABLES: Final = [table for table in metadata.sorted_tables if table in features.TABLES]
TABLE_NAMES: Final = [table.name for table in SORTED_TABLES]
_SHAPE: Final = """
    SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_constraint),
        (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_namespace),
        (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
        (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = d.oid), d.datconnlimit
    FROM pg_database AS d WHERE datname = current_database()"""
"""Lists what a test may have left in a database besides rows."""


@contextmanager
def migrated_postgres(server: PostgresServer) -> Iterator[str]:
    """Yield the address of a database with only the schema: a new one, or an emptied one that another test left."""
    name = server.emptied.pop() if server.emptied else server.create(server.template("metadata", migrate))
    try:
        yield server.sqlalchemy_url(name)
    finally:
        if _emptied(server, name):
            server.emptied.append(name)
        else:
            server.drop(name)


def _emptied(server: PostgresServer, name: str) -> bool:
    """Empty the database. Return whether it is as good as new. A copy takes a third of a second, emptying a tenth of that."""
    template = server.template("metadata", migrate)
    if template not in server.shapes:
        with psycopg.connect(server.dsn(template)) as connection:
            server.shapes[template] = connection.execute(_SHAPE).fetchone()
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid != pg_backend_pid()",
            [name],
        )
        if connection.execute(_SHAPE).fetchone() != server.shapes[template]:
            return False
        tables = [sql.Identifier(table) for table in TABLE_NAMES]
        exist = sql.SQL("SELECT {}").format(
            sql.SQL(", ").join(sql.SQL("EXISTS (SELECT FROM {})").format(table) for table in tables)
        )
        answers = connection.execute(exist).fetchone() or ()
        if filled := [table for table, has_rows in zip(tables, answers, strict=True) if has_rows]:
            connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(filled)))
        connection.execute(
            "SELECT setval(format('%I.%I', schemaname, sequencename), 1, false) FROM pg_sequences WHERE last_value IS NOT NULL"
        )
    return True


_EMPTY: Final = """
    DO $$
    DECLARE name text; has_rows bool;
    BEGIN
        FOREACH name IN ARRAY '{{{}}}'::text[] LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM %I)', name) INTO has_rows;
            IF has_rows THEN EXECUTE format('DELETE FROM %I', name); END IF;
        END LOOP;
        PERFORM setval(format('%I.%I', schemaname, sequencename), 1, false)
            FROM pg_sequences WHERE last_value IS NOT NULL;
    END $$""".format(",".join(table.name for table in reversed(SORTED_TABLES)))


_DELETIONS: Final = [f'DELETE FROM "{table.name}"' for table in reversed(SORTED_TABLES)]


async def emptied(database: Database) -> Database:
    """Empty a database and return it. Its connections and compiled statements serve the next test, too."""
    try:
        await _empty(database)
    except ConnectionLost:  # the previous test cut open connections
        await _empty(database)
    return database


async def _empty(database: Database) -> None:
    async with database.transaction() as session:
        if database.dialect == "postgresql":
            await session.exec_driver_sql(_EMPTY)
        else:
            for statement in _DELETIONS:
                await session.exec_driver_sql(statement)


def migrated_file(folder: Path) -> Path:
    """Make a database file that tests copy."""
    path = folder / "template.db"
    migrate(str(sqlite_url(path)))
    return path


def copied(template: Path, folder: Path) -> str:
    """Copy a database file and return the address of the copy."""
    return str(sqlite_url(Path(shutil.copy(template, folder / "watcher.db"))))


class _InThisThread:
    """Stands for the queue before a connection's thread: what is put there is done at once, in this thread."""

    def put_nowait(self, task: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
        future, function = task
        try:
            result = function()
        except Exception as error:
            if future is None:
                raise
            future.set_exception(error)
            return
        if future is None:
            return
        name = getattr(getattr(function, "func", None), "__name__", "")
        if name in ("execute", "commit"):  # the event loop has its turn, as it has while a thread works
            future.get_loop().call_soon(core.set_result, future, result)
        else:
            future.set_result(result)


class _NoThread:
    daemon = True

    def __init__(self, **_: Any) -> None: ...

    def start(self) -> None: ...


@contextmanager
def sqlite_in_this_thread() -> Iterator[None]:
    """Let connections that are made in the block have no thread of their own: long histories take a fifth of the time.

    It is the same SQLite. What waits for another connection's lock waits in vain, so it is for one task at a time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "SimpleQueue", _InThisThread)
        patch.setattr(core, "Thread", _NoThread)
        yield


async def new_asset(database: Database, name: str) -> int:
    """Make an asset for a test and return its id. Its URI is `test://<name>`."""
    now = database_now()
    row = insert(asset).values(name=name, uri=f"test://{name}", origin="yaml", created_at=now, updated_at=now)
    async with database.transaction() as session:
        return int((await session.execute(row.returning(asset.c.id))).scalar_one())


@contextmanager
def statements_of(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that the block sends to the database, with parameters, without BEGIN."""
    sent: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            sent.append((statement, parameters[0] if isinstance(parameters, list) else parameters))

    engines = {database._writer.sync_engine, database._single.sync_engine}
    if database.dialect == "sqlite":  # other databases read with the engine that writes
        engines.add(database._reader.sync_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", remember)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", remember)


@contextmanager
def counted_commits(database: Database) -> Iterator[list[None]]:
    """Collect the commits of writing transactions in the block."""
    commits: list[None] = []

    def count(_connection: Any) -> None:
        commits.append(None)

    engine = database._writer.sync_engine
    event.listen(engine, "commit", count)
    try:
        yield commits
    finally:
        event.remove(engine, "commit", count)
