"""Tries of task instances: the intent before anything starts, the claim, the fence, the end.

A try may change something only while it is the task instance's current try and has not finished: `fence` checks that on
the locked row, inside the transaction that writes. Every transaction locks in this order, so that none waits for another
in a circle: task instance, try, run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import (
    database_now,
    dispatcher,
    job,
    run,
    task_instance,
    task_try,
)
from store.errors import TryFenced, no_task_instance
from store.keys import JobDefinition, TaskInstanceKey, TryKey
from store.runs.answers import IdempotencyKey
from store.runs.runs import Run, Startable, may_start, move_run, this_run
from store.runs.try_lock import UNFINISHED, lock_try

NOT_BEGUN: Final = dict.fromkeys(("not_before", "start_date", "end_date"))
"""What a task instance lacks that waits to be started."""
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
    """Somebody decided what becomes of its run; only the process is still to be stopped."""
    finish_state: str | None
    message: str | None
    definition: JobDefinition
    trace_id: str
    """Its run's."""
    submitted_at: datetime | None
    now: datetime
    """When this was read, by the database's clock."""

    @property
    def age_seconds(self) -> float:
        """Since it was submitted; 0 before."""
        return 0.0 if self.submitted_at is None else (self.now - self.submitted_at).total_seconds()


async def commit_intent(
    connection: AsyncConnection, task: Startable, *, home_id: str, tag: str, token_hash: str
) -> Run | None:
    """Record that `home_id` is about to start the try; its run, which runs from now on.

    None when somebody else did, or the instance moved on.
    """
    t, key = task_instance.c, task.key
    mine = update(task_instance).where(t.id == key.task_instance_id, t.try_number == key.try_number - 1, may_start())
    moved = mine.values(try_number=key.try_number, state="queued", detail="submitting", **NOT_BEGUN).returning(t.id)
    if (await connection.execute(moved)).one_or_none() is None:
        return None
    this = {"task_instance_id": key.task_instance_id, "try_number": key.try_number, "intent_at": database_now()}
    how = {"home_id": home_id, "submitter": task.definition.submitter, "tag": tag, "token_hash": token_hash}
    await connection.execute(insert(task_try).values(**this, **how))
    return await move_run(connection, key.dag_id, key.run_id, "running")


async def replace_token(connection: AsyncConnection, open_try: OpenTry, token_hash: str) -> bool:
    """A try that certainly never started is submitted again with a new token; False when its home has it no more."""
    return await _change(connection, open_try, token_hash=token_hash)


async def store_handle(connection: AsyncConnection, open_try: OpenTry, handle: str) -> bool:
    """Keep what leads back to the started try; its task instance runs from now on, unless it waits for the next one.

    False, and nothing is changed, when another home has taken the try over.
    """
    key = open_try.key
    await _lock(connection, key.task_instance_id)
    if not await _change(connection, open_try, handle=handle, submitted_at=database_now()):
        return False
    if not await _is_decided(connection, key):
        await _set_running(connection, key.task_instance_id, key.try_number)
    return True


async def take_over(connection: AsyncConnection, open_try: OpenTry, home_id: str) -> OpenTry | None:
    """Give a try of a home that is silent to another one; None when it is not that home's any more, or has ended."""
    await _lock(connection, open_try.key.task_instance_id)
    if not await _change(connection, open_try, home_id=home_id):
        return None
    return replace(open_try, home_id=home_id)


async def _change(connection: AsyncConnection, open_try: OpenTry, **values: Any) -> bool:
    """Whether the try is still open and of the home that `open_try` names, and so was changed."""
    a = task_try.c
    still = and_(_this_try(open_try.key), a.home_id == open_try.home_id, a.ended_at.is_(None))
    changed = await connection.execute(update(task_try).where(still).values(**values).returning(a.tag))
    return changed.one_or_none() is not None


async def open_tries(connection: AsyncConnection, home_id: str) -> Sequence[OpenTry]:
    """All tries that this home started, or meant to, and has not seen the end of; oldest first."""
    return await _open(connection, task_try.c.home_id == home_id)


async def silent_homes(connection: AsyncConnection) -> frozenset[str]:
    """Homes with open tries whose lease has ended."""
    a = task_try.c
    lives = select(dispatcher.c.home_id).where(dispatcher.c.expires_at > database_now())
    silent = select(a.home_id).where(a.ended_at.is_(None), a.home_id.not_in(lives)).distinct()
    return frozenset((await connection.execute(silent)).scalars())


