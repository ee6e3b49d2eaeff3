"""Which warm drivers to start, to hand over and to end: pure rules.

A job has `spark.warm` waiting drivers, as far as memory allows. One driver is started at a time, and none while a run is
being started. Waiting drivers may take `settings.scheduler.warm_memory_mb`, as far as runs leave it of `memory_mb`: a run
that needs memory takes it from them. A driver that no longer matches its job's configuration is ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, kw_only=True)
class WarmJob:
    """A job with warm drivers. `key` stands for everything that is fixed when its JVM starts."""

    dag_id: str
    key: str
    count: int
    memory_mb: int


@dataclass(frozen=True, kw_only=True)
class WaitingDriver:
    """A driver that no try has yet."""

    tag: str
    dag_id: str
    key: str
    memory_mb: int
    is_ready: bool


@dataclass(frozen=True, kw_only=True)
class DriverMemory:
    """Memory in MB: the limit of all drivers together, the limit of waiting ones, and what runs take."""

    all_mb: int
    warm_mb: int
    running_mb: int = 0

    @property
    def left_mb(self) -> int:
        """What waiting drivers may take now."""
        return max(min(self.warm_mb, self.all_mb - self.running_mb), 0)


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """What to do now. Drivers to be ended have to be gone before one is started: then a new plan is made."""

    end: tuple[str, ...] = ()
    """The tags of these drivers."""
    start: WarmJob | None = None
    too_large: tuple[str, ...] = ()
    """Jobs whose drivers are larger than the limit of waiting ones."""


def choose(waiting: Iterable[WaitingDriver], dag_id: str) -> WaitingDriver | None:
    """Return the oldest ready driver of this job. It gets the job's try, if its key is still the job's."""
    return next((driver for driver in waiting if driver.is_ready and driver.dag_id == dag_id), None)


def plan_pool(
    jobs: Sequence[WarmJob],
    waiting: Sequence[WaitingDriver],
    memory: DriverMemory,
    *,
    may_start: bool = True,
    failing: Collection[str] = (),
) -> PoolPlan:
    """Decide. `jobs` are in the configuration's order, `waiting` oldest first; keys in `failing` have just failed to start."""
    kept = [driver for job in jobs for driver in _of_job(job, waiting)]
    while _needed(kept) > memory.left_mb:
        kept.remove(_least_needed(kept))
    end = tuple(driver.tag for driver in waiting if driver not in kept)
    too_large = tuple(job.dag_id for job in jobs if job.count and job.memory_mb > memory.warm_mb)
    is_busy = bool(end) or not may_start or not all(driver.is_ready for driver in kept)
    start = None if is_busy else _next_job(jobs, kept, memory, failing)
    return PoolPlan(end=end, start=start, too_large=too_large)


def _of_job(job: WarmJob, waiting: Sequence[WaitingDriver]) -> list[WaitingDriver]:
    """The job's drivers, at most as many as it is configured with; ready ones are preferred to starting ones."""
    of_job = [driver for driver in waiting if (driver.dag_id, driver.key) == (job.dag_id, job.key)]
    return list(islice(sorted(of_job, key=lambda driver: not driver.is_ready), job.count))


def _needed(drivers: Iterable[WaitingDriver]) -> int:
    return sum(driver.memory_mb for driver in drivers)


def _least_needed(kept: Sequence[WaitingDriver]) -> WaitingDriver:
    """A driver of the job that has most; among those a starting one, and then one of the later job in the configuration."""
    of_jobs = [driver.dag_id for driver in kept]
    return max(enumerate(kept), key=lambda item: (of_jobs.count(item[1].dag_id), not item[1].is_ready, item[0]))[1]


def _next_job(
    jobs: Sequence[WarmJob], kept: Sequence[WaitingDriver], memory: DriverMemory, failing: Collection[str]
) -> WarmJob | None:
    """The job that has fewest drivers, among those that lack one for which there is room."""
    of_jobs = [driver.dag_id for driver in kept]
    room = memory.left_mb - _needed(kept)
    lacking = [
        job
        for job in jobs
        if of_jobs.count(job.dag_id) < job.count and job.memory_mb <= room and job.key not in failing
    ]
    return min(lacking, key=lambda job: of_jobs.count(job.dag_id), default=None)
