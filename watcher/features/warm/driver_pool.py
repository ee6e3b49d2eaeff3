"""The pool of one submitter's warm drivers: started ahead for jobs with `spark.warm`, handed over, replaced, ended."""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import run_sync

from store.keys import TryKey
from watcher.features.warm import shim as warm_shim
from watcher.features.warm.driver import SAMPLE_FOLDER, WarmDriver, fingerprint, reap_left_behind
from watcher.features.warm.pool_plan import DriverMemory, PoolPlan, WaitingDriver, WarmJob, choose, plan_pool
from watcher.host.loops import Wakeup, keep_going
from watcher.submit.base import (
    Handle,
    Needs,
    SparkApplication,
    Submission,
    SubmitError,
    WarmConditions,
    WarmRequest,
    Workspace,
)
from watcher.submit.failure_reasons import explain_log
from watcher.submit.local.exit_reason import end_of
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.shim_submitter import Command

CHECK_EVERY: Final = 1.0
"""Seconds between two checks whether a driver has to be started; without a job that has warm drivers there are none."""
KEYS_EVERY: Final = 10.0
"""Seconds between two checks whether files have changed. A hand-over always checks."""
_PAUSES: Final = (30.0, 120.0, 600.0)
"""Seconds for which a job gets no driver after the first failure in a row, the second, and each further one."""

log = structlog.get_logger()


class DriverCommands(Protocol):
    """What the pool needs of the submitter whose drivers it holds."""

    workspace: Workspace

    def folder(self, key: TryKey) -> TryFolder: ...

    def log(self, key: TryKey) -> Path: ...

    def needs(self, application: SparkApplication) -> Needs: ...

    def handle(self, key: TryKey, tag: str) -> Handle: ...

    def waiting_command(self, submission: Submission, folder: TryFolder, tag: str) -> Command:
        """Return what to run for a driver that waits for such a try. Blocking. Raises `SubmitError`."""

    def runtime_files(self, application: SparkApplication) -> Mapping[str, str]:
        """Return the files, and the times, that change when the runtime itself changes. Blocking. Raises `SubmitError`."""


