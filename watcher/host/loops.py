"""What the daemon's loops have in common: hints that something may be due, and how a loop outlives a passing error."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal, TypeAlias, TypeVar

import anyio
import structlog
from sqlalchemy.exc import SQLAlchemyError

from store.errors import CommitUnknown, DatabaseUnavailable, StoreError

LONGEST_PAUSE: Final = 2.0
"""Seconds before what the database cut short is tried again."""

T = TypeVar("T")

log = structlog.get_logger()


HintKind: TypeAlias = Literal["queues", "tries", "watchers", "configuration", "outbox"]


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Something may be due, said between tasks and, on PostgreSQL, processes; losing one costs time, never work.

    Queues of jobs, tries to start or stop, watchers, the configuration (named by its hash), or the outbox; no names mean
    all of them.
    """

    what: HintKind
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


@asynccontextmanager
async def keep_going(event: str) -> AsyncIterator[None]:
    """Log what went wrong and let the loop come round again, so that one bad row or a restarting database ends nothing.

    What the database or the store refused is told in a line; anything else is a bug and comes with its traceback.
    """
    try:
        yield
    except (OSError, SQLAlchemyError, StoreError) as error:
        log.error(event, error=str(error), kind=type(error).__name__)  # noqa: TRY400  expected: no traceback
    except Exception as error:  # the boundary of a loop that must go on
        log.exception(event, error=str(error), kind=type(error).__name__)


async def insist(event: str, attempt: Callable[[], Awaitable[T]], *, seconds: float = math.inf) -> T:
    """What it returns, tried again while the database is unavailable: a machine that is too busy cuts sessions, too.

    An attempt may have taken effect before the next one. Raises what the last one raised, after so many seconds.
    """
    give_up_at = anyio.current_time() + seconds
    for attempts in count(1):
        try:
            return await attempt()
        except (CommitUnknown, DatabaseUnavailable) as error:
            if anyio.current_time() >= give_up_at:
                raise
            log.warning(event, error=str(error), attempts=attempts)
        await anyio.sleep(min(0.2 * attempts, LONGEST_PAUSE))
    raise AssertionError
