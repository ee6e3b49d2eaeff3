"""A watcher that the triggerer hosts: its supervisor, and the task that runs it while its trigger is not parked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from store.catalog.watchers import Polled
from watcher.host.watchdog import WATCHER_TASK
from watcher.triggerer.clients import Hosted
from watcher.triggerer.supervisor import Supervisor

STOP_SOON: Final = 10.0
"""Seconds after which a trigger is named that continues although it was cancelled."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, slots=True)
class RunningWatcher:
    """A hosted watcher. It has no task while its trigger is parked. `is_woken`: something came since it began to run."""

    hosted: Hosted
    supervisor: Supervisor
    task: anyio.TaskHandle[None] | None = None
    is_woken: bool = False

    def wake(self, tasks: TaskGroup) -> None:
        """Resume the watcher if it is parked."""
        if self.task is None:
            self.task = tasks.start_soon(self._run_until_parked, name=WATCHER_TASK + self.hosted.name)
        else:
            self.is_woken = True

    def poll_now(self, tasks: TaskGroup) -> None:
        """Have the next poll now: end a pause after a failure, or the rest between two polls."""
        if self.task is None:
            self.wake(tasks)
        elif not self.supervisor.failures.end_pause() and (trigger := self.supervisor.trigger) is not None:
            trigger.wake()

    async def _run_until_parked(self) -> None:
        while True:
            self.is_woken = False
            await self.supervisor.run()
            if not self.is_woken:
                break
        self.task = None

    def look_back(self) -> Polled | None:
        """Return when the watcher last polled. If it is unstable, show when it is stable by now: it may rest for an hour."""
        self.supervisor.failures.look_back()
        return self.supervisor.report.polled

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def ended(self) -> None:
        """Wait until the cancelled task has ended, however long its trigger takes, and discard a parked trigger."""
        if (task := self.task) is not None:
            with anyio.move_on_after(STOP_SOON) as soon:
                await task.wait()
            if soon.cancelled_caught:
                remedy = "correct its trigger: it must end when it is cancelled"
                log.error("watcher.not_stopping", watcher=self.hosted.name, remedy=remedy)
                await task.wait()
        self.supervisor.discard_parked()
