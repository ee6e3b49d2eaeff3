"""The scheduler: looks at every due queue on every hint, and at all of them every half minute, so nothing is stranded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.database import Database
from store.runs import queues, runs
from store.runs.queues import JobQueue, Rest
from watcher.host.leader_election import Leadership
from watcher.host.loops import Wakeup, insist, keep_going
from watcher.scheduling import ticks
from watcher.scheduling.conditions import names_alias
from watcher.scheduling.planning import (
    Capacity,
    Plan,
    PlannedRun,
    Waits,
    collects,
    completing,
    is_due,
    most_at_once,
    remaining,
    runs_of,
    with_ticks,
)

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
            waiting = await queues.jobs_to_check(connection)
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
        """Jobs with much to do take turns."""
        while dag_ids and self._leadership.leads:
            dag_ids = [dag_id for dag_id in dag_ids if await self._has_rest(dag_id)]

    async def _has_rest(self, dag_id: str) -> bool:
        """Decide on a job's queue; whether more of it follows at once."""
        made = Plan()
        async with keep_going("scheduler.job_failed"):  # one job that cannot be decided on keeps no other waiting
            made = await self._schedule(dag_id)
            if made.look_again_in is not None:  # by then all is looked at; what comes meanwhile makes it no earlier
                self._look_in(made.look_again_in)
                self._collecting.add(dag_id)
            if made.runs:
                self._on_runs()
        return made.has_rest

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
            made = await self._plan(connection, queue)
            created = [await _create(connection, queue, number, planned) for number, planned in enumerate(made.runs)]
        for record in created:
            log.info("run.created", **record)
        return made

    async def _plan(self, connection: AsyncConnection, queue: JobQueue) -> Plan:
        batching, condition = queue.definition.batch, queue.definition.schedule
        if queue.rest is not None:
            rest = await _take(connection, queue, queue.rest.completed_by, to=queue.rest.to)
            if rest.runs:
                return replace(rest, has_rest=True)  # when it has ended, what came meanwhile is looked at
        ticks = await self._tick(connection, queue)
        resolved = await aliases.resolved_names(connection, queue.dag_id) if names_alias(condition) else {}
        completed_by = completing(queue.first_events, Waits(condition=condition, aliases=resolved))
        if not is_due(completed_by, batching, _capacity(queue), ticks=ticks):
            return Plan(runs=with_ticks([], ticks, batching))
        if collects(batching) and not ticks:
            span = await queues.span(connection, queue.dag_id)
            wait = remaining(span.oldest, span.newest, batching, span.now)
            if wait > timedelta(0):
                return Plan(look_again_in=wait)
        taken = await _take(connection, queue, completed_by)
        return replace(taken, runs=with_ticks(taken.runs, ticks, batching))

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


async def _take(connection: AsyncConnection, queue: JobQueue, completed_by: int | None, to: int | None = None) -> Plan:
    """Runs of the queue, up to the event `to`: as many as fit a transaction. That the rest is to follow outlives a crash."""
    batching = queue.definition.batch
    limit = most_at_once(batching)
    event_ids = await queues.oldest(connection, queue.dag_id, limit + 1, to)
    rest = None
    if len(event_ids) > limit:
        rest = Rest(to=to or await queues.newest(connection, queue.dag_id), completed_by=completed_by)
    if rest != queue.rest:
        await queues.set_rest(connection, queue.dag_id, rest)
    return Plan(runs=runs_of(event_ids[:limit], completed_by, batching), has_rest=rest is not None)


async def _create(
    connection: AsyncConnection, queue: JobQueue, number: int, planned: PlannedRun
) -> Mapping[str, str | int]:
    """What the log says of it once it is committed."""
    stamp = queue.now.astimezone(UTC).isoformat(timespec="microseconds")
    run_id = f"asset_triggered__{stamp}_{number}" if planned.tick is None else _scheduled(planned.tick)
    events, by = planned.event_ids, planned.completed_by
    trace_id = await runs.create_triggered_run(connection, queue, run_id, events, by, tick=planned.tick)
    return {"dag_id": queue.dag_id, "run_id": run_id, "events": len(events), "trace_id": trace_id}


def _capacity(queue: JobQueue) -> Capacity:
    return Capacity(active=queue.active_runs, allowed=queue.definition.max_active_runs)


def _scheduled(tick: datetime) -> str:
    return f"scheduled__{tick.astimezone(UTC).isoformat()}"
