"""The scheduler: checks the queues that a hint names, and every half minute all due queues, so that nothing is stranded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database import Database
from store.runs import runs
from store.runs.queue import due_jobs, queues
from store.runs.queue.queues import Clock, JobQueue
from store.runs.runs import TriggeredRun
from store.runs.tries.changed_items import NO_ITEM_HOOKS, ItemHooks
from watcher.host.leader_election import Leadership
from watcher.host.loops import Wakeup, insist, keep_going
from watcher.scheduling.planning import ticks
from watcher.scheduling.planning.base import JobStep, Planners
from watcher.scheduling.planning.plans import (
    MOST_EVENTS,
    MOST_RUNS,
    Capacity,
    RunPlan,
    collects,
    completing,
    is_due,
    remaining,
    with_ticks,
)
from watcher.scheduling.planning.triggering import run_id_of_tick, take, triggered, waits_of

CHECK_EVERY: Final = timedelta(seconds=30)
AT_ONCE: Final = 100
"""The most jobs that share a transaction. While one goes on, nobody else writes to SQLite."""
SHORTEST_PAUSE: Final = timedelta(seconds=1)
"""The pause between two checks while a due tick has to wait for the end of a run."""

log = structlog.get_logger()


class Scheduler:
    """Turns queued events and ticks into queued runs while it leads. `on_runs` is called after runs are committed.

    `steps` are those of the features by their names, in the order in which they are tried. They are given `item_hooks`.
    """

    def __init__(
        self,
        database: Database,
        leadership: Leadership,
        on_runs: Callable[[], None],
        *,
        steps: Mapping[str, JobStep],
        planners: Planners,
        item_hooks: ItemHooks = NO_ITEM_HOOKS,
    ) -> None:
        self._database = database
        self._leadership = leadership
        self._on_runs = on_runs
        self._steps = steps
        self._planners = planners
        self._item_hooks = item_hooks
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
            waiting = await due_jobs.jobs_to_check(connection)
        await self._schedule_all(waiting)
        async with self._database.reading() as connection:
            tick = await due_jobs.next_tick_in(connection)
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
            groups = [dag_ids[start : start + AT_ONCE] for start in range(0, len(dag_ids), AT_ONCE)]
            dag_ids = [dag_id for group in groups for dag_id in await self._have_more(group)]

    async def _have_more(self, dag_ids: Sequence[str]) -> Sequence[str]:
        """Schedule jobs, and return those of which more is due at once.

        They share a transaction. If it fails, each has one of its own: a job that fails must not delay other jobs.
        """
        plans: Mapping[str, RunPlan] = {}
        try:
            plans = await self._schedule(dag_ids)
        except Exception:
            if len(dag_ids) > 1 and self._leadership.leads:
                return [more for dag_id in dag_ids for more in await self._have_more([dag_id])]
            async with keep_going("scheduler.job_failed"):
                raise
        self._note_times(plans)
        if any(made.runs or made.steps for made in plans.values()):
            self._on_runs()
        return [dag_id for dag_id, made in plans.items() if made.has_rest]

    def _note_times(self, plans: Mapping[str, RunPlan]) -> None:
        """Note when the clock alone requires a check. Until then, nothing that comes makes the jobs that collect due."""
        self._check_in(min((made.check_again_in or CHECK_EVERY for made in plans.values()), default=CHECK_EVERY))
        self._collecting.update(dag_id for dag_id, made in plans.items() if made.collects)

    def _log_late(self, late: set[str]) -> None:
        """Log once when an asset becomes late, and once when it is late no more."""
        for asset in sorted(late - self._late):
            log.warning("asset.late", asset=asset)
        for asset in sorted(self._late - late):
            log.info("asset.on_time", asset=asset)
        self._late = frozenset(late)

    async def _schedule(self, dag_ids: Sequence[str]) -> Mapping[str, RunPlan]:
        """Make the runs of these jobs that are due, as many as fit a transaction. Jobs that it has no place for have a rest."""
        plans: dict[str, RunPlan] = {}
        clocks: list[Clock] = []
        new: list[TriggeredRun] = []
        async with self._leadership.transaction() as connection:
            locked = await queues.lock_queues(connection, dag_ids)
            ticks_of = await _due_ticks(connection, locked)
            for queue in sorted(locked, key=lambda queue: dag_ids.index(queue.dag_id)):
                if _is_full(new) or any(plan.steps for plan in plans.values()):
                    plans[queue.dag_id] = RunPlan(has_rest=True)
                    continue
                plan = await _plan_rest(connection, queue) or await self._take_step(connection, queue)
                if plan is None:
                    ticks = ticks_of.get(queue.dag_id, _NO_TICKS)
                    plan = await self._plan(connection, queue, ticks.due)
                    clocks += _moved(queue, ticks, plan)
                plans[queue.dag_id] = plan
                new += [triggered(queue, number, planned) for number, planned in enumerate(plan.runs)]
            await queues.set_clocks(connection, clocks)
            traces = await runs.create_triggered_runs(connection, new)
        for made, trace_id in zip(new, traces, strict=True):
            names = {"dag_id": made.dag_id, "run_id": made.run_id}
            log.info("run.created", **names, events=len(made.event_ids), trace_id=trace_id)
        return plans

    async def _take_step(self, connection: AsyncConnection, queue: JobQueue) -> RunPlan | None:
        """Take the first open step that has something to do. A paused job has nothing else to do; None: the queue is looked at."""
        for feature, step in self._steps.items() if queue.steps else ():
            plan = await step(connection, queue, self._item_hooks) if feature in queue.steps else None
            if plan is not None:
                for planner in self._planners:
                    planner.forget(queue.dag_id)
                return replace(plan, has_rest=True, steps=True)
        return RunPlan() if queue.paused else None

    async def _plan(self, connection: AsyncConnection, queue: JobQueue, ticks: Sequence[datetime]) -> RunPlan:
        planner = self._planners.of(queue.definition)
        if planner is None:
            return await _plan_together(connection, queue, ticks)
        if queue.rest is not None:  # decided when the job took all its events together
            await queues.set_rest(connection, queue.dag_id, None)
        planner.begin_term(self._leadership.term)
        return await planner.plan(connection, queue, ticks)


def _is_full(new: Sequence[TriggeredRun]) -> bool:
    return len(new) >= MOST_RUNS or sum(len(each.event_ids) for each in new) >= MOST_EVENTS


async def _plan_rest(connection: AsyncConnection, queue: JobQueue) -> RunPlan | None:
    """Plan the runs of a rest that is decided already; None if there is none."""
    if queue.rest is None or not queue.definition.batch.is_plain:
        return None
    rest = await take(connection, queue, queue.rest.completed_by, to=queue.rest.to)
    # Events that came meanwhile are checked afterwards.
    return replace(rest, has_rest=True) if rest.runs else None


async def _plan_together(connection: AsyncConnection, queue: JobQueue, ticks: Sequence[datetime]) -> RunPlan:
    """Plan the runs of a job that takes its queued events as one row."""
    batching, joint = queue.definition.batch, queue.definition.joint
    completed_by = completing(queue.first_events, await waits_of(connection, queue))
    if not is_due(completed_by, batching, _capacity(queue), ticks=ticks, joint=joint):
        return RunPlan(runs=() if joint else with_ticks([], ticks, batching))
    if collects(batching) and not ticks:
        span = await queues.span(connection, queue.dag_id)
        wait = remaining(span.oldest, span.newest, batching, span.now)
        if wait > timedelta(0):
            return RunPlan(check_again_in=wait)
    taken = await take(connection, queue, completed_by) if queue.first_events else RunPlan()
    return replace(taken, runs=with_ticks(taken.runs, ticks, batching))


@dataclass(frozen=True, kw_only=True)
class _Ticks:
    """The ticks of a job that get a run now, and its clock if it moves."""

    due: Sequence[datetime] = ()
    clock: Clock | None = None


_NO_TICKS: Final = _Ticks()


async def _due_ticks(connection: AsyncConnection, locked: Sequence[JobQueue]) -> Mapping[str, _Ticks]:
    """Return the ticks of each job that has a cron, with one statement for all.

    A tick that had its run already gets no other one: the database's clock may have been set back since.
    """
    ticks_of = {queue.dag_id: _ticks(queue) for queue in locked if queue.definition.cron is not None}
    pairs = {(dag_id, run_id_of_tick(tick)) for dag_id, ticks in ticks_of.items() for tick in ticks.due}
    made = await runs.existing(connection, pairs)
    return {
        dag_id: replace(ticks, due=[tick for tick in ticks.due if (dag_id, run_id_of_tick(tick)) not in made])
        for dag_id, ticks in ticks_of.items()
    }


def _ticks(queue: JobQueue) -> _Ticks:
    """Return the ticks of a job that has a cron.

    A job's clock starts when the job, or its cron, is first seen: earlier ticks were not missed. Without `catchup` one
    run stands for all missed ticks. It waits until the job may have another run, so that it is made for the last tick.
    """
    cron, catchup = queue.definition.cron, queue.definition.catchup
    if cron is None:
        return _NO_TICKS
    if queue.clock != queue.cron:
        return _Ticks(clock=_clock(queue, ticks.following(cron, queue.now)))
    if queue.next_tick is None or (not catchup and _capacity(queue).is_used):
        return _NO_TICKS
    due = ticks.due(cron, queue.next_tick, queue.now, catchup=catchup)
    return _Ticks(due=due, clock=_clock(queue, ticks.following(cron, due[-1])) if due else None)


def _moved(queue: JobQueue, ticks: _Ticks, plan: RunPlan) -> Sequence[Clock]:
    """Return the job's clock if it moves. A due tick of a joint schedule stays due until the condition is met."""
    stays = queue.definition.joint and ticks.due and not plan.runs
    return () if ticks.clock is None or stays else (ticks.clock,)


def _clock(queue: JobQueue, next_tick: datetime | None) -> Clock:
    return Clock(dag_id=queue.dag_id, cron=queue.cron, next_tick=next_tick)


def _capacity(queue: JobQueue) -> Capacity:
    return Capacity(active=queue.active_runs, allowed=queue.definition.max_active_runs)
