"""The triggerer: keeps a lease, hosts the watchers that fall to it, lets go of those that do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from store.catalog import watchers
from store.database import Database
from store.detection import positions
from store.processes import triggerers
from store.processes.triggerers import Process
from watcher.loops import Wakeup, keep_going
from watcher.triggerer.assignment import assigned
from watcher.triggerer.clients import Hosted
from watcher.triggerer.supervisor import Supervisor

FORGET_AFTER: Final = timedelta(days=1)

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Triggerer:
    """Hosts watchers under one lease. `supervise` makes the supervisor of a watcher."""

    database: Database
    process: Process
    hosted: Mapping[str, Hosted]
    supervise: Callable[[Hosted], Supervisor]
    heartbeat: timedelta
    lease: timedelta
    wakeup: Wakeup = field(default_factory=Wakeup)
    _running: dict[str, tuple[Supervisor, anyio.CancelScope]] = field(default_factory=dict)
    _ended: dict[str, anyio.Event] = field(default_factory=dict)
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
        ours = self._ours = assigned(self.hosted, self.process.id, living)
        for name in set(self._running) - (ours - paused):
            await self._stop(name, "paused" if name in paused else None)
        for name, (supervisor, _) in self._running.items():
            supervisor.look_again(versions.get(name, 0))
        for name in sorted(ours - paused - set(self._running)):
            self._start(tasks, name)

    async def _look_at(self, tasks: TaskGroup, names: frozenset[str]) -> None:
        """Somebody paused, resumed or moved these watchers: what is ours of them follows at once."""
        async with self.database.reading() as connection:
            paused = await watchers.paused_watchers(connection)
            versions = await positions.versions(connection, self.process.id)
        for name in names & self._ours:
            if name in paused and name in self._running:
                await self._stop(name, "paused")
            elif name in self._running:
                self._running[name][0].look_again(versions.get(name, 0))
            elif name not in paused:
                self._start(tasks, name)

    def _polled(self) -> dict[str, datetime]:
        return {name: one.last_poll_at for name, (one, _) in self._running.items() if one.last_poll_at is not None}

    def _start(self, tasks: TaskGroup, name: str) -> None:
        supervisor, scope, ended = self.supervise(self.hosted[name]), anyio.CancelScope(), anyio.Event()

        async def supervised() -> None:
            try:
                with scope:
                    await supervisor.run()
            finally:
                ended.set()

        self._running[name] = (supervisor, scope)
        self._ended[name] = ended
        tasks.start_soon(supervised, name=f"watcher {name}")

    async def _stop(self, name: str, state: str | None) -> None:
        """Let go of a watcher: its commit in flight finishes, then its position is free."""
        _, scope = self._running.pop(name)
        scope.cancel()
        await self._ended.pop(name).wait()
        async with self.database.transaction() as connection:
            await positions.release(connection, self.process.id, [name])
            if state is not None:
                await watchers.set_state(connection, name, state, error=None, error_count=0)
        log.info("watcher.released", watcher=name, state=state)

    async def _leave(self) -> None:
        async with self.database.transaction() as connection:
            await watchers.set_polled(connection, self._polled())
            for name in self._running:
                await watchers.set_state(connection, name, "stopped", error=None, error_count=0)
            await positions.release(connection, self.process.id)
            await triggerers.leave(connection, self.process.id)
        self._running.clear()
