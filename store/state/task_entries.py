"""Entries of task instances in the metadata database: values with an expiry, without writers and history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest, ResultPage, one_of, page
from store.database.schema import database_now, task_store
from store.errors import NotFound
from store.scopes import NEVER_EXPIRE, NeverExpire, TaskScope
from store.state import statements
from store.state.entries import References, TaskEntry
from store.values import check_expiry, check_json, check_key

_s = task_store.c
_TASK_ENTRY: Final = (_s.key, _s.value, _s.is_ref, _s.updated_at, _s.expires_at)


class TaskEntries:
    """The part of `AttributedEntries` that reads and writes task instances' entries, in the caller's transaction."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    async def task_entry(self, connection: AsyncConnection, task: TaskScope, key: str) -> TaskEntry:
        """Return one entry of a task instance. Raises `NotFound`, also if it is past its retention."""
        query = select(*_TASK_ENTRY).where(_of(task), _s.key == check_key(key), _alive())
        return await one_of(connection, query, TaskEntry, NotFound(f"the task store has no key {key!r}"))

    async def task_page(
        self, connection: AsyncConnection, task: TaskScope, window: PageRequest
    ) -> ResultPage[TaskEntry]:
        """Return a part of a task instance's entries in order of key, without those past their retention."""
        query = select(*_TASK_ENTRY).where(_of(task), _alive())
        return await page(connection, query, window, {"key": _s.key}, TaskEntry)

    async def task_keys(self, connection: AsyncConnection, task: TaskScope) -> Sequence[str]:
        """Return the keys of a task instance's entries in order, without those past their retention."""
        return (await connection.execute(select(_s.key).where(_of(task), _alive()).order_by(_s.key))).scalars().all()

    async def set_task(
        self, connection: AsyncConnection, task: TaskScope, entry: TaskEntry, expires_at: datetime | NeverExpire | None
    ) -> None:
        """Write an entry. Every write sets its expiry anew; None leaves it to the clean-up."""
        check_expiry(task, expires_at)
        parameters = {
            **task.columns,
            "key": check_key(entry.key),
            "value": check_json(entry.value),
            "is_ref": entry.is_ref,
            "expires_at": expires_at if isinstance(expires_at, datetime) else None,
            "never_expire": expires_at is NEVER_EXPIRE,
        }
        await connection.execute(statements.write_task(self.dialect), parameters)

    async def change_task(self, connection: AsyncConnection, task: TaskScope, key: str, value: str) -> bool:
        """Give an entry another value and keep its expiry; return False if there is none that has not expired."""
        changed = update(task_store).where(_of(task), _s.key == check_key(key), _alive()).returning(_s.key)
        values = changed.values(value=check_json(value), is_ref=False, updated_at=database_now())
        return (await connection.execute(values)).one_or_none() is not None

    async def delete_task(self, connection: AsyncConnection, task: TaskScope, key: str) -> None:
        await connection.execute(delete(task_store).where(_of(task), _s.key == check_key(key)))

    async def clear_task(self, connection: AsyncConnection, task: TaskScope, *, all_map_indices: bool = False) -> None:
        """Remove all entries, and those of mapped siblings if `all_map_indices`."""
        await connection.execute(delete(task_store).where(_of(task, all_map_indices=all_map_indices)))


async def task_references(connection: AsyncConnection, task: TaskScope) -> References:
    """Return keys and references of a task instance's entries with values elsewhere, also past their retention."""
    referring = select(_s.key, _s.value).where(_of(task), _s.is_ref).order_by(_s.key)
    return {row.key: row.value for row in await connection.execute(referring)}


def _of(task: TaskScope, *, all_map_indices: bool = False) -> ColumnElement[bool]:
    mapped = and_(_s.dag_id == task.dag_id, _s.run_id == task.run_id, _s.task_id == task.task_id)
    return mapped if all_map_indices else and_(mapped, _s.map_index == task.map_index)


def _alive() -> ColumnElement[bool]:
    """The entry is not past its retention. An entry without an expiry of its own is left to the clean-up."""
    return or_(_s.expires_at.is_(None), _s.expires_at > database_now())
