"""Tables of features from other distributions: each makes its own, under the lock of upgrades, with a prefix of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import feature_schema
from store.errors import CommitUnknown, DatabaseUnavailable, DatabaseUnusable, FeatureTablesRefused, SchemaOutdated

UpgradeTables: TypeAlias = Callable[[AsyncConnection, int], Awaitable[int]]
"""Brings a feature's tables from a version to the newest one, and returns that. From 0 it makes them.

It runs in the transaction of the upgrade, and must not end it. Each of its tables is named `x_<feature>_…`. It changes no other
table, and refers to none by a foreign key: the clean-up could not remove a row then.
"""


@dataclass(frozen=True, kw_only=True)
class FeatureTables:
    """The tables of one feature: the version that its program needs, and what brings them there."""

    feature: str
    version: int
    upgrade: UpgradeTables

    @property
    def prefix(self) -> str:
        """The beginning of the names of all its tables."""
        return f"x_{self.feature}_"


async def upgrade(connection: AsyncConnection, features: Sequence[FeatureTables]) -> None:
    """Bring the tables of these features to their versions, one feature after the other.

    Raises `FeatureTablesRefused` for a feature whose function fails or touches tables that are not its own, and
    `SchemaOutdated` for tables of a newer version of a feature. The caller rolls back.
    """
    versions = await stored_versions(connection)
    for tables in features:
        before = versions.get(tables.feature, 0)
        if before > tables.version:
            raise _outdated(tables, before)
        if before < tables.version:
            await _upgrade(connection, tables, before)


async def check(connection: AsyncConnection, features: Sequence[FeatureTables]) -> None:
    """Raise `SchemaOutdated` unless the tables of each of these features have exactly its version."""
    versions = await stored_versions(connection)
    for tables in features:
        if (version := versions.get(tables.feature, 0)) != tables.version:
            raise _outdated(tables, version)


async def left_alone(connection: AsyncConnection, features: Collection[str]) -> Mapping[str, int]:
    """Return the features that have tables here and are none of these, each with the version of its tables."""
    versions = await stored_versions(connection)
    return {feature: version for feature, version in versions.items() if feature not in features}


async def stored_versions(connection: AsyncConnection) -> Mapping[str, int]:
    """Return the version of the tables of each feature that has any, by name."""
    rows = await connection.execute(
        select(feature_schema.c.feature, feature_schema.c.version).order_by(feature_schema.c.feature)
    )
    return {row.feature: row.version for row in rows}


async def _upgrade(connection: AsyncConnection, tables: FeatureTables, before: int) -> None:
    names = await connection.run_sync(_table_names)
    try:
        version = await tables.upgrade(connection, before)
    except (CommitUnknown, DatabaseUnavailable, DatabaseUnusable):
        raise
    except Exception as error:  # its author's code may raise anything
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
        raise _refused(tables, f"could not be made ({reason})") from error
    if version != tables.version:
        raise _refused(tables, f"are of version {version} after its upgrade, and it says {tables.version}")
    await connection.run_sync(_check_names, tables, names)
    values = {"feature": tables.feature, "version": version}
    if before:
        await connection.execute(
            update(feature_schema).where(feature_schema.c.feature == tables.feature).values(values)
        )
    else:
        await connection.execute(insert(feature_schema).values(values))


def _table_names(connection: Connection) -> frozenset[str]:
    return frozenset(inspect(connection).get_table_names())


def _check_names(connection: Connection, tables: FeatureTables, before: frozenset[str]) -> None:
    """Refuse tables that were made or dropped and are not the feature's own, and references to tables of others."""
    inspector = inspect(connection)
    after = _table_names(connection)
    if foreign := [name for name in sorted(before ^ after) if not name.startswith(tables.prefix)]:
        raise _refused(tables, f"must be named {tables.prefix}…, and it has made or dropped {foreign[0]}")
    for name in sorted(name for name in after if name.startswith(tables.prefix)):
        for key in inspector.get_foreign_keys(name):
            if not key["referred_table"].startswith(tables.prefix):
                raise _refused(
                    tables,
                    f"must not refer to {key['referred_table']}, whose rows the clean-up removes, as {name} does",
                )


def _refused(tables: FeatureTables, what: str) -> FeatureTablesRefused:
    return FeatureTablesRefused(
        f"the tables of the feature {tables.feature} {what}; correct the feature, or take it out of settings.features"
    )


def _outdated(tables: FeatureTables, version: int) -> SchemaOutdated:
    remedy = "run `watcher db upgrade`" if version < tables.version else "install the feature's newest version"
    have = f"are of version {version}" if version else "are not there yet"
    return SchemaOutdated(
        f"the tables of the feature {tables.feature} {have}, and it needs version {tables.version}; {remedy}"
    )
