"""The scheduler: looks at every due queue on every hint, and at all of them every half minute, so nothing is stranded."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.database import Database
from store.runs import queues, runs
from store.runs.queues import JobQueue
from watcher.leader_election import Leadership
from watcher.loops import Wakeup, insist, keep_going
from watcher.scheduler import ticks
from watcher.scheduler.conditions import names_alias
from watcher.scheduler.planning import Capacity, Plan, PlannedRun, Waits, plan

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
        self._look_at = 0.0
        self._collecting: set[str] = set()
        self.wakeup = Wakeup()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. Started once the queues that were due at start have been looked at."""
        await insist("scheduler.failed", self.look)
        task_status.started()
        while True:
            hinted = await self.wakeup.wait(self._look_at - anyio.current_time())
            async with keep_going("scheduler.failed"):
                if hinted and anyio.current_time() < self._look_at:
                    await self._schedule_all(sorted(hinted - self._collecting))
                else:
                    await self.look()

    async def look(self) -> None:
        """Make all runs that are due, whatever was hinted; and when one may become due by the clock alone, look again."""
        self._look_in(LOOK_EVERY, anew=True)
        self._collecting.clear()
        if not self._leadership.leads:
            return
        async with self._database.reading() as connection:
            waiting = await queues.jobs_to_look_at(connection)
        await self._schedule_all(waiting)
        async with self._database.reading() as connection:
            tick = await queues.next_tick_in(connection)
            expected = await assets.expected(connection)
        self._log_late({asset.name for asset in expected if asset.is_late})
        if tick is not None:
            self._look_in(tick or SHORTEST_PAUSE)

    def _look_in(self, pause: timedelta, *, anew: bool = False) -> None:
        at = anyio.current_time() + pause.total_seconds()
        self._look_at = at if anew else min(at, self._look_at)

    async def _schedule_all(self, dag_ids: Sequence[str]) -> None:
        for dag_id in dag_ids if self._leadership.leads else ():
            async with keep_going("scheduler.job_failed"):  # one job that cannot be decided on keeps no other waiting
                made = await self._schedule(dag_id)
                if made.look_again_in is not None:  # by then all is looked at; what comes meanwhile makes it no earlier
                    self._look_in(made.look_again_in)
                    self._collecting.add(dag_id)
                if made.runs:
                    self._on_runs()

    def _log_late(self, late: set[str]) -> None:
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
            due = await self._tick(connection, queue)
            condition = queue.definition.schedule
            resolved = await aliases.resolved_names(connection, dag_id) if names_alias(condition) else {}
            waits = Waits(condition=condition, aliases=resolved)
            made = plan(queue.events, waits, queue.definition.batch, _capacity(queue), now=queue.now, ticks=due)
            for number, planned in enumerate(made.runs):
                await _create(connection, queue, number, planned)
        if made.runs:
            events = sum(len(planned.event_ids) for planned in made.runs)
            log.info("runs.created", dag_id=dag_id, runs=len(made.runs), events=events)
        return made

    async def _tick(self, connection: AsyncConnection, queue: JobQueue) -> Sequence[datetime]:
        """Wind the job's clock; the ticks that get a run now.

        A job's clock starts when the job, or its cron, is first seen: what lies before was never missed. One run for all
        missed ticks waits until the job may have another, so that it is made for the last of them.
        """
        cron, catchup = queue.definition.cron, queue.definition.catchup
        if cron is None:
            return []
        if queue.clock != queue.cron:
            await queues.set_clock(connection, queue, ticks.following(cron, queue.now))
            return []
        if queue.next_tick is None or (not catchup and _capacity(queue).is_used):
            return []
        due = ticks.due(cron, queue.next_tick, queue.now, catchup=catchup)
        if due:
            await queues.set_clock(connection, queue, ticks.following(cron, due[-1]))
        # The database's clock may have been set back after these ticks had their runs.
        return [tick for tick in due if not await runs.has_run(connection, queue.dag_id, _scheduled(tick))]


async def _create(connection: AsyncConnection, queue: JobQueue, number: int, planned: PlannedRun) -> None:
    stamp = queue.now.astimezone(UTC).isoformat(timespec="microseconds")
    await runs.create_triggered_run(
        connection,
        queue,
        f"asset_triggered__{stamp}_{number}" if planned.tick is None else _scheduled(planned.tick),
        planned.event_ids,
        planned.completed_by,
        trace_id=uuid.uuid4().hex,
        tick=planned.tick,
    )


def _capacity(queue: JobQueue) -> Capacity:
    return Capacity(active=queue.active_runs, allowed=queue.definition.max_active_runs)


def _scheduled(tick: datetime) -> str:
    return f"scheduled__{tick.astimezone(UTC).isoformat()}"
