"""The migrations build exactly the declared schema, once, however many begin at the same time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from store.database import Database, migrations, sqlite_url
from store.database.schema import metadata
from store.errors import SchemaOutdated
from tests.service.store.conftest import BOTH


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(sqlite_url(tmp_path / "new.db"))
    else:
        yield request.getfixturevalue("postgres_database").sqlalchemy_url


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    async with Database.open(empty_url) as database:
        yield database


async def test_the_migrated_schema_is_the_declared_one(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "target_metadata": metadata}
        )
        return list(compare_metadata(context, metadata))

    async with database.transaction() as session:
        assert await session.run_sync(differences) == []


async def test_a_difference_would_be_seen(empty: Database) -> None:
    """The comparison is no empty word: a missing table, column type, default and index are each found."""
    await migrations.upgrade(empty)

    def differences(connection: Connection) -> set[str]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        found = compare_metadata(context, metadata)
        return {str(entry[0] if isinstance(entry, tuple) else entry[0][0]) for entry in found}

    changes = ["DROP INDEX ix_audit_at", "DROP TABLE setting", "ALTER TABLE audit ADD COLUMN more TEXT"]
    if empty.dialect == "postgresql":
        changes += [
            "ALTER TABLE job ALTER COLUMN paused SET DEFAULT true",
            "ALTER TABLE job ALTER COLUMN task_id TYPE text",
            "ALTER TABLE job ALTER COLUMN definition DROP NOT NULL",
        ]
    async with empty.transaction() as session:
        for change in changes:
            await session.execute(text(change))
        found = await session.run_sync(differences)
    expected = {"add_index", "add_table", "remove_column"}
    assert found == expected | (
        {"modify_default", "modify_type", "modify_nullable"} if empty.dialect == "postgresql" else set()
    )


async def test_upgrading_twice_is_upgrading_once(empty: Database) -> None:
    await migrations.upgrade(empty)
    async with empty.transaction() as session:
        await session.execute(text("INSERT INTO setting (key, value) VALUES ('kept', '1')"))
    await migrations.upgrade(empty)
    await migrations.check(empty)
    async with empty.reading() as session:
        assert (await session.execute(text("SELECT value FROM setting"))).scalar_one() == "1"


async def test_processes_may_upgrade_at_the_same_time(empty_url: str) -> None:
    async def upgrade() -> None:
        async with Database.open(empty_url) as database:
            await migrations.upgrade(database)
            await migrations.check(database)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(upgrade)


async def test_a_failed_upgrade_leaves_nothing(empty: Database) -> None:
    async with empty.transaction() as session:
        await session.execute(text("CREATE TABLE watcher (name TEXT)"))
    with pytest.raises(Exception, match="already exists"):
        await migrations.upgrade(empty)
    async with empty.reading() as session:
        tables = await session.run_sync(lambda connection: inspect(connection).get_table_names())
    assert tables == ["watcher"]


async def test_downgrading_leaves_an_empty_database(empty: Database) -> None:
    await migrations.upgrade(empty)
    async with empty.transaction() as session:
        connection = session
        await connection.run_sync(lambda sync: command.downgrade(migrations.config(sync), "base"))
        tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert tables == ["alembic_version"]


@pytest.mark.parametrize("revision", [None, "0000", "9999"])
async def test_another_revision_is_refused_with_the_command_to_run(empty: Database, revision: str | None) -> None:
    if revision is not None:
        await migrations.upgrade(empty)
        async with empty.transaction() as session:
            await session.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    shown = revision or "none"
    with pytest.raises(
        SchemaOutdated, match=rf"is at revision {shown}, this program needs \d+; run `watcher db upgrade`"
    ):
        await migrations.check(empty)
