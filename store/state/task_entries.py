"""The task store in the metadata database: the entries of one task instance, until their retention ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert

from store.base import NEVER_EXPIRE, NeverExpire, TaskScope
from store.database.dialects import upsert
from store.database.paging import Page, Window, one_of, page
from store.database.schema import database_now, task_store
from store.state.entries import References, TaskEntry
from store.values import check_expiry, check_json, check_key

_s = task_store.c
_COLUMNS: Final = (_s.key, _s.value, _s.is_ref, _s.updated_at, _s.expires_at)


async def find(connection: AsyncConnection, task: TaskScope, key: str) -> TaskEntry | None:
    """One entry; None when it is absent or past its retention."""
    return await one_of(connection, select(*_COLUMNS).where(_of(task), _s.key == check_key(key), _alive()), TaskEntry)


async def entries(connection: AsyncConnection, task: TaskScope, window: Window) -> Page[TaskEntry]:
    """All entries by key, without those past their retention."""
    return await page(connection, select(*_COLUMNS).where(_of(task), _alive()), window, {"key": _s.key}, TaskEntry)


async def keys(connection: AsyncConnection, task: TaskScope) -> Sequence[str]:
    """The keys, in order, without those past their retention."""
    return (await connection.execute(select(_s.key).where(_of(task), _alive()).order_by(_s.key))).scalars().all()


async def references(connection: AsyncConnection, task: TaskScope) -> References:
    """Keys and stored references of the entries whose values are elsewhere, also past their retention."""
    referring = select(_s.key, _s.value).where(_of(task), _s.is_ref).order_by(_s.key)
    return {row.key: row.value for row in await connection.execute(referring)}


async def write(
    connection: AsyncConnection,
    task: TaskScope,
    entry: TaskEntry,
    expires_at: datetime | NeverExpire | None,
    dialect: str,
) -> None:
    """Write an entry's value; every write decides anew how long it is kept."""
    check_expiry(task, expires_at)
    parameters = {
        **task.columns,
        "key": check_key(entry.key),
        "value": check_json(entry.value),
        "is_ref": entry.is_ref,
        "expires_at": expires_at if isinstance(expires_at, datetime) else None,
        "never_expire": expires_at is NEVER_EXPIRE,
    }
    await connection.execute(_write(dialect), parameters)


@cache
def _write(dialect: str) -> Insert:
    given = {column.name: bindparam(column.name, type_=column.type) for column in _s if column.name != "updated_at"}
    values: dict[str, Any] = {**given, "updated_at": database_now()}
    keys = [column.name for column in task_store.primary_key]
    changed = {name: value for name, value in values.items() if name not in keys}
    return upsert(task_store, dialect).values(values).on_conflict_do_update(index_elements=keys, set_=changed)


async def change(connection: AsyncConnection, task: TaskScope, key: str, value: str) -> bool:
    """Another value with the same expiry; returns whether there is an entry that has not expired."""
    changed = update(task_store).where(_of(task), _s.key == key, _alive()).returning(_s.key)
    values = changed.values(value=value, is_ref=False, updated_at=database_now())
    return (await connection.execute(values)).one_or_none() is not None


async def remove(
    connection: AsyncConnection, task: TaskScope, *, key: str | None = None, all_map_indices: bool = False
) -> None:
    """Remove one entry, or all; also those of mapped siblings if asked."""
    here = _of(task, all_map_indices=all_map_indices)
    await connection.execute(delete(task_store).where(here if key is None else and_(here, _s.key == key)))


def _of(task: TaskScope, *, all_map_indices: bool = False) -> ColumnElement[bool]:
    mapped = and_(_s.dag_id == task.dag_id, _s.run_id == task.run_id, _s.task_id == task.task_id)
    return mapped if all_map_indices else and_(mapped, _s.map_index == task.map_index)


def _alive() -> ColumnElement[bool]:
    """Not past its retention; what has none of its own falls to the clean-up alone."""
    return or_(_s.expires_at.is_(None), _s.expires_at > database_now())
