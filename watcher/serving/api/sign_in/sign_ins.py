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
from store.processes import audit, sessions, tokens
from watcher.serving.api.context import ApiContext
from watcher.serving.api.errors import UNAVAILABLE
from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE

_IN_PASSING: Final = 1.0
"""Seconds that a request spends on what it leaves behind beside its answer."""
REFUSED: Final = "Invalid token: it is unknown, revoked or expired; `watcher token create` makes one"

log = structlog.get_logger()


async def begin_session(request: Request, context: ApiContext, token: str) -> str:
    """The `Set-Cookie` header of a new session; one that the browser had before ends.

    Raises 421 and 403 for a page of another site, which would sign its visitors in as somebody else, 403 and 429 for a
    token that is refused, and 403 where the browser would not keep the cookie.
    """
    foreign = context.sign_in.site.refusal(request.scope, everybody_may=True)
    if foreign is not None:
        raise HTTPException(foreign.status, foreign.sentence)
    is_plain = context.sign_in.site.cookie_name(request.headers) == LOOPBACK_COOKIE
    if not is_plain and request.headers.get("origin", "").startswith("http:"):
        raise HTTPException(
            403, "a browser signs in over https only, or on localhost; put TLS in front, or use a tunnel"
        )
    session_id = None
    async with context.database.transaction() as connection:
        identity = await tokens.identify(connection, token)
        if identity is not None:
            await sessions.end(connection, context.sign_in.site.session_id(request.headers) or "")
            session_id = await sessions.begin(connection, identity.token_id)
            detail = {"token_id": identity.token_id}
            await audit.record(connection, identity.subject, "session.begin", identity.subject, detail)
    if session_id is None:
        raise await failed(request, context, REFUSED)
    return _cookie(request, context, session_id, sessions.LIFETIME.total_seconds())


async def end_session(request: Request, context: ApiContext) -> str:
    """Sign out: nobody can use the session from now on. Returns the `Set-Cookie` header that takes it from the browser."""
    session_id = context.sign_in.site.session_id(request.headers) or ""
    async with context.database.transaction() as connection:
        identity = await sessions.identify(connection, session_id)
        await sessions.end(connection, session_id)
        if identity is not None:
            await audit.record(connection, identity.subject, "session.end", identity.subject)
    return _cookie(request, context, "", 0)


def _cookie(request: Request, context: ApiContext, session_id: str, seconds: float) -> str:
    name = context.sign_in.site.cookie_name(request.headers)
    secure = "" if name == LOOPBACK_COOKIE else "; Secure"
    return f"{name}={session_id}; Max-Age={seconds:.0f}; Path=/; HttpOnly; SameSite=Lax{secure}"


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
