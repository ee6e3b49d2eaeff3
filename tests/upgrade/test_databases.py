"""Databases as earlier versions left them are upgraded with all their rows; others are refused, each with what to do."""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
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
from tests.servers import PostgresDatabase, PostgresServer
from tests.upgrade.releases import RELEASES, ROOT, Release, World, dumped
from watcher.cli.app import app
from watcher.cli.commands import load_configuration
from watcher.features.commands.changed_defaults import CHANGED_DEFAULTS, changed_defaults

pytestmark = pytest.mark.service
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
GROWN = {"alembic_version"}
"""The tables that an upgrade is expected to change."""
MOVED: Mapping[str, frozenset[str]] = {
    "job": frozenset({"replay_id", "catchup_at", "catchup_to", "catchup_assets"}),
    "run": frozenset({"partition_complete", "late"}),
}
"""The columns that an upgrade turns into rows or another column, as a test of the migration compares."""


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "run": {"of_feature": None, "partition_key": None, "bad_records": None},
    "task_try": {"is_final": False, "renewed_at": None, "forget_at": None, "lease_holder": None},
    "asset": {"partition_parts": None, "expect_by": None},
    "asset_event": {"sketch_bits": None, "sketch_more_bits": None, "partition_key": None},
    "asset_forward": {"with_partition_key": False},
    "queued_event": {"satisfies": "", "partition_key": None},
    "job": {"joint": False, "partitioned": False},
    "job_schedule_asset": {"filtered": False},
    "job_schedule_alias": {"filtered": False},
    "leader": {"start_reasons": None},
    "watcher": {"failing_since": None, "next_try_at": None},
}
"""What rows of 0.2.0 have in columns that 0.3.0 added to their tables."""


