"""The tables of features from elsewhere: each feature makes its own, under the lock of migrations, and their version is kept.

Tables of the features of this distribution are made by migrations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from sqlalchemy import Connection, inspect, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import migrations
from store.database.dialects import upsert
from store.database.engine import Database
from store.database.schema import feature_schema
from store.errors import SchemaOutdated

_s = feature_schema.c
_VERSIONS: Final = select(_s.feature, _s.version).order_by(_s.feature)


class UpgradesTables(Protocol):
    """Brings a feature's tables from a version, 0 if there are none, to the feature's own, and returns that.

    It is called whenever the schema may be upgraded, also if the version is the feature's own. The names of its tables begin
    with `x_`, the feature's name and `_`. It raises what it likes for a version that it does not know: nothing is changed then.
    """

    async def __call__(self, connection: AsyncConnection, from_version: int, /) -> int: ...


async def upgrade(database: Database, features: Mapping[str, UpgradesTables]) -> None:
    """Bring the tables of each feature to its version, in a transaction of its own.

    Raises `SchemaOutdated` if a feature makes a table under another's name, or goes back to an older version.
    """
    for feature, upgrade_tables in features.items():
        async with database.transaction() as connection:
            await migrations.lock(connection)
            before = (await _versions(connection)).get(feature, 0)
            tables = await connection.run_sync(_table_names)
            version = await upgrade_tables(connection, before)
            if version < before:
                raise SchemaOutdated(
                    f"the tables of the feature {feature} are at version {before}, and the installed one has {version}; "
                    "install the newest version of the feature"
                )
            if foreign := _foreign(feature, await connection.run_sync(_table_names) - tables):
                raise SchemaOutdated(
                    f"the feature {feature} makes the table {foreign[0]}; correct it to call its tables {_prefix(feature)}…"
                )
            row = upsert(feature_schema, connection.dialect.name).values(feature=feature, version=version)
            changed = {"version": row.excluded.version}
            await connection.execute(row.on_conflict_do_update(index_elements=["feature"], set_=changed))


async def check(database: Database, features: Collection[str]) -> Collection[str]:
    """Return the features whose tables are here although they are not among `features`: these tables are left alone.

    Raises `SchemaOutdated` if one of `features` has no tables yet.
    """
    async with database.reading() as connection:
        versions = await _versions(connection)
    if missing := sorted({*features} - versions.keys()):
        raise SchemaOutdated(f"the feature {missing[0]} has no tables yet; run `watcher db upgrade`")
    return sorted(versions.keys() - {*features})


async def _versions(connection: AsyncConnection) -> Mapping[str, int]:
    return {row.feature: row.version for row in await connection.execute(_VERSIONS)}


def _table_names(connection: Connection) -> set[str]:
    return {*inspect(connection).get_table_names()}


def _prefix(feature: str) -> str:
    return f"x_{feature.replace('-', '_')}_"


def _foreign(feature: str, made: Collection[str]) -> list[str]:
    return sorted(name for name in made if not name.startswith(_prefix(feature)))
