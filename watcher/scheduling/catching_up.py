"""Catching up: a new job gets the events that were stored before it, in steps that each queue some and make runs of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, catchups
from store.detection import filters
from store.references import has_where
from store.runs import queues
from store.runs.queues import JobQueue
from watcher.scheduling.planning import RunPlan, Waits, completing
from watcher.scheduling.triggering import take

EVENTS_AT_ONCE: Final = 10_000
"""The most stored events that are queued in one transaction."""


async def catch_up(connection: AsyncConnection, queue: JobQueue) -> RunPlan | None:
    """Queue the next stored events and plan the runs that they make; None if the job has them all.

    Later events wait meanwhile, and so does what the condition still lacks something for. With `per_partition`, runs are made
    once all are queued. Neither `debounce` nor `max_active_runs` holds runs of the past back: the latter limits how many of
    them run.
    """
    if queue.catchup is None:
        return None
    filtered = has_where(queue.definition.schedule)
    events = await catchups.queue(connection, queue.dag_id, queue.catchup, limit=EVENTS_AT_ONCE, filtered=filtered)
    if not events:
        await catchups.end(connection, queue.dag_id)
        return None
    if filtered:
        await filters.decide(connection, events)
    if queue.definition.batch.is_partitioned:
        return RunPlan(has_rest=True, steps=True)  # once all are queued, each partition is judged by itself
    (now,) = await queues.lock_queues(connection, [queue.dag_id])
    waits = Waits(
        condition=now.definition.schedule,
        aliases=await aliases.resolved_names(connection, queue.dag_id),
        takes_each=now.definition.batch.mode == "each",
    )
    completed_by = completing({key: first for key, first in now.first_events.items() if first <= events[-1]}, waits)
    if completed_by is None:
        return RunPlan(has_rest=True, steps=True)
    return replace(await take(connection, now, completed_by, to=events[-1]), has_rest=True, steps=True)
