"""Features from elsewhere make their tables themselves, once, under names of their own; what is not installed is left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import anyio
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database, feature_schemas
from store.database.feature_schemas import UpgradesTables
from store.errors import SchemaOutdated


@pytest.fixture
async def cleared(database: Database) -> AsyncIterator[Database]:
    """A database that has none of the tables below afterwards."""
    yield database
    async with database.transaction() as connection:
        for name in ("x_far_off_note", "x_near_note", "note"):
            await connection.execute(text(f"DROP TABLE IF EXISTS {name}"))


def making(table: str, *, version: int = 1, seen: list[int] | None = None) -> UpgradesTables:
    async def upgrade(connection: AsyncConnection, from_version: int) -> int:
        if seen is not None:
            seen.append(from_version)
        if from_version == 0:
            await connection.execute(text(f"CREATE TABLE {table} (id INTEGER)"))
        return version

    return upgrade


async def test_a_feature_makes_its_tables_and_goes_on_from_their_version(cleared: Database) -> None:
    seen: list[int] = []
    for version in (1, 1, 3):
        far_off = making("x_far_off_note", version=version, seen=seen)
        await feature_schemas.upgrade(cleared, {"far-off": far_off})
    assert seen == [0, 1, 1]
    assert await feature_schemas.check(cleared, ["far-off"]) == []
    async with cleared.reading() as connection:
        assert (await connection.execute(text("SELECT version FROM feature_schema"))).scalars().all() == [3]
        assert (await connection.execute(text("SELECT count(*) FROM x_far_off_note"))).scalar_one() == 0


async def test_processes_that_upgrade_at_the_same_time_do_it_one_after_the_other(cleared: Database) -> None:
    seen: list[int] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(feature_schemas.upgrade, cleared, {"near": making("x_near_note", seen=seen)})
    assert seen == [0, 1, 1]


async def test_the_tables_of_a_feature_that_is_not_installed_are_left_alone_and_named(cleared: Database) -> None:
    both: Mapping[str, UpgradesTables] = {"near": making("x_near_note"), "far-off": making("x_far_off_note")}
    await feature_schemas.upgrade(cleared, both)
    await feature_schemas.upgrade(cleared, {})
    assert await feature_schemas.check(cleared, ["near"]) == ["far-off"]
    async with cleared.reading() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM x_far_off_note"))).scalar_one() == 0


async def test_a_feature_without_its_tables_is_refused_with_the_command_to_run(cleared: Database) -> None:
    with pytest.raises(SchemaOutdated, match="the feature near has no tables yet; run `watcher db upgrade`"):
        await feature_schemas.check(cleared, ["near"])


async def test_an_older_feature_than_its_tables_is_refused(cleared: Database) -> None:
    await feature_schemas.upgrade(cleared, {"near": making("x_near_note", version=2)})
    with pytest.raises(SchemaOutdated, match="are at version 2, and the installed one has 1; install the newest"):
        await feature_schemas.upgrade(cleared, {"near": making("x_near_note", version=1)})


async def test_a_table_under_a_name_that_is_not_the_features_own_is_refused_and_not_made(cleared: Database) -> None:
    with pytest.raises(SchemaOutdated, match=r"makes the table note; correct it to call its tables x_near_…"):
        await feature_schemas.upgrade(cleared, {"near": making("note")})
    async with cleared.reading() as connection:
        assert (await connection.execute(text("SELECT feature FROM feature_schema"))).all() == []
