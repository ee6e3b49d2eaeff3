"""Which waiting job may start now: pure rules.

Runs start in the order of the queue. A run that waits for memory keeps its place: younger and smaller runs do not overtake
it, or it would wait for ever. A run that needs more memory than there is runs alone. A run that needs no memory of this
machine counts in `parallelism` only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AdmissionLimits:
    """The limits of `settings.scheduler`."""

    parallelism: int
    memory_mb: int
    warm_memory_mb: int
    """The part of `memory_mb` that drivers which wait for their try may take."""

    @classmethod
    def of(
        cls, machine_mb: int, parallelism: int, memory_mb: int | None, warm_memory_mb: int | None
    ) -> AdmissionLimits:
        """Work out the limits that the settings leave open, on a machine with so much memory."""
        memory_mb = memory_mb or machine_mb * 60 // 100
        warm_memory_mb = memory_mb // 2 if warm_memory_mb is None else min(warm_memory_mb, memory_mb)
        return cls(parallelism=parallelism, memory_mb=memory_mb, warm_memory_mb=warm_memory_mb)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Whether the job may start. `sentence` says why it waits, or warns about its start; '' if there is nothing to say."""

    may_start: bool
    sentence: str = ""


def admit(need_mb: int | None, running_mb: Collection[int | None], limits: AdmissionLimits) -> Admission:
    """Decide on the oldest waiting job, given the memory that is reserved for the running ones."""
    if len(running_mb) >= limits.parallelism:
        sentence = f"waits for its turn: settings.scheduler.parallelism lets {limits.parallelism} run at a time"
        return Admission(may_start=False, sentence=sentence)
    used_mb = [memory for memory in running_mb if memory is not None]
    if need_mb is None or sum(used_mb) + need_mb <= limits.memory_mb:
        return Admission(may_start=True)
    limit = f"{limits.memory_mb} MB of settings.scheduler.memory_mb"
    if used_mb:
        sentence = f"waits for memory: it needs {need_mb} MB, and running jobs leave less of the {limit}"
        return Admission(may_start=False, sentence=sentence)
    sentence = (
        f"it needs {need_mb} MB, more than the {limit}: it runs alone; lower its driver_memory, or raise memory_mb"
    )
    return Admission(may_start=True, sentence=sentence)
