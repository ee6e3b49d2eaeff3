"""Tries of task instances: the intent before anything starts, the claim, the fence, the end.

A try may change something only while it is the task instance's current try and has not finished: `fence` checks that on
the locked row, inside the transaction that writes. Every transaction locks in this order, so that none waits for another
in a circle: task instance, try, run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, dispatcher, job, run, task_instance, task_try
from store.errors import NotFound, TryFenced
from store.runs.answers import Asked
from store.runs.runs import Startable, may_start, move_run
from store.runs.try_lock import UNFINISHED, FencedTry, hold, unfinished


@dataclass(frozen=True, kw_only=True)
class OpenTry:
    """A try whose process is not known to be gone; `handle` is the submitter's JSON text, None before it was stored."""

    task_instance_id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    tag: str
    handle: str | None
    home_id: str
    claimed: bool
    cancelled: bool
    """Somebody decided what becomes of its run; only the process is still to be stopped."""
    finish_state: str | None
    message: str | None
    definition: str
    age_seconds: float
    """Since it was submitted (0 before), by the database's clock."""


async def commit_intent(
    connection: AsyncConnection, task: Startable, *, home_id: str, tag: str, token_hash: str
) -> bool:
    """Record that `home_id` is about to start the next try; False when somebody else did, or the instance moved on."""
    t = task_instance.c
    number = task.try_number + 1
    moved = await connection.execute(
        update(task_instance)
        .where(t.id == task.task_instance_id, t.try_number == task.try_number, may_start())
        .values(try_number=number, state="queued", detail="submitting", not_before=None, start_date=None, end_date=None)
        .returning(t.id)
    )
    if moved.one_or_none() is None:
        return False
    await connection.execute(
        insert(task_try).values(
            task_instance_id=task.task_instance_id,
            try_number=number,
            home_id=home_id,
            tag=tag,
            token_hash=token_hash,
            intent_at=database_now(),
        )
    )
    await move_run(connection, task.dag_id, task.run_id, "running")
    return True


async def replace_token(connection: AsyncConnection, task_instance_id: str, try_number: int, token_hash: str) -> None:
    """A try that certainly never started is submitted again with a new token."""
    await connection.execute(update(task_try).where(_this(task_instance_id, try_number)).values(token_hash=token_hash))


async def store_handle(connection: AsyncConnection, task_instance_id: str, try_number: int, handle: str) -> None:
    """Keep what leads back to the started try; its task instance runs from now on, unless it waits for the next one."""
    await _lock(connection, task_instance_id)
    if not await _is_decided(connection, task_instance_id, try_number):
        await _set_running(connection, task_instance_id, try_number)
    started = update(task_try).where(_this(task_instance_id, try_number))
    await connection.execute(started.values(handle=handle, submitted_at=database_now()))


async def open_tries(connection: AsyncConnection, home_id: str) -> Sequence[OpenTry]:
    """All tries that this home started, or meant to, and has not seen the end of; oldest first."""
    return await _open(connection, task_try.c.home_id == home_id)


async def silent_homes(connection: AsyncConnection) -> frozenset[str]:
    """Homes with open tries whose lease has ended."""
    a = task_try.c
    lives = select(dispatcher.c.home_id).where(dispatcher.c.expires_at > database_now())
    silent = select(a.home_id).where(a.ended_at.is_(None), a.home_id.not_in(lives)).distinct()
    return frozenset((await connection.execute(silent)).scalars())


async def to_stop(connection: AsyncConnection, tags: Collection[str]) -> frozenset[str]:
    """Which of these tries were cancelled, or are over for everybody but the processes that still run them."""
    a = task_try.c
    unwanted = or_(a.cancelled_at.is_not(None), a.ended_at.is_not(None))
    return frozenset((await connection.execute(select(a.tag).where(a.tag.in_(tags), unwanted))).scalars())


async def cancel(connection: AsyncConnection, task_instance_id: str) -> None:
    """Fence what is alive of the task instance and have its home stop it; it takes no part in the run's end any more."""
    a = task_try.c
    alive = and_(a.task_instance_id == task_instance_id, a.ended_at.is_(None), a.cancelled_at.is_(None))
    await connection.execute(update(task_try).where(alive).values(cancelled_at=database_now()))


