"""What the daemon's loops share: hints that something may be due, and survival of passing errors."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal, TypeAlias, TypeVar

import anyio
import structlog

from store.errors import CommitUnknown, DatabaseUnavailable, StoreError
from store.keys import Wake
from triggers.shared.delays import sleep_for

LONGEST_PAUSE: Final = 2.0
"""The longest pause, in seconds, before a retry of what the database interrupted."""

T = TypeVar("T")

log = structlog.get_logger()


HintKind: TypeAlias = Literal["queues", "tries", "watchers", "polls", "configuration", "outbox"]
HintWord: TypeAlias = HintKind | Wake
"""What a hint is about: a word of the kernel's, or one that a feature's hook has returned."""


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A message that something may be due, between tasks and, on PostgreSQL, between processes.

    It concerns queues of jobs, tries to start or stop, watchers, polls that a person asks for, the configuration (named by
    its hash), or the outbox. No names mean all of them, but no polls. A lost hint costs time, never work.
    """

    what: HintWord
    names: frozenset[str] = frozenset()


class Wakeup:
    """A signal that anyone sets and one task waits for. Hints that come while nobody waits are merged into one."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._names: set[str] | None = set()

    def set(self, names: frozenset[str] = frozenset()) -> None:
        """Wake the waiting task, or end its next wait at once. No names mean all."""
        if not names:
            self._names = None
        elif self._names is not None:
            self._names |= names
        self._event.set()

    async def wait(self, seconds: float) -> frozenset[str]:
        """Wait for the next hint, or for so many seconds. Return the names to check; none mean all."""
        with anyio.move_on_after(max(seconds, 0)):
            await self._event.wait()
        names = self._names if self._event.is_set() else None
        self._event, self._names = anyio.Event(), set()
        return frozenset(names or ())


@asynccontextmanager
async def keep_going(event: str) -> AsyncIterator[None]:
    """Log an error and let the loop continue, so that one bad row or a restarting database ends nothing.

    A refusal of the database or the store is logged as one line. Anything else is a bug and has its traceback.
    """
    try:
        yield
    except Exception as error:  # the boundary of a loop that must go on
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  a command that checks submitters opens no database

        if isinstance(error, (OSError, SQLAlchemyError, StoreError)):
            log.error(event, error=str(error), kind=type(error).__name__)  # noqa: TRY400  expected: no traceback
        else:
            log.exception(event, error=str(error), kind=type(error).__name__)


async def insist(event: str, attempt: Callable[[], Awaitable[T]], *, seconds: float = math.inf) -> T:
    """Return what `attempt` returns. It is retried while the database is unavailable; a very busy machine cuts sessions, too.

    An attempt may have taken effect before it is retried. Raises the error of the last attempt after so many seconds.
    """
    give_up_at = anyio.current_time() + seconds
    for attempts in count(1):
        try:
            return await attempt()
        except (CommitUnknown, DatabaseUnavailable) as error:
            if anyio.current_time() >= give_up_at:
                raise
            log.warning(event, error=str(error), kind=type(error).__name__, attempts=attempts)
        await sleep_for(min(0.2 * attempts, LONGEST_PAUSE))
    raise AssertionError
