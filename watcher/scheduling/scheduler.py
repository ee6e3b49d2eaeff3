"""The scheduler: checks the queues that a hint names, and every half minute all due queues, so that nothing is stranded."""

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
    PlannedRun,
    RunPlan,
    Waits,
    collects,
    completing,
    is_due,
    most_at_once,
    remaining,
    runs_of,
    with_ticks,
)

CHECK_EVERY: Final = timedelta(seconds=30)
SHORTEST_PAUSE: Final = timedelta(seconds=1)
"""The pause between two checks while a due tick has to wait for the end of a run."""

log = structlog.get_logger()


class Scheduler:
    """Turns queued events and ticks into queued runs while it leads. `on_runs` is called after runs are committed."""

    def __init__(self, database: Database, leadership: Leadership, on_runs: Callable[[], None]) -> None:
        self._database = database
        self._leadership = leadership
        self._on_runs = on_runs
        self._late: frozenset[str] = frozenset()
        self._check_at = 0.0
        self._collecting: set[str] = set()
        self.wakeup = Wakeup()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Schedule until cancelled. Reports started once the queues that were due at the start have been checked."""
        await insist("scheduler.failed", self.check)
        task_status.started()
        while True:
            hinted = await self.wakeup.wait(self._check_at - anyio.current_time())
            async with keep_going("scheduler.failed"):
                if hinted and anyio.current_time() < self._check_at:
                    await self._schedule_all(sorted(hinted - self._collecting))
                else:
                    await self.check()

    async def check(self) -> None:
        """Make all runs that are due, whatever was hinted, and note when the clock alone may make the next one due."""
        self._check_in(CHECK_EVERY, anew=True)
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
            self._check_in(tick or SHORTEST_PAUSE)

    def _check_in(self, pause: timedelta, *, anew: bool = False) -> None:
        at = anyio.current_time() + pause.total_seconds()
        self._check_at = at if anew else min(at, self._check_at)

    async def _schedule_all(self, dag_ids: Sequence[str]) -> None:
        """Schedule these jobs. Jobs with long queues take turns."""
        while dag_ids and self._leadership.leads:
            dag_ids = [dag_id for dag_id in dag_ids if await self._has_more(dag_id)]

    async def _has_more(self, dag_id: str) -> bool:
        """Schedule a job, and return whether more of its queue is due at once."""
        made = RunPlan()
        async with keep_going("scheduler.job_failed"):  # a job that fails must not delay other jobs
            made = await self._schedule(dag_id)
            if (
                made.check_again_in is not None
            ):  # all jobs are checked then; events that come meanwhile make it no earlier
                self._check_in(made.check_again_in)
                self._collecting.add(dag_id)
            if made.runs:
                self._on_runs()
        return made.has_rest

    def _log_late(self, late: set[str]) -> None:
        """Log once when an asset becomes late, and once when it is late no more."""
        for asset in sorted(late - self._late):
            log.warning("asset.late", asset=asset)
        for asset in sorted(self._late - late):
            log.info("asset.on_time", asset=asset)
        self._late = frozenset(late)

    async def _schedule(self, dag_id: str) -> RunPlan:
        async with self._leadership.transaction() as connection:
            queue = await queues.lock_queue(connection, dag_id)
            if queue is None:
                return RunPlan()
            made = await self._plan(connection, queue)
            created = [await _create(connection, queue, number, planned) for number, planned in enumerate(made.runs)]
        for record in created:
            log.info("run.created", **record)
        return made

    async def _plan(self, connection: AsyncConnection, queue: JobQueue) -> RunPlan:
        batching, condition = queue.definition.batch, queue.definition.schedule
        if queue.rest is not None:
            rest = await _take(connection, queue, queue.rest.completed_by, to=queue.rest.to)
            if rest.runs:
                return replace(rest, has_rest=True)  # events that came meanwhile are checked afterwards
        ticks = await self._tick(connection, queue)
        resolved = await aliases.resolved_names(connection, queue.dag_id) if names_alias(condition) else {}
        takes_each = batching.mode == "each" and queue.definition.has_schedule
        waits = Waits(condition=condition, aliases=resolved, takes_each=takes_each)
        completed_by = completing(queue.first_events, waits)
        if not is_due(completed_by, batching, _capacity(queue), ticks=ticks):
            return RunPlan(runs=with_ticks([], ticks, batching))
        if collects(batching) and not ticks:
            span = await queues.span(connection, queue.dag_id)
            wait = remaining(span.oldest, span.newest, batching, span.now)
            if wait > timedelta(0):
                return RunPlan(check_again_in=wait)
        taken = await _take(connection, queue, completed_by)
        return replace(taken, runs=with_ticks(taken.runs, ticks, batching))

    async def _tick(self, connection: AsyncConnection, queue: JobQueue) -> Sequence[datetime]:
        """Advance the job's clock, and return the ticks that get a run now.

        A job's clock starts when the job, or its cron, is first seen: earlier ticks were not missed. Without `catchup` one
        run stands for all missed ticks. It waits until the job may have another run, so that it is made for the last tick.
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


async def _take(
    connection: AsyncConnection, queue: JobQueue, completed_by: int | None, to: int | None = None
) -> RunPlan:
    """Take runs from the queue, up to the event `to`, as many as fit a transaction. A rest is recorded: it survives a crash."""
    batching = queue.definition.batch
    limit = most_at_once(batching)
    event_ids = await queues.oldest(connection, queue.dag_id, limit + 1, to)
    rest = None
    if len(event_ids) > limit:
        rest = Rest(to=to or await queues.newest(connection, queue.dag_id), completed_by=completed_by)
    if rest != queue.rest:
        await queues.set_rest(connection, queue.dag_id, rest)
    return RunPlan(runs=runs_of(event_ids[:limit], completed_by, batching), has_rest=rest is not None)


async def _create(
    connection: AsyncConnection, queue: JobQueue, number: int, planned: PlannedRun
) -> Mapping[str, str | int]:
    """Create the run. Returns what to log once it is committed."""
    stamp = queue.now.astimezone(UTC).isoformat(timespec="microseconds")
    run_id = f"asset_triggered__{stamp}_{number}" if planned.tick is None else _scheduled(planned.tick)
    events, by = planned.event_ids, planned.completed_by
    trace_id = await runs.create_triggered_run(connection, queue, run_id, events, by, tick=planned.tick)
    return {"dag_id": queue.dag_id, "run_id": run_id, "events": len(events), "trace_id": trace_id}


def _capacity(queue: JobQueue) -> Capacity:
    return Capacity(active=queue.active_runs, allowed=queue.definition.max_active_runs)


def _scheduled(tick: datetime) -> str:
    return f"scheduled__{tick.astimezone(UTC).isoformat()}"
