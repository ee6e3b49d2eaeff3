"""A hint between tasks of this process: something may be due. Losing one costs time, never work."""

from __future__ import annotations

import anyio


class Wakeup:
    """Anyone sets it; one task waits for it. Hints that come while nobody waits are kept as one."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake the waiting task, or keep its next wait short."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Return at the next hint, or after so many seconds."""
        with anyio.move_on_after(max(seconds, 0)):
            await self._event.wait()
        self._event = anyio.Event()
