"""The warm drivers of one submitter: started ahead for jobs with `spark.warm`, handed over, replaced, ended."""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import run_sync

from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from watcher.host.loops import Wakeup, keep_going
from watcher.submit.base import SparkApplication, Submission, SubmitError
from watcher.submit.failure_reasons import explain_log
from watcher.submit.local.folder import TryFolder
from watcher.submit.shimmed import end_of
from watcher.submit.warm import shim as warm_shim
from watcher.submit.warm.driver import SOMEWHERE, WarmDriver, bury_left_behind, fingerprint
from watcher.submit.warm.pool import Memory, Plan, WaitingDriver, WarmJob, choose, plan

if TYPE_CHECKING:
    from watcher.submit.spark_submit import SparkSubmit

LOOK_EVERY: Final = 1.0
"""Seconds between two looks whether something is to be started; without a job that has warm drivers nobody looks."""
KEYS_EVERY: Final = 10.0
"""Seconds between two looks whether files have changed; a hand-over always looks."""
_UNWELL_FOR: Final = (30.0, 120.0, 600.0)

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class WarmRequest:
    """What a job asks for, as a try of it would be submitted."""

    dag_id: str
    count: int
    application: SparkApplication
    connections: Mapping[str, Mapping[str, object]]

    @property
    def submission(self) -> Submission:
        """Of no try."""
        instance = TaskInstanceKey(dag_id=self.dag_id, run_id="", task_id="")
        key = TryKey(instance=instance, task_instance_id=TaskInstanceId(""), try_number=0)
        return Submission(key=key, tag="", application=self.application, context={"connections": self.connections})


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What else runs here."""

    memory: Memory
    running_mb: Callable[[], int] = lambda: 0
    """What the tries of this home take, with those that are just being submitted."""
    may_start: Callable[[], bool] = lambda: True
    """False while a run is being started, and in a process that starts none."""


@dataclass(eq=False, repr=False)
class WarmDrivers:
    """Nothing waits, and nothing is handed over, unless `run` runs."""

    submitter: SparkSubmit
    _: KW_ONLY
    _requests: Sequence[WarmRequest] = ()
    _jobs: Sequence[WarmJob] = ()
    _waiting: dict[str, tuple[WaitingDriver, WarmDriver]] = field(default_factory=dict)
    _watches: dict[str, anyio.CancelScope] = field(default_factory=dict)
    _between_mb: dict[str, int] = field(default_factory=dict)
    """Of those that do not wait and are no try's: they are being started, handed over or ended."""
    _failures: Counter[str] = field(default_factory=Counter)
    _unwell_until: dict[str, float] = field(default_factory=dict)
    _too_large: tuple[str, ...] = ()
    _tasks: TaskGroup | None = None
    _around: Surroundings | None = None
    _keys_at: float = -math.inf

    def __post_init__(self) -> None:
        self.wakeup = Wakeup()

    @property
    def states(self) -> Mapping[str, int]:
        """How many wait, by how far they are."""
        counts = Counter("ready" if driver.is_ready else "starting" for driver, _ in self._waiting.values())
        return {state: counts[state] for state in ("starting", "ready")}

    def adopt(self, requests: Sequence[WarmRequest]) -> None:
        """From now on these are asked for."""
        self._requests, self._keys_at = [request for request in requests if request.count], -math.inf
        self.wakeup.set()

    async def run(self, around: Surroundings, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; then nothing waits any more. Started once nothing is left of those of an earlier daemon."""
        if buried := await run_sync(bury_left_behind, self.submitter.workspace.home):
            log.info("warm.buried", drivers=buried)
        self._around = around
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                while True:
                    async with keep_going("warm.failed"):
                        await self._settle(around)
                    await self.wakeup.wait(LOOK_EVERY if self._requests else math.inf)
        finally:
            self._tasks = None
            with anyio.CancelScope(shield=True):
                await self._end(list(self._waiting))

    async def hand_over(self, submission: Submission) -> bool:
        """Whether the try is started, by a driver that waited for it. If not, there is room now to start it cold."""
        while (chosen := choose(self._drivers(), submission.key.instance.dag_id)) is not None:
            driver = self._take(chosen.tag)
            is_taken = False
            try:
                is_taken = await run_sync(self._hand_over, chosen, driver, submission)
            finally:
                self.wakeup.set()
                if is_taken:
                    driver.control.close()
                    self._between_mb.pop(chosen.tag, None)
                else:
                    with anyio.CancelScope(shield=True):
                        await self._await_end(chosen.tag, driver)
            if is_taken:
                log.info("warm.handed_over", driver=chosen.tag)
                return True
            log.info("warm.refused", driver=chosen.tag)
        if self._around is not None:
            await self._end(self._plan(self._around).end)
        return False

    def _hand_over(self, chosen: WaitingDriver, driver: WarmDriver, submission: Submission) -> bool:
        try:
            if self.key(submission) != chosen.key:
                return False
            folder, log_of_try = self.submitter.folder(submission.key), self.submitter.log(submission.key)
            return driver.hand_over(submission, folder, log_of_try)
        except (OSError, SubmitError):
            return False

    def key(self, submission: Submission) -> str:
        """Of the drivers that could run it; blocking. Raises `SubmitError`."""
        order = self.submitter.waiting_command(submission, SOMEWHERE, "warm")
        runtime = self.submitter.runtime_files(submission.application)
        return fingerprint(order, submission.context.get("connections", {}), runtime)

    async def _settle(self, around: Surroundings) -> None:
        if anyio.current_time() - self._keys_at >= KEYS_EVERY:
            self._keys_at = anyio.current_time()
            self._jobs = await run_sync(self._job_keys)
        while (decided := self._plan(around)).end:
            await self._end(decided.end)
        if decided.too_large != self._too_large:
            self._too_large = decided.too_large
            if decided.too_large:
                remedy = "raise settings.scheduler.warm_memory_mb, or lower driver_memory"
                log.warning("warm.no_room", jobs=list(decided.too_large), remedy=remedy)
        if decided.start is not None and around.may_start():
            await self._start(decided.start)

    def _plan(self, around: Surroundings) -> Plan:
        now = anyio.current_time()
        running_mb = around.running_mb() + sum(self._between_mb.values())
        unwell = {key for key, until in self._unwell_until.items() if now < until}
        return plan(self._jobs, self._drivers(), replace(around.memory, running_mb=running_mb), unwell=unwell)

    def _drivers(self) -> list[WaitingDriver]:
        return [driver for driver, _ in self._waiting.values()]

    def _job_keys(self) -> list[WarmJob]:
        jobs = []
        for request in self._requests:
            memory_mb = self.submitter.needs(request.application).memory_mb or 0
            try:
                key = self.key(request.submission)
            except SubmitError:  # its runs will say so
                continue
            jobs.append(WarmJob(dag_id=request.dag_id, key=key, count=request.count, memory_mb=memory_mb))
        return jobs

    async def _start(self, job: WarmJob) -> None:
        request = next(request for request in self._requests if request.dag_id == job.dag_id)
        name, workspace = str(uuid4()), self.submitter.workspace
        folder = TryFolder(workspace.home / "warm" / name)
        driver = WarmDriver(folder=folder, tag=f"warm-{name}", log=workspace.logs / "warm" / f"{name}.log")
        about = WaitingDriver(tag=driver.tag, dag_id=job.dag_id, key=job.key, memory_mb=job.memory_mb, is_ready=False)
        self._between_mb[driver.tag] = job.memory_mb
        try:
            order = await run_sync(self.submitter.waiting_command, request.submission, folder, driver.tag)
            with anyio.CancelScope(shield=True):
                await run_sync(driver.start, order)
            self._waiting[driver.tag] = (about, driver)
        except (OSError, subprocess.SubprocessError, SubmitError) as error:
            self._note_failure(about, str(error))
        finally:
            self._between_mb.pop(driver.tag, None)
        if self._tasks is not None and driver.tag in self._waiting:
            self._tasks.start_soon(self._watch, driver)
        self.wakeup.set()

    async def _watch(self, driver: WarmDriver) -> None:
        """Until it is taken, or has ended by itself."""
        with anyio.CancelScope() as self._watches[driver.tag]:
            while True:
                await anyio.wait_readable(driver.control)
                about, _ = self._waiting[driver.tag]
                if not self._is_ready(driver):
                    reason = explain_log(await run_sync(lambda: end_of(driver.log).text))
                    self._note_failure(about, "it said nothing" if reason is None else reason.sentence)
                    break
                self._waiting[driver.tag] = (replace(about, is_ready=True), driver)
                self._failures.pop(about.key, None)
                log.info("warm.ready", driver=driver.tag, dag_id=about.dag_id)
                self.wakeup.set()
            self._watches.pop(driver.tag, None)
            await self._end([driver.tag])
            self.wakeup.set()

    @staticmethod
    def _is_ready(driver: WarmDriver) -> bool:
        """What it says, once it says something."""
        try:
            return driver.control.recv(warm_shim.LONGEST_MESSAGE) == b"ready"
        except OSError:
            return False

    def _note_failure(self, about: WaitingDriver, reason: str) -> None:
        """Of one that ended while it waited, or never did; for a while no other is started in its place."""
        self._failures[about.key] += 1
        pause = _UNWELL_FOR[min(self._failures[about.key], len(_UNWELL_FOR)) - 1]
        self._unwell_until[about.key] = anyio.current_time() + pause
        log.warning("warm.ended", driver=about.tag, dag_id=about.dag_id, reason=reason, again_in=pause)

    def _take(self, tag: str) -> WarmDriver:
        """From here on it waits no more; it takes memory until it is gone, or is a try's."""
        about, driver = self._waiting.pop(tag)
        if (watch := self._watches.pop(tag, None)) is not None:
            watch.cancel()
        self._between_mb[tag] = about.memory_mb
        return driver

    async def _end(self, tags: Sequence[str]) -> None:
        taken = {tag: self._take(tag) for tag in tags if tag in self._waiting}
        async with anyio.create_task_group() as tasks:
            for tag, driver in taken.items():
                tasks.start_soon(self._await_end, tag, driver)

    async def _await_end(self, tag: str, driver: WarmDriver) -> None:
        with anyio.CancelScope(shield=True):
            await run_sync(driver.end)
        self._between_mb.pop(tag, None)
