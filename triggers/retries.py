"""Retries: of stamina, without its lines in logs and terminals, since whoever gives up says what a person should know; of listeners."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

from stamina import AsyncRetryingCaller, retry_context
from stamina.instrumentation import set_on_retry_hooks

from triggers.errors import TriggerError
from triggers.shared.delays import sleep_for

__all__ = ["AsyncRetryingCaller", "backoff", "listen_for_ever", "retry_context"]

set_on_retry_hooks(())

LONGEST_PAUSE: Final = timedelta(minutes=1)
"""The longest pause before a listener that fails is started again."""

Listen: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Listens for hints until it raises or has to be called again, and calls its argument whenever listening works."""


def backoff(failures: int, random: Callable[[], float], *, longest: timedelta) -> timedelta:
    """The pause after so many failures in a row: 1 s doubling to `longest`, a quarter of it jitter. `random` draws from [0, 1)."""
    pause = min(timedelta(seconds=2.0 ** min(failures - 1, 16)), longest)
    return pause * (0.75 + random() / 4)


async def listen_for_ever(listen: Listen, log: Any, event: str) -> None:
    """Keep calling `listen` until cancelled, with a pause after each failure.

    A lost hint costs an interval and nothing else, so nothing that goes wrong ends the listening. Each failure is logged
    as `event`, a bug with its traceback.
    """
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
            await sleep_for(pause)