@pytest.fixture(params=RELEASES, ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture(params=["sqlite", "postgresql"])
def restore(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Release], str]]:
    """Make a database as a release left it, and return its URL."""
    if request.param == "sqlite":
        yield lambda release: _restored_file(release, tmp_path / f"{release}.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with ExitStack() as databases:
        yield lambda release: _filled(release, databases.enter_context(server.database()))


def _restored_file(release: Release, file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(release.dump("sqlite").read_text(encoding="utf-8"))
    return sqlite_url(file).render_as_string()


def _filled(release: Release, database: PostgresDatabase) -> str:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(release.dump("postgresql").read_bytes())
    return database.sqlalchemy_url


@pytest.fixture
def url(restore: Callable[[Release], str], release: Release) -> str:
    """The URL of a database as the release left it."""
    return restore(release)


def of_release(*names: str) -> pytest.MarkDecorator:
    """Run a test with the databases of these releases only."""
    chosen = [release for release in RELEASES if release.name in names]
    assert len(chosen) == len(names)
    return pytest.mark.parametrize("release", chosen, ids=str)


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


def documented_revisions() -> dict[str, str]:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (\d+\.\d+\.\d+|unreleased) \| (\d{4}) \|", page, re.MULTILINE))


def test_the_schema_goes_from_the_revision_of_a_release_to_that_of_this_version(url: str, release: Release) -> None:
    documented = documented_revisions()
    assert revision(url) == documented.get(release.name, release.name)
    migrate(url)
    assert revision(url) == documented.get("unreleased", documented[VERSION]) == REVISIONS[-1]


def test_every_release_has_a_database_here() -> None:
    assert {release.name for release in RELEASES} - {"0038"} == documented_revisions().keys() - {"unreleased", VERSION}


def test_an_upgrade_keeps_all_contents(url: str) -> None:
    with connected(url) as connection:
        metadata = MetaData()
        metadata.reflect(connection)
        columns = {
            name: [column.name for column in table.columns if column.name not in MOVED.get(name, ())]
            for name, table in metadata.tables.items()
        }
        before = content(connection, columns)
    assert {"asset_event", "run", "watcher_position", "queued_event", "task_try"} <= {
        n for n, rows in before.items() if rows
    }
    migrate(url)
    with connected(url) as connection:
        assert content(connection, {name: names for name, names in columns.items() if name in before}) == before


@of_release("0.2.0", "0038")
def test_each_default_that_changes_concerns_a_configuration_with_positions(
    url: str, release: Release, tmp_path: Path
) -> None:
    """Its events and rows are those of before, as the test above compares; `watcher check` names what its jobs meet."""
    configuration = load_configuration(World(folder=tmp_path, database=None, release=release).folder / "watchers.yaml")
    concerned = [problem.message for problem in changed_defaults(configuration)]
    expected = CHANGED_DEFAULTS if release.has_partitions else CHANGED_DEFAULTS[:1]
    for line, default in zip(concerned, expected, strict=True):
        assert default.rule in line
    migrate(url)
    with connected(url) as connection:
        positions = {row["watcher"] for row in content(connection)["watcher_position"]}
    assert positions == {*configuration.watchers}


@of_release("0.2.0")
def test_rows_of_0_2_0_have_the_defaults_of_new_columns(url: str) -> None:
    migrate(url)
    with connected(url) as connection:
        after = content(connection)
    for table, defaults in DEFAULTS.items():
        assert after[table], table
        assert all(row.items() >= defaults.items() for row in after[table]), table


@of_release("0038")
def test_what_was_recorded_without_an_outcome_is_dropped_if_a_queue_had_it_and_else_unknown(url: str) -> None:
    forgotten = "UPDATE dropped_event SET reason = 'run past its retention' WHERE event_id = 3"
    with connected(url) as connection, connection.begin():
        connection.execute(text(forgotten))
    migrate(url)
    with connected(url) as connection:
        rows = connection.execute(text("SELECT event_id, outcome, run_id FROM dropped_event ORDER BY event_id"))
        assert [tuple(row) for row in rows] == [(1, "dropped", None), (3, None, None)]
        newest = connection.scalar(text("SELECT max(id) FROM asset_event"))
        assert {*connection.scalars(text("SELECT unrecorded_to FROM job"))} == {newest}


@pytest.mark.parametrize("release", [release for release in RELEASES if release.name != "0038"], ids=str)
def test_the_migration_0038_makes_what_those_that_it_stands_for_made(
    restore: Callable[[Release], str], release: Release
) -> None:
    """A database at 0038 went through the revisions 0018 to 0038 one by one."""
    [stepwise] = [other for other in RELEASES if other.name == "0038"]
    schemas = []
    for url in (restore(release), restore(stepwise)):
        migrate(url)
        schemas.append(schema(url))
    assert schemas[0] == schemas[1]


def schema(url: str) -> list[str]:
    """Return all definitions, in whatever order they were made."""
    if url.startswith("postgresql"):
        return dumped(make_url(url).set(drivername="postgresql").render_as_string(False), "--schema-only").splitlines()
    with connected(url) as connection:
        return sorted(connection.scalars(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")))


@of_release("0.2.0")
@pytest.mark.parametrize("between", ["0018", "0029", "0037"])
@pytest.mark.parametrize("words", [("run", "--upgrade"), ("db", "upgrade"), ("db", "check")], ids=" ".join)
def test_a_database_between_two_releases_is_refused_with_the_commit_that_upgrades_it(
    url: str, tmp_path: Path, between: str, words: tuple[str, ...]
) -> None:
    set_revision(url, between)
    answer = command(tmp_path, url, *words)
    [sentence] = [line for line in answer.stderr.splitlines() if not line.startswith("{")]  # records are JSON
    assert f"at revision {between}, between the releases 0.2.0 and 0.3.0" in sentence
    assert "run `watcher db upgrade` of the project's commit 032e2bf1 first" in sentence
    assert (answer.exit_code, "Traceback" in answer.output, revision(url)) == (1, False, between)


def set_revision(url: str, revision: str) -> None:
    with connected(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
        connection.commit()


def command(folder: Path, url: str, *words: str) -> Any:
    document = {"version": 1, "settings": {"home": str(folder / "home"), "database": {"url": url}, "api": {"port": 0}}}
    (folder / "watchers.yaml").write_text(json.dumps(document))
    return CliRunner().invoke(app, [*words, "-c", str(folder / "watchers.yaml")])


@of_release("0.1.0")
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
    set_revision(url, "9999")
    answer = command(tmp_path, url, *words)
    [sentence] = [line for line in answer.stderr.splitlines() if not line.startswith("{")]  # records are JSON
    assert "at revision 9999" in sentence
    assert "newest version of the program" in sentence
    assert (answer.exit_code, "Traceback" in answer.output) == (1, False)


@of_release("0.1.0", "0.2.0")
def test_a_server_is_upgraded_only_on_request(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        pytest.skip("an embedded database is upgraded by itself")
    answer = command(tmp_path, url, "run")
    assert (answer.exit_code, "run `watcher db upgrade`" in answer.stderr) == (1, True)
    assert command(tmp_path, url, "db", "upgrade").exit_code == 0
    assert command(tmp_path, url, "db", "check").exit_code == 0
