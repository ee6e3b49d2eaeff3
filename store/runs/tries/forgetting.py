"""Ended tries of which something is left outside the database, until their submitter has removed it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import select, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, database_time_in, task_instance, task_try
from store.keys import TaskInstanceKey, TryKey
from store.runs.tries.try_lookup import this_try

MOST_READ: Final = 100

_t, _a = task_instance.c, task_try.c
_DUE: Final = (
    select(_a.task_instance_id, _t.dag_id, _t.run_id, _t.task_id, _t.map_index, _a.try_number)
    .add_columns(_a.tag, _a.submitter, _a.handle)
    .join(task_instance, _t.id == _a.task_instance_id)
    .where(_a.forget_at <= database_now())
    .order_by(_a.forget_at)
    .limit(MOST_READ)
)
_KEPT: Final = union_all(select(_a.tag).where(_a.ended_at.is_(None)), select(_a.tag).where(_a.forget_at.is_not(None)))


@dataclass(frozen=True, kw_only=True)
class LeftTry:
    """An ended try of which something may be left; `handle` is the submitter's JSON text."""

    key: TryKey
    tag: str
    submitter: str
    handle: str | None


async def due(connection: AsyncConnection, submitters: Collection[str]) -> Sequence[LeftTry]:
    """Return the tries of these submitters whose time has come, the longest due first."""
    rows = await connection.execute(_DUE.where(_a.submitter.in_(submitters)))
    return [
        LeftTry(
            key=TryKey(
                instance=TaskInstanceKey.of(row), task_instance_id=row.task_instance_id, try_number=row.try_number
            ),
            tag=row.tag,
            submitter=row.submitter,
            handle=row.handle,
        )
        for row in rows
    ]


async def kept(connection: AsyncConnection) -> Collection[str]:
    """Return the tags of all tries that have not ended, or of which something may be left that will be forgotten."""
    return {row.tag for row in await connection.execute(_KEPT)}


async def forgotten(connection: AsyncConnection, key: TryKey) -> None:
    """Record that nothing is left of the try."""
    await connection.execute(update(task_try).where(this_try(key)).values(forget_at=None))


async def postpone(connection: AsyncConnection, key: TryKey, by: timedelta) -> None:
    """Have the try come up again after so long, behind those that are due now."""
    later = database_time_in(by.total_seconds())
    await connection.execute(update(task_try).where(this_try(key)).values(forget_at=later))
