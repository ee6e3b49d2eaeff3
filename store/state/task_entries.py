"""What people, tools and jobs look at of a task instance's store. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import TaskScope
from store.database.paging import Page, Window, page, row_of
from store.database.schema import task_store
from store.errors import NotFound
from store.state.statements import alive, of_task

_s = task_store.c


async def entries(connection: AsyncConnection, scope: TaskScope, window: Window) -> Page:
    """A task instance's entries by key, without those past their retention."""
    return await page(connection, select(task_store).where(of_task(scope), alive()), window, {"key": _s.key})


async def entry(connection: AsyncConnection, scope: TaskScope, key: str) -> RowMapping:
    """One entry. Raises `NotFound`, also when it is past its retention."""
    row = await row_of(connection, select(task_store).where(of_task(scope), _s.key == key, alive()))
    if row is None:
        raise NotFound(f"the task store has no key {key!r}")
    return row


async def keys(connection: AsyncConnection, scope: TaskScope) -> Sequence[str]:
    """The keys of a task instance's entries, in order, without those past their retention."""
    return (await connection.execute(select(_s.key).where(of_task(scope), alive()).order_by(_s.key))).scalars().all()


async def references(connection: AsyncConnection, scope: TaskScope) -> Mapping[str, str]:
    """Keys and stored references of the entries whose values are elsewhere, also past their retention."""
    found = await connection.execute(select(_s.key, _s.value).where(of_task(scope), _s.is_ref).order_by(_s.key))
    return {row.key: row.value for row in found}
