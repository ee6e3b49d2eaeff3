"""Catching up: a new job gets the events that were stored before it, in steps that each queue some and make runs of them."""

from __future__ import annotations

from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection import filters
from store.features.catchup import catchups
from store.references import has_where
from store.runs.queue import queues
from store.runs.queue.queues import JobQueue
from store.runs.tries.changed_items import ItemHooks
from watcher.scheduling.planning.plans import RunPlan, completing
from watcher.scheduling.planning.triggering import take, waits_of

EVENTS_AT_ONCE: Final = 10_000
"""The most stored events that are queued in one transaction."""


async def catch_up(connection: AsyncConnection, queue: JobQueue, _item_hooks: ItemHooks) -> RunPlan | None:
    """Queue the next stored events and plan the runs that they make; None if the job has them all.

    Later events wait meanwhile, and so does what the condition still lacks something for. A mode with a planner of its own makes
    its runs once all are queued. Neither `debounce` nor `max_active_runs` holds runs of the past back: the latter limits how many of
    them run.
    """
    which = await catchups.of_job(connection, queue.dag_id)
    filtered = has_where(queue.definition.schedule)
    limit = EVENTS_AT_ONCE
    events = which and await catchups.queue(connection, queue.dag_id, which, limit=limit, filtered=filtered)
    if not events:
        await catchups.end(connection, queue.dag_id)
        return None
    if filtered:
        await filters.decide(connection, events)
    if not queue.definition.batch.is_plain:
        return RunPlan()
    (now,) = await queues.lock_queues(connection, [queue.dag_id])
    first_events = {key: first for key, first in now.first_events.items() if first <= events[-1]}
    completed_by = completing(first_events, await waits_of(connection, now))
    return RunPlan() if completed_by is None else await take(connection, now, completed_by, to=events[-1])