async def taken_over(connection: AsyncConnection, home_id: str, tags: Collection[str]) -> frozenset[str]:
    """Which of these tries belong to another home than this by now."""
    a = task_try.c
    statement = select(a.tag).where(a.tag.in_(tags), a.home_id != home_id)
    return frozenset((await connection.execute(statement)).scalars())


async def cancel(connection: AsyncConnection, task_instance_id: str) -> None:
    """Fence what is alive of the task instance and have its home stop it; it takes no part in the run's end any more."""
    a = task_try.c
    alive = and_(a.task_instance_id == task_instance_id, a.ended_at.is_(None), a.cancelled_at.is_(None))
    await connection.execute(update(task_try).where(alive).values(cancelled_at=database_now()))


async def warn(connection: AsyncConnection, key: TryKey, warning: str) -> None:
    """Show a sentence about the try on its run."""
    await connection.execute(update(run).where(this_run(key.dag_id, key.run_id)).values(warning=warning))


async def open_try(connection: AsyncConnection, key: TryKey, *, lock: bool = False) -> OpenTry | None:
    """One open try as it stands now, its task instance locked first if asked; None when it has ended."""
    if lock:
        await _lock(connection, key.task_instance_id)
    return next(iter(await _open(connection, _this_try(key))), None)


async def _open(connection: AsyncConnection, which: ColumnElement[bool]) -> Sequence[OpenTry]:
    t, a = task_instance.c, task_try.c
    how = (a.nonce.is_not(None).label("claimed"), a.cancelled_at.is_not(None).label("cancelled"))
    statement = (
        select(*_KEY, a.tag, a.submitter, a.handle, a.home_id, *how, a.finish_state, a.message)
        .add_columns(job.c.definition, run.c.trace_id, a.submitted_at, database_now().label("now"))
        .join(task_instance, t.id == a.task_instance_id)
        .join(run, this_run(t.dag_id, t.run_id))
        .join(job, job.c.dag_id == t.dag_id)
        .where(which, a.ended_at.is_(None))
        .order_by(a.intent_at)
    )
    return await all_of(connection, statement, _open_try)


def _open_try(**row: Any) -> OpenTry:
    return OpenTry(key=TryKey.of_columns(**{column.name: row.pop(column.name) for column in _KEY}), **row)


async def keys_of_open_tries(connection: AsyncConnection) -> Sequence[TryKey]:
    """All tries whose process is not known to be gone, whichever home started them."""
    t, a = task_instance.c, task_try.c
    query = select(*_KEY).join(task_instance, t.id == a.task_instance_id).where(a.ended_at.is_(None))
    return await all_of(connection, query, TryKey.of_columns)


async def stored_handle(
    connection: AsyncConnection, instance: TaskInstanceKey, try_number: int
) -> tuple[str, str] | None:
    """Submitter and handle of a try, ended or not; None when there is no such try or it has no handle yet."""
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
    """How many tries of the task instance have ended and used up a retry."""
    a = task_try.c
    ended = select(func.count()).where(a.task_instance_id == task_instance_id, a.ended_at.is_not(None), a.counted)
    return (await connection.execute(ended)).scalar_one()


async def fence(
    connection: AsyncConnection, task_instance_id: str, try_number: int, *, request: IdempotencyKey | None = None
) -> TryKey:
    """Lock the task instance and let its current, unfinished try through. Raises `NotFound`, `TryFenced`, `ReplayedResponse`."""
    return (await lock_try(connection, task_instance_id, try_number, request=request)).fenced


async def claim(
    connection: AsyncConnection,
    task_instance_id: str,
    try_number: int,
    nonce: str,
    *,
    request: IdempotencyKey | None = None,
) -> TryKey:
    """Give the try to the one process that asks first; asking again with the same nonce is the same claim."""
    locked = await lock_try(connection, task_instance_id, try_number, request=request)
    key = locked.fenced
    if locked.nonce not in {None, nonce}:
        raise TryFenced(f"try {try_number} is claimed by another process; end this one")
    if locked.nonce is None:
        claimed = update(task_try).where(_this_try(key))
        await connection.execute(claimed.values(nonce=nonce, claimed_at=database_now()))
        await _set_running(connection, task_instance_id, try_number)
    return key


async def set_progress(connection: AsyncConnection, key: TryKey, progress: str) -> None:
    """Keep how far the try's Spark application is; `progress` is a JSON object's text."""
    await connection.execute(update(task_try).where(_this_try(key)).values(progress=progress))


