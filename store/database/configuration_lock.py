"""The lock between applying a configuration and appending events: no event is queued by half-changed edges.

It exists on PostgreSQL. A transaction takes it after a position, if any, and before everything else that both lock.
SQLite has one writer.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import setting

_LOCK: Final = 7_305_811_464_228_961_112  # an arbitrary number that nothing else uses
_SHARED: Final[ColumnElement[Any]] = func.pg_advisory_xact_lock_shared(
    _LOCK
)  # volatile, so the planner does not move it


def shared() -> ColumnElement[bool]:
    """True, once nobody applies a configuration, and until this transaction ends.

    It is evaluated once, before any row is read.
    """
    return select(_SHARED).scalar_subquery().is_not(None)


def shared_for_each_row() -> ColumnElement[bool]:
    """`shared`, evaluated for each row that is there: what locked the row was locked before."""
    return _SHARED.is_not(None)


async def share(connection: AsyncConnection) -> None:
    """Take the shared lock in a statement of its own, for callers that lock other things before they append events."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(_SHARED))


async def exclude(connection: AsyncConnection) -> None:
    """Keep others from appending events and from applying a configuration until this transaction ends."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


_HASH: Final = "configuration_hash"


async def applied_hash(connection: AsyncConnection) -> str | None:
    """Return the hash of the configuration that was applied last."""
    result = await connection.execute(select(setting.c.value).where(setting.c.key == _HASH))
    return result.scalar_one_or_none()


async def lock_hash(connection: AsyncConnection) -> str | None:
    """Return `applied_hash`, and let no other configuration be applied until this transaction ends."""
    await exclude(connection)
    return await applied_hash(connection)


async def remember_hash(connection: AsyncConnection, hash_: str, dialect: str) -> None:
    """Keep the hash of the configuration that is being applied."""
    row = upsert(setting, dialect).values(key=_HASH, value=hash_)
    await connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": row.excluded.value}))
