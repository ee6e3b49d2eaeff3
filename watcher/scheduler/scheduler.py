"""The scheduler: looks at every due queue on every hint, and at all of them every half minute, so nothing is stranded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases
from store.catalog.freshness import freshness
from store.database import Database
from store.runs import queues, runs
from store.runs.queues import JobQueue
from watcher.leading import Leadership
from watcher.retrying import keep_going
from watcher.scheduler import ticks
from watcher.scheduler.conditions import names_alias
from watcher.scheduler.planning import Batching, Capacity, Plan, PlannedRun, Waiting, Waits, plan
from watcher.scheduler.ticks import Cron
from watcher.wakeups import Wakeup

LOOK_EVERY: Final = timedelta(seconds=30)
SHORTEST_PAUSE: Final = timedelta(seconds=1)
"""Between two looks for a tick that is due and has to wait for a run's end."""

log = structlog.get_logger()


class Scheduler:
    """Turns queued events and ticks into queued runs, while it leads. `on_runs` is called after runs were committed."""

    def __init__(self, database: Database, leadership: Leadership, on_runs: Callable[[], None]) -> None:
        self._database = database
        self._leadership = leadership
        self._on_runs = on_runs
        self._late: frozenset[str] = frozenset()
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
        if not self._leadership.leads:
            return LOOK_EVERY
        async with self._database.reading() as connection:
            waiting = await queues.jobs_to_look_at(connection)
        pauses = [LOOK_EVERY]
        for dag_id in waiting:
            async with keep_going("scheduler.job_failed"):  # one job that cannot be decided on keeps no other waiting
                made = await self._schedule(dag_id)
                if made.look_again_in is not None:
                    pauses.append(made.look_again_in)
                if made.runs:
                    self._on_runs()
        async with self._database.reading() as connection:
            tick = await queues.next_tick_in(connection)
            expected = await freshness(connection)
        self._tell_late({one.asset for one in expected if one.is_late})
        return min([*pauses, *([] if tick is None else [tick or SHORTEST_PAUSE])])

    def _tell_late(self, late: set[str]) -> None:
        """Once when an asset gets late, once when it is not any more."""
        for asset in sorted(late - self._late):
            log.warning("asset.late", asset=asset)
        for asset in sorted(self._late - late):
            log.info("asset.on_time", asset=asset)
        self._late = frozenset(late)

    async def _schedule(self, dag_id: str) -> Plan:
        async with self._leadership.transaction() as connection:
            queue = await queues.lock_queue(connection, dag_id)
            if queue is None:
                return Plan()
            definition = json.loads(queue.definition)
            due = await self._tick(connection, queue, definition)
            condition = definition["schedule"]
            resolved = await aliases.resolved_names(connection, dag_id) if names_alias(condition) else {}
            made = _decide(queue, definition, Waits(condition=condition, aliases=resolved), due)
            for number, planned in enumerate(made.runs):
                await _create(connection, queue, number, planned)
        if made.runs:
            events = sum(len(planned.event_ids) for planned in made.runs)
            log.info("runs.created", dag_id=dag_id, runs=len(made.runs), events=events)
        return made

    async def _tick(
        self, connection: AsyncConnection, queue: JobQueue, definition: dict[str, Any]
    ) -> Sequence[datetime]:
        """Wind the job's clock; the ticks that get a run now.

        A job's clock starts when the job, or its cron, is first seen: what lies before was never missed. One run for all
        missed ticks waits until the job may have another, so that it is made for the last of them.
        """
        if queue.cron is None:
            return []
        cron, catchup = Cron.of(definition["cron"]), definition["catchup"]
        if queue.clock != queue.cron:
            await queues.set_clock(connection, queue, ticks.following(cron, queue.now))
            return []
        if queue.next_tick is None or (not catchup and _capacity(queue, definition).is_used):
            return []
        due = ticks.due(cron, queue.next_tick, queue.now, catchup=catchup)
        if due:
            await queues.set_clock(connection, queue, ticks.following(cron, due[-1]))
        # The database's clock may have been set back after these ticks had their runs.
        return [tick for tick in due if not await runs.has_run(connection, queue.dag_id, _scheduled(tick))]


async def _create(connection: AsyncConnection, queue: JobQueue, number: int, planned: PlannedRun) -> None:
    by_events = f"asset_triggered__{_stamp(queue.now)}_{number}"
    await runs.create_triggered_run(
        connection,
        queue,
        by_events if planned.tick is None else _scheduled(planned.tick),
        planned.event_ids,
        planned.completed_by,
        trace_id=uuid.uuid4().hex,
        tick=planned.tick,
    )


def _decide(queue: JobQueue, definition: dict[str, Any], waits: Waits, due: Sequence[datetime]) -> Plan:
    return plan(
        [Waiting(event_id=e.event_id, asset=e.asset, since=e.created_at) for e in queue.events],
        waits,
        Batching.of(definition["batch"]),
        _capacity(queue, definition),
        now=queue.now,
        ticks=due,
    )


def _capacity(queue: JobQueue, definition: dict[str, Any]) -> Capacity:
    return Capacity(active=queue.active_runs, allowed=definition["max_active_runs"])


def _scheduled(tick: datetime) -> str:
    return f"scheduled__{tick.astimezone(UTC).isoformat()}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
