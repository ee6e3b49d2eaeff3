"""The scheduler: looks at every due queue on every hint, and at all of them every half minute, so nothing is stranded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus

from store import runs
from store.database import Database
from store.runs import JobQueue
from watcher.retrying import keep_going
from watcher.scheduler.planning import Batching, Plan, Waiting, plan
from watcher.wakeups import Wakeup

LOOK_EVERY: Final = timedelta(seconds=30)

log = structlog.get_logger()


class Scheduler:
    """Turns queued events into queued runs. `on_runs` is called after runs were committed."""

    def __init__(self, database: Database, on_runs: Callable[[], None]) -> None:
        self._database = database
        self._on_runs = on_runs
        self.wakeup = Wakeup()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. Started once the queues that were due at start have been looked at."""
        pause = await self.look()
        task_status.started()
        while True:
            await self.wakeup.wait(pause.total_seconds())
            pause = LOOK_EVERY
            async with keep_going("scheduler.failed"):
                pause = await self.look()

    async def look(self) -> timedelta:
        """Make all runs that are due; returns how long until one may become due by the clock alone."""
        async with self._database.reading() as session:
            waiting = await runs.jobs_with_queue(session)
        pause = LOOK_EVERY
        for dag_id in waiting:
            made = await self._schedule(dag_id)
            if made.look_again_in is not None:
                pause = min(pause, made.look_again_in)
            if made.runs:
                self._on_runs()
        return pause

    async def _schedule(self, dag_id: str) -> Plan:
        async with self._database.transaction() as session:
            queue = await runs.lock_queue(session, dag_id)
            made = Plan() if queue is None else _decide(queue)
            if queue is None or not made.runs:
                return made
            stamp = queue.now.astimezone(UTC).isoformat(timespec="microseconds")
            for number, planned in enumerate(made.runs):
                await runs.create_triggered_run(
                    session,
                    queue,
                    f"asset_triggered__{stamp}_{number}",
                    planned.event_ids,
                    planned.completed_by,
                    trace_id=uuid.uuid4().hex,
                )
        log.info("runs.created", dag_id=dag_id, runs=len(made.runs), events=sum(len(r.event_ids) for r in made.runs))
        return made


def _decide(queue: JobQueue) -> Plan:
    definition = json.loads(queue.definition)
    return plan(
        [Waiting(event_id=e.event_id, asset=e.asset, since=e.created_at) for e in queue.events],
        definition["schedule"],
        Batching.of(definition["batch"]),
        active_runs=queue.active_runs,
        max_active_runs=definition["max_active_runs"],
        now=queue.now,
    )
