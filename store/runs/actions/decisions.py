"""What people decide about runs: clear, cancel, mark; and what waits for a decision: events of failed runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.dropped_events import MARK
from store.database.dialects import chunks
from store.database.lifecycle import delete_whole
from store.database.schema import (
    database_now,
    dropped_event,
    job,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_try,
)
from store.errors import Conflict, no_run
from store.fates import Fate
from store.runs.queue.queues import ACTIVE
from store.runs.runs import DELETED, IS_THERE, OVER, QUEUED, RunRow, move_run, this_run
from store.runs.tries import changed_items, tries
from store.runs.tries.changed_items import NO_ITEM_HOOKS, ChangedItems, ItemHooks


async def clear(
    connection: AsyncConnection,
    dag_id: str,
    run_id: str,
    *,
    item_hooks: ItemHooks = NO_ITEM_HOOKS,
    include: Collection[Fate] = (),
) -> None:
    """Queue a finished run again: the same events, the next try, its retries anew. Raises `NotFound`, `Conflict`.

    One that has succeeded and would lack items is refused, unless their fates are in `include`.
    """
    number, tasks, state, is_configured = await _locked(connection, dag_id, run_id)
    if state in ACTIVE:
        raise Conflict(f"the run {run_id!r} is {state}; cancel it first, or wait for its end")
    if not is_configured:
        raise Conflict(f"the job {dag_id!r} is not configured any more; configure it again and clear the run then")
    lacking = await changed_items.lacking(connection, item_hooks, [number], include, lock=True)
    if lacking.refused:
        raise await changed_items.refusal(connection, run_id, lacking.refused[number])
    await requeue(connection, tasks, this_run(dag_id, run_id))
    await _keep_agreed(connection, lacking.agreed)


@dataclass(frozen=True, kw_only=True)
class ClearedRuns:
    """How many runs were cleared. `lacking` counts by fate the items that these lack, and those that were left alone would lack."""

    runs: int
    lacking: Mapping[Fate, int]


async def clear_over(
    connection: AsyncConnection,
    ids: Sequence[int],
    *,
    item_hooks: ItemHooks = NO_ITEM_HOOKS,
    include: Collection[Fate] = (),
) -> ClearedRuns:
    """Clear those of these runs that are over. A run that somebody else cleared or deleted is left alone.

    So is one that has succeeded and would lack items whose fates are not in `include`. The locks are taken in the order of all
    transactions.
    """
    t = task_instance.c
    of_run = (run.c.dag_id == t.dag_id) & (run.c.run_id == t.run_id)
    locked = select(t.id, run.c.id.label("run")).join(run, of_run).where(run.c.id.in_(ids)).order_by(t.id)
    tasks = (await connection.execute(locked.with_for_update(key_share=True, of=task_instance))).all()
    over = select(run.c.id).where(run.c.id.in_(ids), run.c.state.in_(OVER)).order_by(run.c.id)
    runs = set((await connection.execute(over.with_for_update(key_share=True))).scalars())
    lacking = await changed_items.lacking(connection, item_hooks, runs, include, lock=True)
    runs -= lacking.refused.keys()
    await requeue(connection, [task.id for task in tasks if task.run in runs], run.c.id.in_(runs))
    await _keep_agreed(connection, lacking.agreed)
    return ClearedRuns(runs=len(runs), lacking=lacking.counts)


async def _keep_agreed(connection: AsyncConnection, agreed: Mapping[int, ChangedItems]) -> None:
    """Keep with runs that were cleared after a success what they run without: what is superseded later is not among that."""
    for run_id, items in agreed.items():
        await connection.execute(update(run).where(run.c.id == run_id).values(changed_items=items.to_json()))


async def requeue(connection: AsyncConnection, tasks: Sequence[str], which: ColumnElement[bool]) -> None:
    """Queue finished runs, which are locked, again with their tasks: the next try, its retries anew."""
    fresh = update(task_instance).values(state="queued", detail=None, **tries.NOT_BEGUN)
    before = update(task_try).values(counted=False)
    for some in chunks(tasks):
        await connection.execute(fresh.where(task_instance.c.id.in_(some)))
        await connection.execute(before.where(task_try.c.task_instance_id.in_(some)))
    await connection.execute(update(run).where(which).values(**QUEUED))


async def delete_run(connection: AsyncConnection, dag_id: str, run_id: str) -> None:
    """Forget a finished run with its tries. Raises `NotFound`, `Conflict`.

    Its id and the events it consumed are never given again; what it stored and its log stay.
    """
    _, tasks, state, _ = await _locked(connection, dag_id, run_id)
    if state in ACTIVE:
        raise Conflict(f"the run {run_id!r} is {state}; cancel it first, or wait for its end")
    a = task_try.c
    alive = select(a.tag).where(a.task_instance_id.in_(tasks), a.ended_at.is_(None)).limit(1)
    if (await connection.execute(alive)).one_or_none() is not None:
        raise Conflict(f"a process of the run {run_id!r} is not known to be gone; retry when it is")
    await delete_whole(connection, task_instance, task_instance.c.id.in_(tasks))
    await connection.execute(update(run).where(this_run(dag_id, run_id)).values(state=DELETED))


async def settle(connection: AsyncConnection, dag_id: str, run_id: str, state: str) -> tuple[str, RunRow | None]:
    """End a run as `success`, `failed` or `skipped` without events of its outlets; its home stops what is alive.

    Return how that reads (an unfinished run that fails is cancelled), and the run if that changed it. A skipped run is
    a success, like one that skips itself. Raises `NotFound`.
    """
    _, tasks, before, _ = await _locked(connection, dag_id, run_id)
    reason = "cancelled" if state == "failed" and before in ACTIVE else f"{MARK} {state}"
    if before == state:
        return reason, None
    for task in tasks:
        await tries.cancel(connection, task)
    over = update(task_instance).where(task_instance.c.id.in_(tasks))
    await connection.execute(over.values(state=state, detail=reason, not_before=None, end_date=database_now()))
    run_state = "success" if state == "skipped" else state
    return reason, await move_run(connection, dag_id, run_id, run_state, reason=reason)


async def annotate(connection: AsyncConnection, dag_id: str, run_id: str, note: str | None) -> None:
    """Set what people wrote about a run. Raises `NotFound`."""
    changed = update(run).where(this_run(dag_id, run_id), IS_THERE).values(note=note).returning(run.c.id)
    if (await connection.execute(changed)).one_or_none() is None:
        raise no_run(dag_id, run_id)


async def _locked(connection: AsyncConnection, dag_id: str, run_id: str) -> tuple[int, Sequence[str], str, bool]:
    """Lock a run; return its number, its task instances' ids, its state, and whether its job is configured.

    The locks are taken in the order of all transactions.
    """
    t = task_instance.c
    tasks = select(t.id).where(t.dag_id == dag_id, t.run_id == run_id).order_by(t.id).with_for_update(key_share=True)
    ids = (await connection.execute(tasks)).scalars().all()
    query = select(run.c.id, run.c.state, job.c.active).join(job, job.c.dag_id == run.c.dag_id)
    query = query.where(this_run(dag_id, run_id), IS_THERE)
    of_run = (await connection.execute(query.with_for_update(key_share=True, of=run))).one_or_none()
    if of_run is None:
        raise no_run(dag_id, run_id)
    return of_run.id, ids, of_run.state, of_run.active


async def admit_again(connection: AsyncConnection, dag_id: str, events: Sequence[int]) -> None:
    """Let those of these events, given in order, that are queued now be dropped no more."""
    q, these = queued_event.c, (events[0], events[-1])
    gone = select(run.c.run_id).where(run.c.dag_id == dag_id, run.c.state == DELETED)
    now_queued = select(q.event_id).where(q.dag_id == dag_id, q.event_id.between(*these))
    for table, more in ((dropped_event, true()), (run_asset_event, run_asset_event.c.run_id.in_(gone))):
        old = and_(table.c.dag_id == dag_id, table.c.event_id.between(*these))
        await connection.execute(delete(table).where(old, table.c.event_id.in_(now_queued), more))
