"""The dispatcher: starts queued runs, follows every try to its end, and finds its tries again after a crash.

The order is always: the intent is committed -> the submitter starts the try -> the handle is stored. What a crash leaves
in between is settled at the next start by the home that stored the intent, and by no other. If the try's driver does not
end with its home, the home that has taken it over settles it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from store.database import Database
from store.detection.interest import EventHooks
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from store.runs import runs
from store.runs.tries import try_lookup
from store.runs.tries.changed_items import NO_ITEM_HOOKS, ItemHooks
from store.runs.tries.try_lookup import OpenTry
from watcher.host.health import Health
from watcher.host.leader_election import Leadership
from watcher.host.loops import Wakeup, insist, keep_going
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.followed_try import CHECK_EVERY, FollowedTry
from watcher.scheduling.tries.forgetting import forget_due
from watcher.scheduling.tries.run_starter import RunStarter, warn_of_submitter
from watcher.scheduling.tries.submissions import Submissions
from watcher.submit.base import Submitter, WarmConditions, WarmDrivers

_LOOK_EVERY: Final = 0.3
"""Seconds between two looks at whether the drivers that are being stopped have ended."""
log = structlog.get_logger()


@dataclass(eq=False, repr=False)
class Dispatcher:
    """Runs the tries of one home. `on_end` is called after a try's end is committed."""

    database: Database
    submissions: Submissions
    leadership: Leadership
    process: ProcessInfo
    _: KW_ONLY
    limits: AdmissionLimits
    lease: timedelta
    on_end: Callable[[], None]
    hooks: EventHooks
    """What the features do with the events of a success that its job did not report."""
    item_hooks: ItemHooks = NO_ITEM_HOOKS
    """What the features know of items of runs that are not as their events say."""
    configuration: str | None = None
    """The hash of the configuration that `submissions` come from; other processes may know it."""
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self._followed: dict[str, FollowedTry] = {}
        self._warned: set[str] = set()
        self._warm: set[str] = set()
        self._at_work: set[str] = set()
        self._beat_soon = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._starter = RunStarter(
            database=self.database,
            leadership=self.leadership,
            submissions=self.submissions,
            home_id=self.process.id,
            limits=self.limits,
            lease=self.lease,
            running=lambda: [followed.needs for followed in self._followed.values()],
            follow=self._follow,
            metrics=self.metrics,
            hooks=self.hooks,
            item_hooks=self.item_hooks,
            on_end=self.on_end,
        )
        self.wakeup = Wakeup()
        self.metrics.count_warm_drivers(self._count_warm_drivers)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Dispatch until cancelled. Reports started once every try that a crash left open is being followed again."""
        async with anyio.create_task_group() as self._tasks:
            await insist("dispatcher.heartbeat_failed", self._beat)
            await insist("dispatcher.failed", self._follow_own)
            self._request_warm_drivers()
            await self._start_warm_drivers(self._tasks)
            self._start_submitters(self._tasks)
            self._tasks.start_soon(self._keep_beating)
            self._tasks.start_soon(self._keep_forgetting)
            task_status.started()
            while True:
                async with keep_going("dispatcher.stopping_failed"):
                    await self._follow_own()
                    await self._start_warm_drivers(self._tasks)
                    self._start_submitters(self._tasks)
                # Asked before the check: a retry that becomes due during the check would be missed by both.
                next_check = anyio.current_time() + (await self._next_check()).total_seconds()
                if self.leadership.leads:
                    async with keep_going("dispatcher.failed"):
                        await self._starter.look()
                await self.wakeup.wait(next_check - anyio.current_time())

    def adopt(self, submissions: Submissions, configuration: str | None) -> None:
        """Start tries with these submissions from now on. Running tries continue as they were started."""
        self.submissions = self._starter.submissions = submissions
        self.configuration = configuration
        self._warned.clear()
        self._request_warm_drivers()
        self._beat_soon.set()
        self.wakeup.set()

    def _start_submitters(self, tasks: TaskGroup) -> None:
        """Let each submitter do its work in the background, a new one after a reload too."""
        for name, submitter in self.submissions.submitters.items():
            if name not in self._at_work:
                self._at_work.add(name)
                tasks.start_soon(self._keep_at_work, submitter)

    @staticmethod
    async def _keep_at_work(submitter: Submitter) -> None:
        while True:
            async with keep_going("submitter.failed"):
                await submitter.run()
                return
            await anyio.sleep(CHECK_EVERY.total_seconds())

    async def _start_warm_drivers(self, tasks: TaskGroup) -> None:
        """Let each submitter keep warm drivers, a new one after a reload too.

        Drivers that an earlier daemon of this home left behind are gone when this returns.
        """
        conditions = WarmConditions(
            memory_mb=self.limits.memory_mb,
            warm_memory_mb=self.limits.warm_memory_mb,
            running_mb=lambda: sum(followed.needs.memory_mb or 0 for followed in self._followed.values()),
            may_start=lambda: (
                self.leadership.leads and not any(followed.is_starting for followed in self._followed.values())
            ),
        )
        for name, warm in self._warm_drivers().items():
            if name not in self._warm:
                self._warm.add(name)
                await tasks.start(warm.run, conditions)

    def _request_warm_drivers(self) -> None:
        for name, warm in self._warm_drivers().items():
            warm.adopt(self.submissions.warm_requests(name))

    def _warm_drivers(self) -> Mapping[str, WarmDrivers]:
        """The warm drivers of each submitter that has any, by the submitter's name."""
        submitters = self.submissions.submitters.items()
        return {name: submitter.warm for name, submitter in submitters if submitter.warm is not None}

    def _count_warm_drivers(self) -> Mapping[str, int]:
        """The number of warm drivers by state; those that have a try are `used`."""
        waiting = [warm.states for warm in self._warm_drivers().values()]
        used = sum(followed.started_warm for followed in self._followed.values())
        return {**{state: sum(states[state] for states in waiting) for state in ("starting", "ready")}, "used": used}

    async def cancel_all(self) -> None:
        """Stop the drivers of this machine because the daemon is being stopped. The tries start again when the daemon does.

        Drivers elsewhere run on: the daemon attaches to them when it is back.
        """
        self._starter.stopped = True
        while ending := [followed for followed in self._followed.values() if followed.ends_with_home]:
            for followed in ending:
                followed.request_stop(with_daemon=True)
            await anyio.sleep(_LOOK_EVERY)

    async def _follow_own(self) -> None:
        """Follow this home's tries. Stop those that people cancelled, or that the leader took from a home silent too long."""
        followed = dict(self._followed)  # a try that ends during the check must not be followed again
        async with self.database.reading() as connection:
            ours = await try_lookup.open_tries(connection, self.process.id)
            over = followed.keys() - {open_try.tag for open_try in ours}
            elsewhere = await try_lookup.taken_over(connection, self.process.id, over) if over else frozenset()
        for open_try in ours:
            if open_try.tag not in followed:
                self._follow(open_try, None)
            elif open_try.cancelled:
                followed[open_try.tag].request_stop()
        for tag in over:
            followed[tag].abandon() if tag in elsewhere else followed[tag].request_stop()

    def _follow(self, open_try: OpenTry, token: str | None) -> None:
        """Follow the try from now on. `token` is given exactly if this process has just committed the intent."""
        if self._tasks is None or open_try.tag in self._followed:
            return
        submitter = self.submissions.submitters.get(open_try.submitter)
        if submitter is None:
            if open_try.tag not in self._warned:
                self._warned.add(open_try.tag)
                self._tasks.start_soon(self._warn, open_try)
            return
        needs = self.submissions.needs(open_try.key.instance.dag_id, submitter)
        followed = self._followed[open_try.tag] = FollowedTry(open_try, submitter, needs, self.metrics, self.hooks)
        self._tasks.start_soon(self._run, followed, token)

    async def _run(self, followed: FollowedTry, token: str | None) -> None:
        try:
            await followed.run(self.database, self.submissions, token)
        finally:
            del self._followed[followed.open_try.tag]
        self.on_end()

    async def _warn(self, open_try: OpenTry) -> None:
        async with keep_going("dispatcher.warning_failed"):
            await warn_of_submitter(self.database.transaction, open_try)

    async def _next_check(self) -> timedelta:
        """When to check next: when a retry is due, at the latest after a while. Not every change is reported here."""
        async with keep_going("dispatcher.failed"):
            async with self.database.reading() as connection:
                due = await runs.next_retry_in(connection)
            return CHECK_EVERY if due is None else min(due, CHECK_EVERY)
        return CHECK_EVERY

    async def _keep_beating(self) -> None:
        while True:
            with anyio.move_on_after((self.lease / 3).total_seconds()):
                await self._beat_soon.wait()
            self._beat_soon = anyio.Event()
            async with keep_going("dispatcher.heartbeat_failed"):
                await self._beat()

    async def _keep_forgetting(self) -> None:
        while True:
            if self.leadership.leads:
                async with keep_going("dispatcher.forgetting_failed"):
                    await forget_due(self.database, self.submissions.submitters)
            await anyio.sleep(CHECK_EVERY.total_seconds())

    async def _beat(self) -> None:
        async with self.database.statements() as connection:
            dialect = self.database.dialect
            await triggerers.beat_dispatcher(connection, self.process, self.lease, dialect, self.configuration)
        self.health.beat("dispatcher", self.lease / 3)
