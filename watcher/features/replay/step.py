"""The step of a replay: it queues the next stored events or clears the next runs. Runs are made once it is finished."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from store.features.replay import replays
from store.runs.queue.queues import JobQueue
from store.runs.tries.changed_items import ItemHooks
from watcher.scheduling.planning.plans import RunPlan


async def replay(connection: AsyncConnection, queue: JobQueue, item_hooks: ItemHooks) -> RunPlan | None:
    """Carry out a step of the job's replay; None if none goes on."""
    return RunPlan() if await replays.advance(connection, queue.dag_id, item_hooks) else None
