"""Tries of task instances: the intent before anything starts, the claim, the fence, the end.

A try may change something only while it is the task instance's current try and has not finished: `fence` checks that on
the locked row, inside the transaction that writes. Every transaction locks in the same order, so that none waits for
another in a circle: task instance, try, run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database import configuration_lock
from store.database.asset_events import NewEvent
from store.database.schema import (
    database_now,
    database_time_in,
    run,
    task_instance,
    task_try,
)
from store.detection import events
from store.detection.events import AppendedEvents
from store.detection.interest import EventHooks, EventOrigin
from store.errors import TryFenced
from store.keys import TaskInstanceKey, TryKey, TryRef
from store.runs.runs import RunRow, move_run, this_run
from store.runs.tries import bad_records as bad_records_of_runs
from store.runs.tries.answers import IdempotencyKey
from store.runs.tries.startable import Startable, may_start
from store.runs.tries.try_lock import UNFINISHED, lock_try
from store.runs.tries.try_lookup import OpenTry, lock_instance, this_try

NOT_BEGUN: Final = dict.fromkeys(("not_before", "start_date", "end_date"))
"""The columns that are null while a task instance waits to be started."""


async def commit_intent(
    connection: AsyncConnection, task: Startable, *, home_id: str, tag: str, token_hash: str
) -> RunRow | None:
    """Record that `home_id` is about to start the try; return its run, which runs from now on.

    Return None if somebody else did, or the instance moved on.
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
    """Give a try that never started a new token, with which it is submitted again: then none that was given before can start it.

    Return False if a driver was granted its lease meanwhile, or if its home no longer has the try.
    """
    return await _change(connection, open_try, task_try.c.renewed_at.is_(None), token_hash=token_hash)


async def store_handle(connection: AsyncConnection, open_try: OpenTry, handle: str) -> bool:
    """Keep the handle of the started try; its task instance runs from now on, unless it waits for the next one.

    Return False, and change nothing, if another home has taken the try over.
    """
    key = open_try.key
    await lock_instance(connection, key.task_instance_id)
    if not await _change(connection, open_try, handle=handle, submitted_at=database_now()):
        return False
    if not await _is_decided(connection, key):
        await _set_running(connection, key)
    return True


async def show_reason(connection: AsyncConnection, key: TryKey, sentence: str | None) -> None:
    """Show what the submitter says of a try that has not ended, such as what its driver waits for; None: nothing."""
    t = task_instance.c
    this = and_(t.id == key.task_instance_id, t.try_number == key.try_number, t.state.in_(UNFINISHED))
    await connection.execute(update(task_instance).where(this).values(detail=sentence))


async def take_over(connection: AsyncConnection, open_try: OpenTry, home_id: str) -> OpenTry | None:
    """Give a try of a silent home to another one; return None if it is not that home's any more, or has ended."""
    await lock_instance(connection, open_try.key.task_instance_id)
    if not await _change(connection, open_try, home_id=home_id):
        return None
    return replace(open_try, home_id=home_id)


