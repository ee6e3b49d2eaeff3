"""Databases as 0.1.0 left them are upgraded with all their rows; databases of a newer version are refused."""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, MetaData, create_engine, make_url, select, text
from sqlalchemy.pool import NullPool
from typer.testing import CliRunner

from store.database import sqlite_url
from store.database.migrations import REVISIONS
from tests.databases import migrate
from tests.servers import PostgresServer
from tests.upgrade.releases import DUMPS, ROOT
from watcher.cli.app import app

pytestmark = pytest.mark.service
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
GROWN = {"alembic_version"}
"""The tables that an upgrade is expected to change."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database as 0.1.0 left it."""
    dump = (DUMPS / f"{request.param}.sql").read_text(encoding="utf-8")
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "watcher.db")) as connection:
            connection.executescript(dump)
        yield sqlite_url(tmp_path / "watcher.db").render_as_string()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as database:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute(dump.encode())
        yield database.sqlalchemy_url


def connected(url: str) -> Any:
    """Connect with a blocking driver."""
    driver = {"sqlite+aiosqlite": "sqlite", "postgresql+asyncpg": "postgresql+psycopg"}[make_url(url).drivername]
    return create_engine(make_url(url).set(drivername=driver), poolclass=NullPool).connect()


def content(connection: Connection, columns: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """Return all rows of all tables, with these columns, by default with all that the tables have."""
    metadata = MetaData()
    metadata.reflect(connection)
    return {
        name: sorted(
            (dict(row._mapping) for row in connection.execute(select(*(table.c[column] for column in columns[name]))))
            if columns
            else (dict(row._mapping) for row in connection.execute(select(table))),
            key=repr,
        )
        for name, table in metadata.tables.items()
        if name not in GROWN and (columns is None or name in columns)
    }


def revision(url: str) -> str:
    with connected(url) as connection:
        return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def test_the_schema_goes_from_the_revision_of_0_1_0_to_that_of_this_version(url: str) -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| (\d+\.\d+\.\d+|unreleased) \| (\d{4}) \|", page, re.MULTILINE))
    assert revision(url) == documented["0.1.0"]
    migrate(url)
    assert revision(url) == documented.get("unreleased", documented[VERSION]) == REVISIONS[-1]


def test_an_upgrade_keeps_all_contents(url: str) -> None:
    with connected(url) as connection:
        before = content(connection)
        metadata = MetaData()
        metadata.reflect(connection)
        columns = {name: [column.name for column in table.columns] for name, table in metadata.tables.items()}
    assert {"asset_event", "run", "watcher_position", "queued_event", "task_try"} <= {
        n for n, rows in before.items() if rows
    }
    migrate(url)
    with connected(url) as connection:
        assert content(connection, {name: names for name, names in columns.items() if name in before}) == before


def command(folder: Path, url: str, *words: str) -> Any:
    document = {"version": 1, "settings": {"home": str(folder / "home"), "database": {"url": url}, "api": {"port": 0}}}
    (folder / "watchers.yaml").write_text(json.dumps(document))
    return CliRunner().invoke(app, [*words, "-c", str(folder / "watchers.yaml")])


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "--upgrade"),
        ("db", "upgrade"),
        ("db", "check"),
        ("token", "create", "--subject", "me", "--role", "admin"),
        ("assets", "list"),
        ("state-store", "cleanup-task-states"),
    ],
    ids=" ".join,
)
def test_a_program_older_than_its_database_refuses_it_in_one_sentence(
    url: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with connected(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.commit()
    answer = command(tmp_path, url, *words)
    [sentence] = [line for line in answer.stderr.splitlines() if not line.startswith("{")]  # records are JSON
    assert "at revision 9999" in sentence
    assert "newest version of the program" in sentence
    assert (answer.exit_code, "Traceback" in answer.output) == (1, False)


def test_a_server_is_upgraded_only_on_request(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        pytest.skip("an embedded database is upgraded by itself")
    answer = command(tmp_path, url, "run")
    assert (answer.exit_code, "run `watcher db upgrade`" in answer.stderr) == (1, True)
    assert command(tmp_path, url, "db", "upgrade").exit_code == 0
    assert command(tmp_path, url, "db", "check").exit_code == 0