@dataclass(eq=False, repr=False)
class DriverPool:
    """The `WarmDrivers` of a submitter. Unless `run` runs, no driver waits, and no try is handed over."""

    submitter: DriverCommands
    _: KW_ONLY
    _requests: Sequence[WarmRequest] = ()
    _jobs: Sequence[WarmJob] = ()
    waiting: dict[str, tuple[WaitingDriver, WarmDriver]] = field(default_factory=dict)
    _watches: dict[str, anyio.CancelScope] = field(default_factory=dict)
    _in_transit_mb: dict[str, int] = field(default_factory=dict)
    """Memory of drivers that neither wait nor have a try: they are being started, handed over or ended."""
    _failures: Counter[str] = field(default_factory=Counter)
    _paused_until: dict[str, float] = field(default_factory=dict)
    _too_large: tuple[str, ...] = ()
    _tasks: TaskGroup | None = None
    _conditions: WarmConditions | None = None
    _keys_at: float = -math.inf

    def __post_init__(self) -> None:
        self.wakeup = Wakeup()

    @property
    def states(self) -> Mapping[str, int]:
        counts = Counter("ready" if driver.is_ready else "starting" for driver, _ in self.waiting.values())
        return {state: counts[state] for state in ("starting", "ready")}

    def adopt(self, requests: Sequence[WarmRequest]) -> None:
        self._requests, self._keys_at = [request for request in requests if request.count], -math.inf
        self.wakeup.set()

    async def run(
        self, conditions: WarmConditions, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start, replace and end drivers until cancelled, as `WarmDrivers.run` promises."""
        if reaped := await run_sync(reap_left_behind, self.submitter.workspace.home):
            log.info("warm.buried", drivers=reaped)
        self._conditions = conditions
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                while True:
                    async with keep_going("warm.failed"):
                        await self._settle(conditions)
                    await self.wakeup.wait(CHECK_EVERY if self._requests else math.inf)
        finally:
            self._tasks = None
            with anyio.CancelScope(shield=True):
                await self._end(list(self.waiting))

    async def hand_over(self, submission: Submission) -> Handle | None:
        while (chosen := choose(self._drivers(), submission.key.instance.dag_id)) is not None:
            driver = self._take(chosen.tag)
            is_taken = False
            try:
                is_taken = await run_sync(self._hand_over, chosen, driver, submission)
            finally:
                self.wakeup.set()
                if is_taken:
                    driver.control.close()
                    self._in_transit_mb.pop(chosen.tag, None)
                else:
                    with anyio.CancelScope(shield=True):
                        await self._await_end(chosen.tag, driver)
            if is_taken:
                log.info("warm.handed_over", driver=chosen.tag)
                return self.submitter.handle(submission.key, submission.tag)
            log.info("warm.refused", driver=chosen.tag)
        if self._conditions is not None:
            await self._end(self._plan(self._conditions).end)
        return None

    def _hand_over(self, chosen: WaitingDriver, driver: WarmDriver, submission: Submission) -> bool:
        try:
            if self.key(submission) != chosen.key:
                return False
            folder, try_log = self.submitter.folder(submission.key), self.submitter.log(submission.key)
            return driver.hand_over(submission, folder, try_log)
        except (OSError, SubmitError):
            return False

    def key(self, submission: Submission) -> str:
        """The key of drivers that could run the submission. Blocking. Raises `SubmitError`."""
        order = self.submitter.waiting_command(submission, SAMPLE_FOLDER, "warm")
        runtime = self.submitter.runtime_files(submission.application)
        return fingerprint(order, submission.context.get("connections", {}), runtime)

    async def _settle(self, conditions: WarmConditions) -> None:
        if anyio.current_time() - self._keys_at >= KEYS_EVERY:
            self._keys_at = anyio.current_time()
            self._jobs = await run_sync(self._job_keys)
        while (decided := self._plan(conditions)).end:
            await self._end(decided.end)
        if decided.too_large != self._too_large:
            self._too_large = decided.too_large
            if decided.too_large:
                remedy = "raise settings.scheduler.warm_memory_mb, or lower driver_memory"
                log.warning("warm.no_room", jobs=list(decided.too_large), remedy=remedy)
        if decided.start is not None and conditions.may_start():
            await self._start(decided.start)

    def _plan(self, conditions: WarmConditions) -> PoolPlan:
        now = anyio.current_time()
        memory = DriverMemory(
            all_mb=conditions.memory_mb,
            warm_mb=conditions.warm_memory_mb,
            running_mb=conditions.running_mb() + sum(self._in_transit_mb.values()),
        )
        failing = {key for key, until in self._paused_until.items() if now < until}
        return plan_pool(self._jobs, self._drivers(), memory, failing=failing)

    def _drivers(self) -> list[WaitingDriver]:
        return [driver for driver, _ in self.waiting.values()]

    def _job_keys(self) -> list[WarmJob]:
        jobs = []
        for request in self._requests:
            memory_mb = self.submitter.needs(request.application).memory_mb or 0
            try:
                key = self.key(_sample(request))
            except SubmitError:  # the job's runs will report it
                continue
            jobs.append(WarmJob(dag_id=request.dag_id, key=key, count=request.count, memory_mb=memory_mb))
        return jobs

    async def _start(self, job: WarmJob) -> None:
        request = next(request for request in self._requests if request.dag_id == job.dag_id)
        name, workspace = str(uuid4()), self.submitter.workspace
        folder = TryFolder(workspace.home / "warm" / name)
        driver = WarmDriver(folder=folder, tag=f"warm-{name}", log=workspace.logs / "warm" / f"{name}.log")
        waiting = WaitingDriver(tag=driver.tag, dag_id=job.dag_id, key=job.key, memory_mb=job.memory_mb, is_ready=False)
        self._in_transit_mb[driver.tag] = job.memory_mb
        try:
            order = await run_sync(self.submitter.waiting_command, _sample(request), folder, driver.tag)
            with anyio.CancelScope(shield=True):
                await run_sync(driver.start, order)
            self.waiting[driver.tag] = (waiting, driver)
        except (OSError, subprocess.SubprocessError, SubmitError) as error:
            self._note_failure(waiting, str(error))
        finally:
            self._in_transit_mb.pop(driver.tag, None)
        if self._tasks is not None and driver.tag in self.waiting:
            self._tasks.start_soon(self._watch, driver)
        self.wakeup.set()

    async def _watch(self, driver: WarmDriver) -> None:
        """Wait until the driver is taken, or has ended by itself."""
        with anyio.CancelScope() as self._watches[driver.tag]:
            while True:
                await anyio.wait_readable(driver.control)
                waiting, _ = self.waiting[driver.tag]
                if not self._is_ready(driver):
                    reason = explain_log(await run_sync(lambda: end_of(driver.log).text))
                    self._note_failure(waiting, "it logged nothing" if reason is None else reason.sentence)
                    break
                self.waiting[driver.tag] = (replace(waiting, is_ready=True), driver)
                self._failures.pop(waiting.key, None)
                log.info("warm.ready", driver=driver.tag, dag_id=waiting.dag_id)
                self.wakeup.set()
            self._watches.pop(driver.tag, None)
            await self._end([driver.tag])
            self.wakeup.set()

    @staticmethod
    def _is_ready(driver: WarmDriver) -> bool:
        """Read the driver's message, and return whether it says that the driver is ready."""
        try:
            return driver.control.recv(warm_shim.LONGEST_MESSAGE) == b"ready"
        except OSError:
            return False

    def _note_failure(self, driver: WaitingDriver, reason: str) -> None:
        """Record that the driver failed to start, or ended while it waited. Its job gets no other one for a while."""
        self._failures[driver.key] += 1
        pause = _PAUSES[min(self._failures[driver.key], len(_PAUSES)) - 1]
        self._paused_until[driver.key] = anyio.current_time() + pause
        log.warning("warm.ended", driver=driver.tag, dag_id=driver.dag_id, reason=reason, again_in=pause)

    def _take(self, tag: str) -> WarmDriver:
        """Remove the driver from those that wait. Its memory counts until it is gone, or has a try."""
        waiting, driver = self.waiting.pop(tag)
        if (watch := self._watches.pop(tag, None)) is not None:
            watch.cancel()
        self._in_transit_mb[tag] = waiting.memory_mb
        return driver

    async def _end(self, tags: Sequence[str]) -> None:
        taken = {tag: self._take(tag) for tag in tags if tag in self.waiting}
        async with anyio.create_task_group() as tasks:
            for tag, driver in taken.items():
                tasks.start_soon(self._await_end, tag, driver)

    async def _await_end(self, tag: str, driver: WarmDriver) -> None:
        with anyio.CancelScope(shield=True):
            await run_sync(driver.end)
        self._in_transit_mb.pop(tag, None)


def _sample(request: WarmRequest) -> Submission:
    """A submission as one of the job's tries would be, for a command that waits for such tries."""
    return Submission.without_try(request.dag_id, request.application, {"connections": request.connections})
