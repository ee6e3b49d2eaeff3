"""Hints that something may be due, between tasks of this process. Losing one costs time, never work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Of what something may be due: queues of jobs, tries to start or stop, or watchers; no names mean all of them."""

    what: Literal["queues", "tries", "watchers"]
    names: frozenset[str] = frozenset()


class Wakeup:
    """Anyone sets it; one task waits for it. Hints that come while nobody waits are kept as one."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._names: set[str] | None = set()

    def set(self, names: frozenset[str] = frozenset()) -> None:
        """Wake the waiting task, or keep its next wait short; no names mean all."""
        if not names:
            self._names = None
        elif self._names is not None:
            self._names |= names
        self._event.set()

    async def wait(self, seconds: float) -> frozenset[str]:
        """Return at the next hint, or after so many seconds: the names to look at, none for all."""
        with anyio.move_on_after(max(seconds, 0)):
            await self._event.wait()
        names = self._names if self._event.is_set() else None
        self._event, self._names = anyio.Event(), set()
        return frozenset(names or ())