async def _change(
    connection: AsyncConnection, open_try: OpenTry, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    """Change the try if it is still open, belongs to the home that `open_try` names, and meets the conditions.

    Return whether it was changed.
    """
    a = task_try.c
    still = and_(this_try(open_try.key), a.home_id == open_try.home_id, a.ended_at.is_(None), *conditions)
    changed = await connection.execute(update(task_try).where(still).values(**values).returning(a.tag))
    return changed.one_or_none() is not None


async def cancel(connection: AsyncConnection, task_instance_id: str) -> None:
    """Fence the task instance's live try and have its home stop it; it no longer affects the end of the run."""
    a = task_try.c
    alive = and_(a.task_instance_id == task_instance_id, a.ended_at.is_(None), a.cancelled_at.is_(None))
    await connection.execute(update(task_try).where(alive).values(cancelled_at=database_now()))


async def warn(connection: AsyncConnection, key: TryKey, warning: str) -> None:
    """Show a sentence about the try on its run."""
    await connection.execute(update(run).where(this_run(key.dag_id, key.run_id)).values(warning=warning))


async def fence(connection: AsyncConnection, ref: TryRef, *, request: IdempotencyKey | None = None) -> TryKey:
    """Lock the task instance and admit its current, unfinished try.

    Raises `NotFound`, `TryFenced`, `ReplayedResponse`.
    """
    return (await lock_try(connection, ref, request=request)).fenced


async def claim(
    connection: AsyncConnection,
    ref: TryRef,
    nonce: str,
    *,
    request: IdempotencyKey | None = None,
) -> TryKey:
    """Give the try to the one process that asks first; asking again with the same nonce is the same claim.

    Raises `NotFound`, `TryFenced`, `ReplayedResponse`.
    """
    locked = await lock_try(connection, ref, request=request)
    key = locked.fenced
    if locked.nonce not in {None, nonce}:
        raise TryFenced(f"try {ref.try_number} is claimed by another process; end this one")
    if locked.nonce is None:
        claimed = update(task_try).where(this_try(key))
        await connection.execute(claimed.values(nonce=nonce, claimed_at=database_now()))
        await _set_running(connection, ref)
    return key


async def set_progress(connection: AsyncConnection, key: TryKey, progress: str) -> None:
    """Keep the progress of the try's Spark application; `progress` is a JSON object's text."""
    await connection.execute(update(task_try).where(this_try(key)).values(progress=progress))


async def is_silent(connection: AsyncConnection, key: TryKey) -> bool:
    """Whether the try is open and does not report its progress itself."""
    return (await connection.execute(select(task_try.c.try_number).where(_silent(key)))).one_or_none() is not None


async def note_progress(connection: AsyncConnection, key: TryKey, progress: str) -> None:
    """Keep progress as it is seen from outside, for a try that is silent."""
    await connection.execute(update(task_try).where(_silent(key)).values(progress=progress))


def _silent(key: TryKey) -> ColumnElement[bool]:
    return and_(this_try(key), task_try.c.nonce.is_(None), task_try.c.ended_at.is_(None))


@dataclass(frozen=True, kw_only=True)
class FinishedTry:
    """A try whose result was accepted, and its run, if it is over with that."""

    key: TryKey
    run: RunRow | None
    new_bad_records: int = 0
    """The bad records of a run that had none before."""


async def finish(
    connection: AsyncConnection,
    ref: TryRef,
    *,
    finish_state: str,
    message: str | None,
    is_final: bool = False,
    bad_records: int = 0,
    request: IdempotencyKey | None = None,
) -> FinishedTry | None:
    """Record what the job reports about itself; return None if it reported the same before (a response got lost).

    Success and skip are final here and now. A failure is decided when the process is gone, so that two tries never run
    at once; `is_final` says that another try would fail alike. `bad_records` are those of a success.
    """
    locked = await lock_try(connection, ref, request=request)
    if locked.finish_state == finish_state:
        return None
    key = locked.fenced
    this = update(task_try).where(this_try(key))
    is_final = is_final and finish_state == "failed"
    await connection.execute(this.values(finish_state=finish_state, message=message, is_final=is_final))
    if finish_state == "failed":
        return FinishedTry(key=key, run=None)
    ended = update(task_instance).where(task_instance.c.id == ref.task_instance_id)
    await connection.execute(ended.values(state=finish_state, detail=message, end_date=database_now()))
    new = 0
    if finish_state == "success":
        new = await bad_records_of_runs.note(connection, key.dag_id, key.run_id, bad_records)
    ended_run = await move_run(connection, key.dag_id, key.run_id, "success", reason=message)
    return FinishedTry(key=key, run=ended_run, new_bad_records=new)


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
    forget_in: float | None = None,
) -> RunRow | None:
    """Record once that nothing of the try is alive, and what became of its task instance and run.

    Return the run if it is over with that. An accepted success or skip is final, and so is what people decided about a
    run: then only the end and the warning are written. `retry_in` and `forget_in` are in seconds; a try that is not
    `counted` does not use up a retry.
    """
    key = ended.key
    current, state_now = await lock_instance(connection, key.task_instance_id)
    is_decided = await _is_decided(connection, key)
    a = task_try.c
    over = update(task_try).where(this_try(key), a.ended_at.is_(None))
    values = {
        "exit_code": exit_code,
        "message": func.coalesce(a.message, reason),
        "counted": counted and not is_decided,
        "forget_at": None if forget_in is None else database_time_in(forget_in),
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


async def _is_decided(connection: AsyncConnection, key: TryKey) -> bool:
    """Return whether the outcome of the try's task instance is settled, whatever its process does."""
    a = task_try.c
    final = or_(a.finish_state.in_(("success", "skipped")), a.cancelled_at.is_not(None))
    statement = select(a.tag).where(this_try(key), final)
    return (await connection.execute(statement)).one_or_none() is not None


async def _set_running(connection: AsyncConnection, ref: TryRef) -> None:
    t = task_instance.c
    this = and_(t.id == ref.task_instance_id, t.try_number == ref.try_number, t.state == "queued")
    await connection.execute(
        update(task_instance).where(this).values(state="running", detail=None, start_date=database_now())
    )


async def emit_outlet_events(
    connection: AsyncConnection, instance: TaskInstanceKey, run: RunRow, hooks: EventHooks
) -> AppendedEvents:
    """Append one event without extra for each asset among the job's outlets as configured now; aliases get none.

    It is called in the transaction that records the task instance's success, whose row is locked.
    """
    await configuration_lock.share(connection)
    around = await assets.around_job(connection, instance.dag_id)
    # In order of id, because two tasks that end at once take the assets' locks in one order.
    outlets = sorted(asset.id for asset in around if asset.role == "outlet")
    new = [
        NewEvent(
            asset_id=asset_id,
            extra="{}",
            trace_id=run.trace_id,
            partition_key=run.partition_key,
            source_dag_id=instance.dag_id,
            source_run_id=instance.run_id,
            source_task_id=instance.task_id,
            source_map_index=instance.map_index,
        )
        for asset_id in outlets
    ]
    return await events.append(connection, new, origin=EventOrigin.JOB, hooks=hooks)
