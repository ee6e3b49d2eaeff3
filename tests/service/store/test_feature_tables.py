"""A feature of another distribution makes its own tables at an upgrade, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database, feature_tables, migrations
from store.database.feature_tables import FeatureTables, UpgradeTables
from store.errors import FeatureTablesRefused, SchemaOutdated
from tests.databases import BOTH

pytestmark = pytest.mark.service


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'new.db'}"
    else:
        yield request.getfixturevalue("postgres_database").sqlalchemy_url


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    async with Database.open(empty_url) as database:
        yield database


async def tables_of(database: Database) -> list[str]:
    async with database.reading() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    return sorted(name for name in names if name.startswith("x_"))


def feature(upgrade: UpgradeTables, version: int = 1) -> FeatureTables:
    return FeatureTables(feature="quota", version=version, upgrade=upgrade)


def sends(*statements: str, version: int = 1) -> UpgradeTables:
    async def upgrade(connection: AsyncConnection, from_version: int) -> int:
        for statement in statements[from_version:]:
            await connection.execute(text(statement))
        return version

    return upgrade


FIRST = sends("CREATE TABLE x_quota_day (day VARCHAR(10) PRIMARY KEY)")
SECOND = sends(
    "CREATE TABLE x_quota_day (day VARCHAR(10) PRIMARY KEY)", "ALTER TABLE x_quota_day ADD COLUMN n INTEGER", version=2
)


async def test_tables_are_made_and_changed_by_upgrades_once_each(empty: Database) -> None:
    for _ in range(2):
        await migrations.upgrade(empty, [feature(FIRST)])
        await migrations.check(empty, features=[feature(FIRST)])
    assert await tables_of(empty) == ["x_quota_day"]
    with pytest.raises(
        SchemaOutdated, match="tables of the feature quota are of version 1, and it needs version 2; run `watcher db"
    ):
        await migrations.check(empty, features=[feature(SECOND, 2)])
    await migrations.upgrade(empty, [feature(SECOND, 2)])
    await migrations.check(empty, features=[feature(SECOND, 2)])
    async with empty.reading() as connection:
        assert (await connection.execute(text("SELECT day, n FROM x_quota_day"))).all() == []


async def test_two_processes_upgrade_one_after_the_other(empty_url: str) -> None:
    async def upgrade() -> None:
        async with Database.open(empty_url) as database:
            await migrations.upgrade(database, [feature(FIRST)])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(upgrade)
        tasks.start_soon(upgrade)
    async with Database.open(empty_url) as database:
        assert await tables_of(database) == ["x_quota_day"]


async def test_tables_that_are_not_there_or_too_new_are_named_with_the_remedy(empty: Database) -> None:
    await migrations.upgrade(empty)
    with pytest.raises(
        SchemaOutdated, match="quota are not there yet, and it needs version 1; run `watcher db upgrade`"
    ):
        await migrations.check(empty, features=[feature(FIRST)])
    await migrations.upgrade(empty, [feature(SECOND, 2)])
    for attempt in (migrations.check(empty, features=[feature(FIRST)]), migrations.upgrade(empty, [feature(FIRST)])):
        with pytest.raises(SchemaOutdated, match="needs version 1; install the feature's newest version"):
            await attempt


async def test_a_program_without_the_feature_leaves_its_tables_alone(empty: Database) -> None:
    await migrations.upgrade(empty, [feature(FIRST)])
    await migrations.upgrade(empty)
    await migrations.check(empty)
    assert await tables_of(empty) == ["x_quota_day"]
    async with empty.reading() as connection:
        assert await feature_tables.left_alone(connection, ()) == {"quota": 1}
        assert await feature_tables.left_alone(connection, ("quota",)) == {}


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["CREATE TABLE quota_day (day INTEGER)"], "must be named x_quota_…, and it has made or dropped quota_day"),
        (
            ["CREATE TABLE x_quotas_day (day INTEGER)"],
            "must be named x_quota_…, and it has made or dropped x_quotas_day",
        ),
        (["DROP TABLE setting"], "must be named x_quota_…, and it has made or dropped setting"),
        (
            ["CREATE TABLE x_quota_run (job VARCHAR(250) REFERENCES job (dag_id))"],
            "must not refer to job, whose rows the clean-up removes, as x_quota_run does",
        ),
        (["CREATE TABLE x_quota_day"], "could not be made ("),
    ],
)
async def test_an_upgrade_that_fails_or_touches_other_tables_changes_nothing(
    empty: Database, statements: list[str], reason: str
) -> None:
    await migrations.upgrade(empty)
    with pytest.raises(FeatureTablesRefused) as caught:
        await migrations.upgrade(empty, [feature(sends("CREATE TABLE x_quota_first (day INTEGER)", *statements))])
    assert str(caught.value).startswith(f"the tables of the feature quota {reason}")
    assert str(caught.value).endswith("; correct the feature, or take it out of settings.features")
    await migrations.check(empty)
    assert await tables_of(empty) == []


async def test_an_upgrade_that_ends_at_another_version_is_refused(empty: Database) -> None:
    with pytest.raises(FeatureTablesRefused, match="are of version 1 after its upgrade, and it says 2"):
        await migrations.upgrade(empty, [feature(FIRST, 2)])