async def open_try(
    connection: AsyncConnection, task_instance_id: str, try_number: int, *, lock: bool = False
) -> OpenTry | None:
    """One open try as it stands now, its task instance locked first if asked; None when it has ended."""
    if lock:
        await _lock(connection, task_instance_id)
    found = await _open(connection, _this(task_instance_id, try_number))
    return found[0] if found else None


async def _open(connection: AsyncConnection, which: ColumnElement[bool]) -> Sequence[OpenTry]:
    t, a = task_instance.c, task_try.c
    wanted = (
        select(
            a.task_instance_id,
            t.dag_id,
            t.run_id,
            t.task_id,
            t.map_index,
            a.try_number,
            a.tag,
            a.handle,
            a.home_id,
            a.nonce.is_not(None).label("claimed"),
            a.cancelled_at.is_not(None).label("cancelled"),
            a.finish_state,
            a.message,
            job.c.definition,
            a.submitted_at,
            database_now().label("now"),
        )
        .join(task_instance, t.id == a.task_instance_id)
        .join(job, job.c.dag_id == t.dag_id)
        .where(which, a.ended_at.is_(None))
        .order_by(a.intent_at)
    )
    return [_with_age(**row) for row in (await connection.execute(wanted)).mappings()]


def _with_age(*, submitted_at: datetime | None, now: datetime, **values: Any) -> OpenTry:
    age = 0.0 if submitted_at is None else (now - submitted_at).total_seconds()
    return OpenTry(**values, age_seconds=age)


async def places_of_open_tries(connection: AsyncConnection) -> Sequence[Mapping[str, Any]]:
    """The names of all tries whose process is not known to be gone, as their logs are filed."""
    t, a = task_instance.c, task_try.c
    wanted = select(t.dag_id, t.run_id, t.task_id, t.map_index, a.try_number).join(task_try, a.task_instance_id == t.id)
    return [dict(row) for row in (await connection.execute(wanted.where(a.ended_at.is_(None)))).mappings()]


async def counted_tries(connection: AsyncConnection, task_instance_id: str) -> int:
    """How many tries of the task instance have ended and used up a retry."""
    a = task_try.c
    ended = select(func.count()).where(a.task_instance_id == task_instance_id, a.ended_at.is_not(None), a.counted)
    return (await connection.execute(ended)).scalar_one()


async def fence(
    connection: AsyncConnection, task_instance_id: str, try_number: int, *, asked: Asked | None = None
) -> FencedTry:
    """Lock the task instance and let its current, unfinished try through. Raises `NotFound`, `TryFenced`, `Answered`."""
    return unfinished(await hold(connection, task_instance_id, try_number, asked=asked), try_number)


async def claim(
    connection: AsyncConnection, task_instance_id: str, try_number: int, nonce: str, *, asked: Asked | None = None
) -> FencedTry:
    """Give the try to the one process that asks first; asking again with the same nonce is the same claim."""
    row = await hold(connection, task_instance_id, try_number, asked=asked)
    held = unfinished(row, try_number)
    if row.get("nonce") not in {None, nonce}:
        raise TryFenced(f"try {try_number} is claimed by another process; end this one")
    if row.get("nonce") is None:
        claimed = update(task_try).where(_this(task_instance_id, try_number))
        await connection.execute(claimed.values(nonce=nonce, claimed_at=database_now()))
        await _set_running(connection, task_instance_id, try_number)
    return held


async def set_progress(connection: AsyncConnection, held: FencedTry, progress: str) -> None:
    """Keep how far the try's Spark application is; `progress` is a JSON object's text."""
    this = _this(held.task_instance_id, held.try_number)
    await connection.execute(update(task_try).where(this).values(progress=progress))


