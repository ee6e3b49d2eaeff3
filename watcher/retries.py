"""How loops of the daemon outlive a passing error of the database, and how long a failing watcher waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from store.errors import StoreError

LONGEST: Final = timedelta(minutes=5)

log = structlog.get_logger()


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


def backoff(failures: int, random: Callable[[], float]) -> timedelta:
    """The pause after so many failures in a row: 1 s doubling to 5 min, a quarter of it jitter. `random` draws from [0, 1)."""
    pause = min(timedelta(seconds=2.0 ** min(failures - 1, 16)), LONGEST)
    return pause * (0.75 + random() / 4)
