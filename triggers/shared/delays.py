"""Sleeping for a computed time."""

from __future__ import annotations

import anyio


async def sleep_for(seconds: float) -> None:
    """Sleep for a time that was computed, or only let other tasks run if the moment has passed already.

    An answer that comes late, a slow loop and a process that was suspended make any difference of two times negative, which
    `anyio.sleep` refuses by a `ValueError`. So every delay that is no constant is slept here.
    """
    await anyio.sleep(max(0.0, seconds))
