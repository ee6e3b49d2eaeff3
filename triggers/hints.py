"""Hints: a source says by itself that something may be new, so that a poll need not wait for its interval.

A hint that is lost costs an interval and nothing else. So whatever goes wrong with listening is logged, and tried again
for ever.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio

from triggers.errors import TriggerError

LONGEST_PAUSE: Final = timedelta(minutes=1)

Listen: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Listens until it raises or has to be called again, and calls its argument whenever listening works."""


def backoff(failures: int, random: Callable[[], float], *, longest: timedelta) -> timedelta:
    """The pause after so many failures in a row: 1 s doubling to `longest`, a quarter of it jitter. `random` draws from [0, 1)."""
    pause = min(timedelta(seconds=2.0 ** min(failures - 1, 16)), longest)
    return pause * (0.75 + random() / 4)


async def listen_for_ever(listen: Listen, log: Any, event: str) -> None:
    """Until cancelled. Nothing that goes wrong leaves it: it is logged as `event`, a bug with its traceback."""
    failures = 0

    def works() -> None:
        nonlocal failures
        failures = 0

    while True:
        try:
            await listen(works)
        except Exception as error:
            failures += 1
            pause = backoff(failures, random.random, longest=LONGEST_PAUSE).total_seconds()
            unexpected = not isinstance(error, TriggerError)
            log.warning(event, error=str(error), retry_in=round(pause, 1), exc_info=unexpected)
            await anyio.sleep(pause)
