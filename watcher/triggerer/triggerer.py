"""The triggerer: keeps a lease, hosts the watchers that fall to it, and releases those that do not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from store.catalog import watchers
from store.catalog.watchers import Polled
from store.database import Database
from store.detection import positions
from store.detection.positions import HeldPosition, LoadedPosition
from store.processes import triggerers
from store.processes.triggerers import CAPACITY, LivingTriggerer, ProcessInfo
from triggers.shared.delays import sleep_for
from watcher.host.health import Health
from watcher.host.leader_election import AFTER_EXPIRY
from watcher.host.loops import Wakeup, insist, keep_going
from watcher.triggerer.assignment_watch import AssignmentWatch
from watcher.triggerer.claims import Claims
from watcher.triggerer.clients import Hosted
from watcher.triggerer.running import RunningWatcher
from watcher.triggerer.states import States
from watcher.triggerer.supervisor import RECLAIM_AFTER, Supervisor

FORGET_AFTER: Final = timedelta(days=1)
PARKED_PRECISELY: Final = 1.0
"""Seconds by which a parked watcher may resume too late."""

BEGIN_TOGETHER: Final = 1_000
"""The number of watchers that make and check their triggers at the same time.

Each takes half as much memory again as one that rests; a watcher that waits for its turn takes none.
"""
BEGIN_ANYHOW: Final = 100
"""The number of waiting watchers that begin at each check in any case: others may hang for as long as `poll_timeout`."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Triggerer:
    """Hosts watchers under one lease. `supervise` makes the supervisor of a watcher.

    `configuration` is the hash of the one that `hosted` is from. This process hosts the watchers that were applied with the
    same definition; None: all of them. `on_release` is called with the watchers that other processes may claim now; no
    names mean all that were ours.
    """

    database: Database
    process: ProcessInfo
    hosted: Mapping[str, Hosted]
    supervise: Callable[[Hosted], Supervisor]
    heartbeat: timedelta
    lease: timedelta
    configuration: str | None = None
    capacity: int = CAPACITY
    on_release: Callable[[frozenset[str]], None] = lambda _names: None
    health: Health = field(default_factory=Health)
    wakeup: Wakeup = field(default_factory=Wakeup)
    _running: dict[str, RunningWatcher] = field(default_factory=dict)
    _ending: dict[str, RunningWatcher] = field(default_factory=dict)
    _unreadable: dict[str, str] = field(default_factory=dict)
    _unclaimed: frozenset[str] = frozenset()
    _beat_at: float = 0.0
    _on_wake: Callable[[str], None] = lambda _name: None
    _tasks: TaskGroup | None = None

    def __post_init__(self) -> None:
        self._claims = Claims(database=self.database, owner=self.process.id)
        self._states = States(database=self.database, owner=self.process.id)
        self._assignments = AssignmentWatch(
            database=self.database,
            owner=self.process.id,
            hosted=self.hosted,
            configuration=self.configuration,
            capacity=self.capacity,
            health=self.health,
        )

    def adopt(self, hosted: Mapping[str, Hosted], configuration: str | None) -> None:
        """Host these from now on. A watcher whose `Hosted` is the same object continues and never notices."""
        self.hosted, self.configuration = hosted, configuration
        self._assignments.hosted, self._assignments.configuration = hosted, configuration
        self._unclaimed &= hosted.keys()
        self.wakeup.set()

    def poll_now(self, names: frozenset[str]) -> None:
        """Have the watchers with these names poll now, if they run here. No names mean none: a hint may have been lost."""
        for name in names & self._running.keys():
            if self._tasks is not None:
                self._running[name].poll_now(self._tasks)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Host until cancelled. Then the commit in flight finishes and everything is released."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self._on_wake = partial(self._wake, tasks)
                tasks.start_soon(self._states.run)
                tasks.start_soon(self._claims.run)
                tasks.start_soon(self._wake_in_time, tasks)
                await insist("triggerer.heartbeat_failed", lambda: self._beat(tasks))
                task_status.started()
                while True:
                    await self._next_check(tasks)
        finally:
            self._tasks = None
            for running in (*self._running.values(), *self._ending.values()):
                running.supervisor.discard_parked()
            with anyio.CancelScope(shield=True):
                async with keep_going("triggerer.release_failed"):
                    await self._leave()

    async def _next_check(self, tasks: TaskGroup) -> None:
        """Wait for the next heartbeat or hint, and check every second what is ours and not released by another process yet."""
        now = anyio.current_time()
        again_at = min(self._beat_at, now + RECLAIM_AFTER) if self._unclaimed else self._beat_at
        hinted = await self.wakeup.wait(again_at - now)
        now = anyio.current_time()
        async with keep_going("triggerer.heartbeat_failed"):
            if hinted and now < self._beat_at:
                await self._check(tasks, hinted)
            elif again_at <= now < self._beat_at:
                await self._host(tasks, self._unclaimed)
            else:
                await self._beat(tasks)

    async def _beat(self, tasks: TaskGroup) -> None:
        """Renew the lease and bring everything up to date.

        Each statement is a transaction of its own, so nobody waits for a lock of this process, however slow it is.
        """
        self._beat_at = anyio.current_time() + self.heartbeat.total_seconds()
        async with self.database.statements() as connection:
            await triggerers.beat(connection, self.process, self.lease, self.database.dialect, self.capacity)
            await self._assignments.announce(connection)
            await triggerers.forget_dead(connection, FORGET_AFTER)
            await watchers.set_polled(connection, self.process.id, self._polled())
            await watchers.set_polls(connection, self.process.id, self._histories())
            living = await triggerers.living(connection)
            await self._assignments.refresh(connection, living)
            paused = await watchers.paused_watchers(connection)
            held = await positions.held_by(connection, self.process.id)
        self.health.beat("triggerer", self.heartbeat)
        self._beat_before_leases_end(living)
        ours = self._assignments.ours
        for name in set(self._running) - (ours - paused):
            self._stop(tasks, name, "paused" if name in paused else None)
        for name in [name for name, running in self._running.items() if running.hosted is not self.hosted[name]]:
            self._stop(tasks, name, None)
        self._compare(held, self._running)
        await self._host(tasks, ours - paused)
        idle = self.hosted.keys() - self._running.keys() - self._ending.keys() - paused
        await self._assignments.show_unhosted(frozenset(idle))
        await self._assignments.show_unassigned(self._unreadable)

    def _beat_before_leases_end(self, living: Sequence[LivingTriggerer]) -> None:
        """Have the next heartbeat no later than another process's lease ends."""
        for other in living:
            if other.id != self.process.id:
                ends_in = (other.expires_in + AFTER_EXPIRY).total_seconds()
                self._beat_at = min(self._beat_at, anyio.current_time() + ends_in)

    async def _check(self, tasks: TaskGroup, names: frozenset[str]) -> None:
        """Follow at once what was done to these watchers: a pause, a resume, a rewind or a release."""
        async with self.database.reading() as connection:
            paused = await watchers.paused_watchers(connection)
            held = await positions.held_by(connection, self.process.id)
        ours = names & self._assignments.ours
        for name in ours & paused & self._running.keys():
            self._stop(tasks, name, "paused")
        self._compare(held, ours)
        await self._host(tasks, (ours | self._unclaimed) - paused)

    def _compare(self, held: Mapping[str, HeldPosition], names: Collection[str]) -> None:
        for name in self._running.keys() & set(names):
            self._running[name].supervisor.compare(held.get(name))

    async def _host(self, tasks: TaskGroup, names: frozenset[str]) -> None:
        """Claim these positions as far as they are free, and start their watchers; of many, some at each check."""
        self._unclaimed = names - self._running.keys() - self._ending.keys()
        self._unreadable = {name: why for name, why in self._unreadable.items() if name in self._unclaimed}
        waiting = sorted(self._unclaimed)
        room = max(
            BEGIN_TOGETHER - sum(each.supervisor.report.is_starting for each in self._running.values()), BEGIN_ANYHOW
        )
        while waiting and room > 0:
            some, waiting = waiting[:room], waiting[room:]
            room -= await self._begin(tasks, some)
        self._unclaimed -= self._unreadable.keys()
        self.health.to_begin = len(waiting)

    async def _begin(self, tasks: TaskGroup, names: Sequence[str]) -> int:
        """Start those watchers whose positions one statement could claim. Return their number."""
        hosted = {name: self.hosted[name] for name in names}
        formats = {name: each.trigger.format for name, each in hosted.items()}
        async with self.database.statements() as connection:
            claimed = await positions.claim_all(connection, formats, self.process.id, self.database.dialect)
            stored = await positions.formats(connection, formats.keys() - claimed.keys())
            histories = await watchers.stored_polls(connection, claimed.keys())
            findings = await watchers.findings_since(connection, claimed.keys())
        for name, position in sorted(claimed.items()):
            self._start(tasks, hosted[name], position, histories.get(name), findings.get(name, {}))
        unreadable = {name: _newer(number) for name, number in stored.items() if number > formats[name]}
        self._unreadable = {name: why for name, why in self._unreadable.items() if name not in hosted} | unreadable
        self._unclaimed -= claimed.keys()
        return len(claimed)

    def _polled(self) -> dict[str, Polled]:
        polled = {name: running.look_back() for name, running in self._running.items()}
        return {name: poll for name, poll in polled.items() if poll is not None}

    def _histories(self) -> dict[str, str]:
        """Return the histories in which something is worth a write."""
        histories = {name: running.supervisor.report.history for name, running in self._running.items()}
        return {name: history.take() for name, history in histories.items() if history.is_unsaved}

    def _start(
        self,
        tasks: TaskGroup,
        hosted: Hosted,
        position: LoadedPosition,
        polls: str | None,
        findings_since: Mapping[str, str],
    ) -> None:
        """Host a watcher from the position that was claimed for it."""
        name, supervisor = hosted.name, self.supervise(hosted)
        self.health.watchers[name] = supervisor.report
        supervisor.report.history.begin_with(polls)
        supervisor.report.findings_since = findings_since
        supervisor.host(position, self._claims, self._states, self._on_wake)
        self._running[name] = RunningWatcher(hosted=hosted, supervisor=supervisor)
        self._wake(tasks, name)

    def _wake(self, tasks: TaskGroup, name: str) -> None:
        """Resume a watcher if it is parked."""
        if (running := self._running.get(name)) is not None:
            running.wake(tasks)

    async def _wake_in_time(self, tasks: TaskGroup) -> None:
        while True:
            await anyio.sleep(PARKED_PRECISELY)
            now = anyio.current_time()
            for name in [name for name, each in self._running.items() if each.supervisor.parked_until <= now]:
                self._wake(tasks, name)

    def _stop(self, tasks: TaskGroup, name: str, state: str | None) -> None:
        """Stop a watcher. Heartbeats continue meanwhile, however long its trigger takes."""
        self._ending[name] = running = self._running.pop(name)
        self.health.watchers.pop(name, None)
        running.cancel()
        tasks.start_soon(self._release, name, state)

    async def _release(self, name: str, state: str | None) -> None:
        """Release the position once the commit in flight has finished."""
        await self._ending[name].ended()
        while True:
            async with keep_going("triggerer.release_failed"):
                await self._states.forget(name)
                supervisor = self._ending[name].supervisor
                history = supervisor.report.history
                async with self.database.transaction() as connection:
                    if history.is_unsaved:
                        await watchers.set_polls(connection, self.process.id, {name: history.take()})
                    released = await positions.release(connection, self.process.id, [name])
                    if state is not None and released and not supervisor.failures.has_given_up:
                        await watchers.set_state(connection, name, state, error=None, error_count=0)
                del self._ending[name]
                break
            await sleep_for(self.heartbeat.total_seconds())
        log.info("watcher.released", watcher=name, state=state)
        self.wakeup.set(frozenset({name}))  # it may be ours again meanwhile
        self.on_release(frozenset({name}))

    async def _leave(self) -> None:
        async with self.database.statements() as connection:
            await watchers.set_polled(connection, self.process.id, self._polled())
            await watchers.set_polls(connection, self.process.id, self._histories())
        self._running.clear()
        async with self.database.transaction() as connection:
            released = await positions.release(connection, self.process.id)
            await watchers.set_stopped(connection, released)
            await triggerers.leave(connection, self.process.id)
        self.on_release(frozenset())


def _newer(format_: int) -> str:
    return (
        f"its position was stored in format {format_}, which this program cannot read; "
        "start every triggerer with the newest version of the program"
    )