async def note_progress(connection: AsyncConnection, task_instance_id: str, try_number: int, progress: str) -> bool:
    """The same as seen from outside, for a try that does not tell itself; False when it does, or has ended."""
    silent = and_(_this(task_instance_id, try_number), task_try.c.nonce.is_(None), task_try.c.ended_at.is_(None))
    noted = update(task_try).where(silent).values(progress=progress).returning(task_try.c.try_number)
    return (await connection.execute(noted)).one_or_none() is not None


async def finish(
    connection: AsyncConnection,
    task_instance_id: str,
    try_number: int,
    *,
    finish_state: str,
    message: str | None,
    asked: Asked | None = None,
) -> FencedTry | None:
    """Record what the job says of itself; None when it said the same before (an answer got lost).

    Success and skip are final here and now. A failure is decided when the process is gone, so that two tries never
    run at once.
    """
    row = await hold(connection, task_instance_id, try_number, asked=asked)
    if row.get("finish_state") == finish_state:
        return None
    held = unfinished(row, try_number)
    this = update(task_try).where(_this(task_instance_id, try_number))
    await connection.execute(this.values(finish_state=finish_state, message=message))
    if finish_state != "failed":
        ended = update(task_instance).where(task_instance.c.id == task_instance_id)
        await connection.execute(ended.values(state=finish_state, detail=message, end_date=database_now()))
        await move_run(connection, held.dag_id, held.run_id, "success", reason=message)
    return held


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
) -> None:
    """Record that nothing of the try is alive, and what became of its task instance and run; once.

    An accepted success or skip is final, and so is what people decided of a run: then only the end and the warning are
    written. `retry_in` is in seconds; a try that is not `counted` does not use up a retry.
    """
    row = await _lock(connection, ended.task_instance_id)
    a = task_try.c
    over = update(task_try).where(_this(ended.task_instance_id, ended.try_number), a.ended_at.is_(None))
    said = {"exit_code": exit_code, "message": func.coalesce(a.message, reason), "counted": counted}
    first = await connection.execute(over.values(ended_at=database_now(), **said).returning(a.ended_at))
    ended_at: datetime | None = first.scalar_one_or_none()
    if ended_at is None:
        return
    if warning:
        here = and_(run.c.dag_id == ended.dag_id, run.c.run_id == ended.run_id)
        await connection.execute(update(run).where(here).values(warning=warning))
    is_decided = await _is_decided(connection, ended.task_instance_id, ended.try_number)
    if row["try_number"] != ended.try_number or row["state"] not in UNFINISHED or is_decided:
        return
    due = None if retry_in is None else ended_at + timedelta(seconds=retry_in)
    await connection.execute(
        update(task_instance)
        .where(task_instance.c.id == ended.task_instance_id)
        .values(state=state, detail=reason, not_before=due, end_date=ended_at)
    )
    if run_state != "running":
        await move_run(connection, ended.dag_id, ended.run_id, run_state, reason=reason)


async def _lock(connection: AsyncConnection, task_instance_id: str) -> RowMapping:
    t = task_instance.c
    this = select(t.try_number, t.state).where(t.id == task_instance_id).with_for_update(key_share=True)
    row = (await connection.execute(this)).mappings().one_or_none()
    if row is None:
        raise NotFound("this task instance does not exist any more; end this process")
    return row


async def _is_decided(connection: AsyncConnection, task_instance_id: str, try_number: int) -> bool:
    """Whether what became of the try's task instance is settled, whatever its process does."""
    a = task_try.c
    final = or_(a.finish_state.in_(("success", "skipped")), a.cancelled_at.is_not(None))
    wanted = select(a.tag).where(_this(task_instance_id, try_number), final)
    return (await connection.execute(wanted)).one_or_none() is not None


async def _set_running(connection: AsyncConnection, task_instance_id: str, try_number: int) -> None:
    t = task_instance.c
    queued = update(task_instance).where(t.id == task_instance_id, t.try_number == try_number, t.state == "queued")
    await connection.execute(queued.values(state="running", detail=None, start_date=database_now()))


def _this(task_instance_id: str, try_number: int) -> ColumnElement[bool]:
    return and_(task_try.c.task_instance_id == task_instance_id, task_try.c.try_number == try_number)
