"""How loops of the daemon outlive a passing error of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from store.errors import StoreError

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
