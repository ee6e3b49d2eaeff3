"""Which waiting job may start now: pure rules.

Runs start in the order they wait in. One that waits for memory keeps its place: younger and smaller ones do not pass it,
or it would wait for ever. One that needs more than there is runs alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

USUAL_HEAP_MB: Final = 512
"""The default of `driver_memory`, for which `driver_memory_mb` reckons."""
_UNITS_MB: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`settings.scheduler`, with `memory_mb` worked out."""

    parallelism: int
    memory_mb: int
    driver_memory_mb: int

    def need_mb(self, driver_memory: str) -> int:
        """What a driver with this heap (`512m`, `2g`) is reckoned with: by how much it is larger than usual comes on top."""
        heap_mb = int(driver_memory[:-1]) * _UNITS_MB[driver_memory[-1].lower()]
        return self.driver_memory_mb + max(0, round(heap_mb) - USUAL_HEAP_MB)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """`sentence` says why it waits, or what is to be known of its start; '' when nothing is."""

    may_start: bool
    sentence: str = ""


def admit(need_mb: int, running_mb: Collection[int], limits: Limits) -> Admission:
    """Judge the oldest waiting job, given what the running ones are reckoned with."""
    if len(running_mb) >= limits.parallelism:
        sentence = f"waits for its turn: settings.scheduler.parallelism lets {limits.parallelism} run at a time"
        return Admission(may_start=False, sentence=sentence)
    if sum(running_mb) + need_mb <= limits.memory_mb:
        return Admission(may_start=True)
    limit = f"{limits.memory_mb} MB of settings.scheduler.memory_mb"
    if running_mb:
        sentence = f"waits for memory: it is reckoned with {need_mb} MB, and what runs leaves less of the {limit}"
        return Admission(may_start=False, sentence=sentence)
    sentence = (
        f"it is reckoned with {need_mb} MB, more than the {limit}: it runs alone; lower its driver_memory or raise that"
    )
    return Admission(may_start=True, sentence=sentence)
