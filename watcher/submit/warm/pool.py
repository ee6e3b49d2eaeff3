"""Which warm drivers to start, to hand over and to end: pure rules.

A job has `spark.warm` drivers waiting, as far as memory allows; one at a time is started, and none while a run is being
started. Waiting drivers take what `settings.scheduler.warm_memory_mb` allows and runs leave of `memory_mb`: a run that
needs memory takes it from them. What is no longer as a job is configured now serves nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, kw_only=True)
class WarmJob:
    """A job that wants drivers; `key` stands for everything that is fixed when its JVM starts."""

    dag_id: str
    key: str
    count: int
    memory_mb: int


@dataclass(frozen=True, kw_only=True)
class WaitingDriver:
    """A driver that no try has."""

    tag: str
    dag_id: str
    key: str
    memory_mb: int
    is_ready: bool


@dataclass(frozen=True, kw_only=True)
class Memory:
    """In MB: of all drivers together, of those that wait, and what runs take."""

    all_mb: int
    warm_mb: int
    running_mb: int = 0

    @property
    def left_mb(self) -> int:
        """What drivers that wait may take now."""
        return max(min(self.warm_mb, self.all_mb - self.running_mb), 0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do now. Nothing is started before what is to be ended is gone: the plan is made again then."""

    end: tuple[str, ...] = ()
    """Tags."""
    start: WarmJob | None = None
    too_large: tuple[str, ...] = ()
    """Jobs of which no driver will ever have room to wait."""


def warm_limit(memory_mb: int, warm_memory_mb: int | None) -> int:
    """`settings.scheduler.warm_memory_mb`, worked out."""
    return memory_mb // 2 if warm_memory_mb is None else min(warm_memory_mb, memory_mb)


def choose(waiting: Iterable[WaitingDriver], dag_id: str) -> WaitingDriver | None:
    """The driver, oldest first, that a try of this job is handed to, if its key still is the job's."""
    return next((driver for driver in waiting if driver.is_ready and driver.dag_id == dag_id), None)


def plan(
    jobs: Sequence[WarmJob],
    waiting: Sequence[WaitingDriver],
    memory: Memory,
    *,
    may_start: bool = True,
    unwell: Collection[str] = (),
) -> Plan:
    """`jobs` in the configuration's order, `waiting` oldest first; drivers with a key in `unwell` have just failed to start."""
    kept = [driver for job in jobs for driver in _of_job(job, waiting)]
    while _needed(kept) > memory.left_mb:
        kept.remove(_least_needed(kept))
    end = tuple(driver.tag for driver in waiting if driver not in kept)
    too_large = tuple(job.dag_id for job in jobs if job.count and job.memory_mb > memory.warm_mb)
    is_busy = bool(end) or not may_start or not all(driver.is_ready for driver in kept)
    start = None if is_busy else _next_job(jobs, kept, memory, unwell)
    return Plan(end=end, start=start, too_large=too_large)


def _of_job(job: WarmJob, waiting: Sequence[WaitingDriver]) -> list[WaitingDriver]:
    """As many as it wants; one that is ready rather than one that starts."""
    of_job = [driver for driver in waiting if (driver.dag_id, driver.key) == (job.dag_id, job.key)]
    return list(islice(sorted(of_job, key=lambda driver: not driver.is_ready), job.count))


def _needed(drivers: Iterable[WaitingDriver]) -> int:
    return sum(driver.memory_mb for driver in drivers)


def _least_needed(kept: Sequence[WaitingDriver]) -> WaitingDriver:
    """Of the job that has most, the later one in the configuration; one that starts rather than one that is ready."""
    of_jobs = [driver.dag_id for driver in kept]
    return max(enumerate(kept), key=lambda item: (of_jobs.count(item[1].dag_id), not item[1].is_ready, item[0]))[1]


def _next_job(
    jobs: Sequence[WarmJob], kept: Sequence[WaitingDriver], memory: Memory, unwell: Collection[str]
) -> WarmJob | None:
    """The one that has fewest, of those for which there is room."""
    of_jobs = [driver.dag_id for driver in kept]
    room = memory.left_mb - _needed(kept)
    lacking = [
        job for job in jobs if of_jobs.count(job.dag_id) < job.count and job.memory_mb <= room and job.key not in unwell
    ]
    return min(lacking, key=lambda job: of_jobs.count(job.dag_id), default=None)
