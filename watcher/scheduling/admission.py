"""Which waiting job may start now: pure rules.

Runs start in the order they wait in. One that waits for memory keeps its place: younger and smaller ones do not pass it,
or it would wait for ever. One that needs more than there is runs alone. What needs no memory of this machine counts in
`parallelism` only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`settings.scheduler`, with `memory_mb` worked out."""

    parallelism: int
    memory_mb: int
    warm_memory_mb: int | None = None
    """Of it, for drivers that wait for their try; None is half."""

    @classmethod
    def of(cls, machine_mb: int, parallelism: int, memory_mb: int | None, warm_memory_mb: int | None) -> Limits:
        """As the settings give them, on a machine with so much memory."""
        memory_mb = memory_mb or machine_mb * 60 // 100
        return cls(parallelism=parallelism, memory_mb=memory_mb, warm_memory_mb=warm_memory_mb)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """`sentence` says why it waits, or what is to be known of its start; '' when nothing is."""

    may_start: bool
    sentence: str = ""


def admit(need_mb: int | None, running_mb: Collection[int | None], limits: Limits) -> Admission:
    """Judge the oldest waiting job, given what the running ones are reckoned with."""
    if len(running_mb) >= limits.parallelism:
        sentence = f"waits for its turn: settings.scheduler.parallelism lets {limits.parallelism} run at a time"
        return Admission(may_start=False, sentence=sentence)
    used_mb = [memory for memory in running_mb if memory is not None]
    if need_mb is None or sum(used_mb) + need_mb <= limits.memory_mb:
        return Admission(may_start=True)
    limit = f"{limits.memory_mb} MB of settings.scheduler.memory_mb"
    if used_mb:
        sentence = f"waits for memory: it is reckoned with {need_mb} MB, and what runs leaves less of the {limit}"
        return Admission(may_start=False, sentence=sentence)
    sentence = (
        f"it is reckoned with {need_mb} MB, more than the {limit}: it runs alone; lower its driver_memory or raise that"
    )
    return Admission(may_start=True, sentence=sentence)
