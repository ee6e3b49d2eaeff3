"""Tries as the homes that started them see them. Reads only, except for the lock that `open_try` may take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import database_now, dispatcher, job, run, task_instance, task_try
from store.errors import no_task_instance
from store.keys import JobDefinition, TaskInstanceKey, TryKey
from store.runs.runs import this_run

_t = task_instance.c
_KEY: Final = (task_try.c.task_instance_id, _t.dag_id, _t.run_id, _t.task_id, _t.map_index, task_try.c.try_number)


@dataclass(frozen=True, kw_only=True)
class OpenTry:
    """A try whose process is not known to be gone; `handle` is the submitter's JSON text, None before it was stored."""

    key: TryKey
    tag: str
    submitter: str
    handle: str | None
    home_id: str
    claimed: bool
    cancelled: bool
    """Somebody decided the outcome of its run; only the process still has to be stopped."""
    finish_state: str | None
    is_final: bool
    """The job reported that another try would fail alike."""
    message: str | None
    definition: JobDefinition
    trace_id: str
    """The trace of its run."""
    submitted_at: datetime | None
    now: datetime
    """When this was read, by the database's clock."""

    @property
    def age_seconds(self) -> float:
        """Seconds since it was submitted; 0 before."""
        return 0.0 if self.submitted_at is None else (self.now - self.submitted_at).total_seconds()


async def open_tries(connection: AsyncConnection, home_id: str) -> Sequence[OpenTry]:
    """Return all tries that this home started, or meant to, and has not seen the end of; oldest first."""
    return await _open(connection, task_try.c.home_id == home_id)


_LIVES: Final = select(dispatcher.c.home_id).where(dispatcher.c.expires_at > database_now())
_SILENT: Final = (
    select(task_try.c.home_id).where(task_try.c.ended_at.is_(None), task_try.c.home_id.not_in(_LIVES)).distinct()
)


async def silent_homes(connection: AsyncConnection) -> frozenset[str]:
    """Return the homes with open tries whose lease has ended."""
    return frozenset((await connection.execute(_SILENT)).scalars())


async def taken_over(connection: AsyncConnection, home_id: str, tags: Collection[str]) -> frozenset[str]:
    """Return which of these tries belong to another home by now."""
    a = task_try.c
    statement = select(a.tag).where(a.tag.in_(tags), a.home_id != home_id)
    return frozenset((await connection.execute(statement)).scalars())


async def open_try(connection: AsyncConnection, key: TryKey, *, lock: bool = False) -> OpenTry | None:
    """Return one open try as it stands now, its task instance locked first if asked; None if it has ended."""
    if lock:
        await lock_instance(connection, key.task_instance_id)
    return next(iter(await _open(connection, this_try(key))), None)


def _shown_tries() -> Select[Any]:
    t, a = task_instance.c, task_try.c
    how = (a.nonce.is_not(None).label("claimed"), a.cancelled_at.is_not(None).label("cancelled"))
    return (
        select(*_KEY, a.tag, a.submitter, a.handle, a.home_id, *how, a.finish_state, a.is_final, a.message)
        .add_columns(job.c.definition, run.c.trace_id, a.submitted_at, database_now().label("now"))
        .join(task_instance, t.id == a.task_instance_id)
        .join(run, this_run(t.dag_id, t.run_id))
        .join(job, job.c.dag_id == t.dag_id)
        .order_by(a.intent_at)
    )


_TRIES: Final = _shown_tries()


async def _open(connection: AsyncConnection, which: ColumnElement[bool]) -> Sequence[OpenTry]:
    statement = _TRIES.where(which, task_try.c.ended_at.is_(None))
    return [
        OpenTry(
            key=TryKey(
                instance=TaskInstanceKey.of(row), task_instance_id=row.task_instance_id, try_number=row.try_number
            ),
            tag=row.tag,
            submitter=row.submitter,
            handle=row.handle,
            home_id=row.home_id,
            claimed=row.claimed,
            cancelled=row.cancelled,
            finish_state=row.finish_state,
            is_final=row.is_final,
            message=row.message,
            definition=row.definition,
            trace_id=row.trace_id,
            submitted_at=row.submitted_at,
            now=row.now,
        )
        for row in await connection.execute(statement)
    ]


async def keys_of_open_tries(connection: AsyncConnection) -> Sequence[TryKey]:
    """Return all tries whose process is not known to be gone, whichever home started them."""
    t, a = task_instance.c, task_try.c
    query = select(*_KEY).join(task_instance, t.id == a.task_instance_id).where(a.ended_at.is_(None))
    return await all_of(connection, query, TryKey.of_columns)


async def stored_handle(
    connection: AsyncConnection, instance: TaskInstanceKey, try_number: int
) -> tuple[str, str] | None:
    """Return submitter and handle of a try, ended or not; None if there is no such try or no handle yet."""
    t, a = task_instance.c, task_try.c
    here = [t[name] == value for name, value in instance.columns.items()]
    statement = (
        select(a.submitter, a.handle)
        .join(task_instance, t.id == a.task_instance_id)
        .where(*here, a.try_number == try_number, a.handle.is_not(None))
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else (row.submitter, row.handle)


async def counted_tries(connection: AsyncConnection, task_instance_id: str) -> int:
    """Return how many tries of the task instance have ended and used up a retry."""
    a = task_try.c
    ended = select(func.count()).where(a.task_instance_id == task_instance_id, a.ended_at.is_not(None), a.counted)
    return (await connection.execute(ended)).scalar_one()


async def lock_instance(connection: AsyncConnection, task_instance_id: str) -> tuple[int, str]:
    """Lock a task instance; return its current try's number and its state. Raises `NotFound`."""
    t = task_instance.c
    this = select(t.try_number, t.state).where(t.id == task_instance_id).with_for_update(key_share=True)
    row = (await connection.execute(this)).one_or_none()
    if row is None:
        raise no_task_instance()
    return row.try_number, row.state


def this_try(key: TryKey) -> ColumnElement[bool]:
    return and_(task_try.c.task_instance_id == key.task_instance_id, task_try.c.try_number == key.try_number)
