"""The triggerer: keeps a lease, hosts the watchers that fall to it, lets go of those that do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from store.catalog import watchers
from store.catalog.watchers import Polled
from store.database import Database
from store.detection import positions
from store.processes import triggerers
from store.processes.triggerers import Process
from watcher.health import Health
from watcher.loops import Wakeup, keep_going
from watcher.triggerer.assignment import assigned
from watcher.triggerer.clients import Hosted
from watcher.triggerer.supervisor import Supervisor
from watcher.watchdog import WATCHER_TASK

FORGET_AFTER: Final = timedelta(days=1)
STOP_SOON: Final = 10.0
"""Seconds after which a trigger that goes on although it was cancelled is named."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class _Running:
    """A hosted watcher: cancelling its scope ends it, and `ended` says when it has."""

    supervisor: Supervisor
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


@dataclass(kw_only=True, eq=False)
class Triggerer:
    """Hosts watchers under one lease. `supervise` makes the supervisor of a watcher."""

    database: Database
    process: Process
    hosted: Mapping[str, Hosted]
    supervise: Callable[[Hosted], Supervisor]
    heartbeat: timedelta
    lease: timedelta
    health: Health = field(default_factory=Health)
    wakeup: Wakeup = field(default_factory=Wakeup)
    _running: dict[str, _Running] = field(default_factory=dict)
    _ending: dict[str, _Running] = field(default_factory=dict)
    _ours: frozenset[str] = frozenset()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; then the commit in flight finishes and everything is released."""
        try:
            async with anyio.create_task_group() as tasks:
                await self._beat(tasks)
                beat_at = anyio.current_time() + self.heartbeat.total_seconds()
                task_status.started()
                while True:
                    hinted = await self.wakeup.wait(beat_at - anyio.current_time())
                    async with keep_going("triggerer.heartbeat_failed"):
                        if hinted and anyio.current_time() < beat_at:
                            await self._look_at(tasks, hinted)
                            continue
                        beat_at = anyio.current_time() + self.heartbeat.total_seconds()
                        await self._beat(tasks)
        finally:
            with anyio.CancelScope(shield=True):
                async with keep_going("triggerer.release_failed"):
                    await self._leave()

    async def _beat(self, tasks: TaskGroup) -> None:
        async with self.database.transaction() as connection:
            await triggerers.beat(connection, self.process, self.lease, self.database.dialect)
            await triggerers.forget_dead(connection, FORGET_AFTER)
            await watchers.set_polled(connection, self._polled())
            living = await triggerers.living(connection)
            paused = await watchers.paused_watchers(connection)
            versions = await positions.versions(connection, self.process.id)
        self.health.beat("triggerer", self.heartbeat)
        ours = self._ours = assigned(self.hosted, self.process.id, living)
        for name in set(self._running) - (ours - paused):
            self._stop(tasks, name, "paused" if name in paused else None)
        for name, running in self._running.items():
            running.supervisor.look_again(versions.get(name, 0))
        for name in sorted(ours - paused):
            self._start(tasks, name)

    async def _look_at(self, tasks: TaskGroup, names: frozenset[str]) -> None:
        """Somebody paused, resumed or moved these watchers: what is ours of them follows at once."""
        async with self.database.reading() as connection:
            paused = await watchers.paused_watchers(connection)
            versions = await positions.versions(connection, self.process.id)
        for name in names & self._ours:
            if name in paused and name in self._running:
                self._stop(tasks, name, "paused")
            elif name in self._running:
                self._running[name].supervisor.look_again(versions.get(name, 0))
            elif name not in paused:
                self._start(tasks, name)

    def _polled(self) -> dict[str, Polled]:
        polled = {name: running.supervisor.report.polled for name, running in self._running.items()}
        return {name: look for name, look in polled.items() if look is not None}

    def _start(self, tasks: TaskGroup, name: str) -> None:
        """Host a watcher, unless it is hosted already or has not ended yet from the last time."""
        if name in self._running or name in self._ending:
            return
        running = self._running[name] = _Running(supervisor=self.supervise(self.hosted[name]))
        self.health.watchers[name] = running.supervisor.report

        async def supervised() -> None:
            try:
                with running.scope:
                    await running.supervisor.run()
            finally:
                running.ended.set()

        tasks.start_soon(supervised, name=WATCHER_TASK + name)

    def _stop(self, tasks: TaskGroup, name: str, state: str | None) -> None:
        """Let go of a watcher; the heart beats on meanwhile, however long its trigger takes."""
        self._ending[name] = self._running.pop(name)
        self.health.watchers.pop(name, None)
        self._ending[name].scope.cancel()
        tasks.start_soon(self._release, name, state)

    async def _release(self, name: str, state: str | None) -> None:
        """Once the commit in flight has finished, the position is free."""
        ended = self._ending[name].ended
        with anyio.move_on_after(STOP_SOON):
            await ended.wait()
        if not ended.is_set():
            log.error("watcher.not_stopping", watcher=name, remedy="mend its trigger: it must end when it is cancelled")
            await ended.wait()
        while True:
            async with keep_going("triggerer.release_failed"):
                async with self.database.transaction() as connection:
                    await positions.release(connection, self.process.id, [name])
                    if state is not None:
                        await watchers.set_state(connection, name, state, error=None, error_count=0)
                del self._ending[name]
                break
            await anyio.sleep(self.heartbeat.total_seconds())
        log.info("watcher.released", watcher=name, state=state)
        self.wakeup.set(frozenset({name}))  # somebody may have wanted it back meanwhile

    async def _leave(self) -> None:
        async with self.database.transaction() as connection:
            await watchers.set_polled(connection, self._polled())
            for name in sorted(self._running):
                await watchers.set_state(connection, name, "stopped", error=None, error_count=0)
            await positions.release(connection, self.process.id)
            await triggerers.leave(connection, self.process.id)
        self._running.clear()
