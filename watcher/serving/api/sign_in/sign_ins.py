"""Tokens that were refused: told to log, audit and metric, and from one address only so many in a minute."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

import anyio
import structlog
from fastapi import HTTPException, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.processes import audit
from watcher.serving.api.context import ApiContext
from watcher.serving.api.errors import UNAVAILABLE

_IN_PASSING: Final = 1.0
"""Seconds that a request spends on what it leaves behind beside its answer."""
REFUSED: Final = "Invalid token: it is unknown, revoked or expired; `watcher token create` makes one"

log = structlog.get_logger()


async def failed(request: Request, context: ApiContext, sentence: str) -> HTTPException:
    """The answer to a token that is refused: 403, or 429 where its client has failed too often.

    What has failed too often is counted by the metric and told no one else: log and audit are not for strangers to fill.
    """
    context.process.metrics.sign_in_failures.inc()
    address = request.client.host if request.client else "unknown"
    wait = context.sign_in.failures.add(address, monotonic())
    if wait is not None:
        seconds = str(math.ceil(wait))
        return HTTPException(
            429, f"too many tokens of this address were refused; wait {seconds} s", headers={"Retry-After": seconds}
        )
    path = request.scope["path"]
    log.warning("api.sign_in_failed", address=address, path=path, method=request.method, reason=sentence)
    detail = {"method": request.method, "path": path[:1000], "reason": sentence}

    async def record(connection: AsyncConnection) -> None:
        await audit.record(connection, "unknown", "sign_in.failed", address, detail)

    await in_passing(context.database, record)
    return HTTPException(403, sentence)


async def in_passing(database: Database, write: Callable[[AsyncConnection], Awaitable[None]]) -> None:
    """A write that nobody misses: when the database is slow or gone, the request is answered without it."""
    try:
        with anyio.move_on_after(_IN_PASSING) as scope:
            async with database.transaction() as connection:
                await write(connection)
    except UNAVAILABLE as error:
        log.warning("api.not_recorded", error=str(error))
    else:
        if scope.cancelled_caught:
            log.warning("api.not_recorded", error="the database was too slow")