async def is_silent(connection: AsyncConnection, key: TryKey) -> bool:
    """Whether the try runs and does not tell its progress itself."""
    return (await connection.execute(select(task_try.c.try_number).where(_silent(key)))).one_or_none() is not None


async def note_progress(connection: AsyncConnection, key: TryKey, progress: str) -> None:
    """The same as seen from outside, for a try that is silent."""
    await connection.execute(update(task_try).where(_silent(key)).values(progress=progress))


def _silent(key: TryKey) -> ColumnElement[bool]:
    return and_(_this_try(key), task_try.c.nonce.is_(None), task_try.c.ended_at.is_(None))


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A try whose word was taken, and its run, if it is over with that."""

    key: TryKey
    run: Run | None


async def finish(
    connection: AsyncConnection,
    task_instance_id: str,
    try_number: int,
    *,
    finish_state: str,
    message: str | None,
    request: IdempotencyKey | None = None,
) -> Finished | None:
    """Record what the job says of itself; None when it said the same before (an answer got lost).

    Success and skip are final here and now. A failure is decided when the process is gone, so that two tries never
    run at once.
    """
    locked = await lock_try(connection, task_instance_id, try_number, request=request)
    if locked.finish_state == finish_state:
        return None
    key = locked.fenced
    this = update(task_try).where(_this_try(key))
    await connection.execute(this.values(finish_state=finish_state, message=message))
    if finish_state == "failed":
        return Finished(key=key, run=None)
    ended = update(task_instance).where(task_instance.c.id == task_instance_id)
    await connection.execute(ended.values(state=finish_state, detail=message, end_date=database_now()))
    return Finished(key=key, run=await move_run(connection, key.dag_id, key.run_id, "success", reason=message))


async def end(
    connection: AsyncConnection,
    ended: OpenTry,
    *,
    exit_code: int | None,
    state: str,
    run_state: str,
    reason: str | None,
    warning: str | None,
    retry_in: float | None,
    counted: bool = True,
) -> Run | None:
    """Record that nothing of the try is alive, and what became of its task instance and run; once.

    Returns the run if it is over with that.

    An accepted success or skip is final, and so is what people decided of a run: then only the end and the warning are
    written. `retry_in` is in seconds; a try that is not `counted` does not use up a retry.
    """
    key = ended.key
    current, state_now = await _lock(connection, key.task_instance_id)
    is_decided = await _is_decided(connection, key)
    a = task_try.c
    over = update(task_try).where(_this_try(key), a.ended_at.is_(None))
    values = {
        "exit_code": exit_code,
        "message": func.coalesce(a.message, reason),
        "counted": counted and not is_decided,
    }
    first = await connection.execute(over.values(ended_at=database_now(), **values).returning(a.ended_at))
    ended_at: datetime | None = first.scalar_one_or_none()
    if ended_at is None:
        return None
    if warning:
        await warn(connection, key, warning)
    if current != key.try_number or state_now not in UNFINISHED or is_decided:
        return None
    due = None if retry_in is None else ended_at + timedelta(seconds=retry_in)
    await connection.execute(
        update(task_instance)
        .where(task_instance.c.id == key.task_instance_id)
        .values(state=state, detail=reason, not_before=due, end_date=ended_at)
    )
    if run_state == "running":
        return None
    return await move_run(connection, key.dag_id, key.run_id, run_state, reason=reason)


async def _lock(connection: AsyncConnection, task_instance_id: str) -> tuple[int, str]:
    """Returns its current try's number and its state."""
    t = task_instance.c
    this = select(t.try_number, t.state).where(t.id == task_instance_id).with_for_update(key_share=True)
    row = (await connection.execute(this)).one_or_none()
    if row is None:
        raise no_task_instance()
    return row.try_number, row.state


async def _is_decided(connection: AsyncConnection, key: TryKey) -> bool:
    """Whether what became of the try's task instance is settled, whatever its process does."""
    a = task_try.c
    final = or_(a.finish_state.in_(("success", "skipped")), a.cancelled_at.is_not(None))
    statement = select(a.tag).where(_this_try(key), final)
    return (await connection.execute(statement)).one_or_none() is not None


async def _set_running(connection: AsyncConnection, task_instance_id: str, try_number: int) -> None:
    t = task_instance.c
    queued = update(task_instance).where(t.id == task_instance_id, t.try_number == try_number, t.state == "queued")
    await connection.execute(queued.values(state="running", detail=None, start_date=database_now()))


def _this_try(key: TryKey) -> ColumnElement[bool]:
    return and_(task_try.c.task_instance_id == key.task_instance_id, task_try.c.try_number == key.try_number)
