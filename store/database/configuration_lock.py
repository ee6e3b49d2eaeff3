"""The lock between who applies a configuration and who appends events: no event is owed by edges that are half changed.

PostgreSQL's; it is taken after a position, if any, and before everything else that both lock. SQLite has one writer.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

_LOCK: Final = 7_305_811_464_228_961_112  # any number nobody else takes
_SHARED: Final[ColumnElement[Any]] = func.pg_advisory_xact_lock_shared(_LOCK)  # volatile: the planner moves it nowhere


def shared() -> ColumnElement[bool]:
    """True, once nobody applies a configuration, and until this transaction ends: asked once, before any row is read."""
    return select(_SHARED).scalar_subquery().is_not(None)


def shared_for_each_row() -> ColumnElement[bool]:
    """The same, asked when a row is there: whatever locked that row was locked before."""
    return _SHARED.is_not(None)


async def share(connection: AsyncConnection) -> None:
    """`shared` in a statement of its own, for who locks other things before it appends."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(_SHARED))


async def exclude(connection: AsyncConnection) -> None:
    """Until this transaction ends nobody appends events, and nobody else applies a configuration."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
