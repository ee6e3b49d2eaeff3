"""Sign-ins: browsers exchange a token for a session, and refused tokens are logged, audited, counted and limited.

A session's id is kept in a cookie. Whoever has the cookie acts as the token's subject in its role, under the rules of
`same_site`.
"""

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
from store.processes import audit, tokens
from watcher.serving.api.context import ApiContext
from watcher.serving.api.errors import UNAVAILABLE
from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE

_OPTIONAL_WRITE_TIMEOUT: Final = 1.0
"""Seconds that a request waits for a write that its answer does not depend on."""
REFUSED: Final = "Invalid token: it is unknown, revoked or expired; create a new one with `watcher token create`"
REFUSED_LINK: Final = (
    "The link was used before, or is older than five minutes; make a new one with `watcher sign-in-link`"
)

log = structlog.get_logger()


async def begin_session(request: Request, context: ApiContext, secret: str, *, of_link: bool = False) -> str:
    """Begin a session, end the browser's previous one, and return the `Set-Cookie` header.

    `secret` is a token, or that of a link, which is used up.

    Raise 421 or 403 for a page of another site, which would sign its visitors in as somebody else, 403 or 429 for a refused
    token, and 403 where the browser would not keep the cookie.
    """
    foreign = context.sign_in.site.refusal(request.scope, everybody_may=True)
    if foreign is not None:
        raise HTTPException(foreign.status, foreign.sentence)
    is_plain = context.sign_in.site.cookie_name(request.headers) == LOOPBACK_COOKIE
    if not is_plain and request.headers.get("origin", "").startswith("http:"):
        raise HTTPException(
            403, "browsers can sign in only over https or on localhost; put a proxy with TLS in front, or use a tunnel"
        )
    session_id = None
    async with context.database.transaction() as connection:
        identity = await (tokens.redeem_link if of_link else tokens.identify)(connection, secret)
        if identity is not None:
            await tokens.end_session(connection, context.sign_in.site.session_id(request.headers) or "")
            session_id = await tokens.begin_session(connection, identity.token_id)
            detail = {"token_id": identity.token_id}
            await audit.record(connection, identity.subject, "session.begin", identity.subject, detail)
    if session_id is None:
        raise await refused_token(request, context, REFUSED_LINK if of_link else REFUSED)
    return _cookie(request, context, session_id, tokens.SESSION_LIFETIME.total_seconds())


async def end_session(request: Request, context: ApiContext) -> str:
    """Sign out: end the session, and return the `Set-Cookie` header that removes it from the browser."""
    session_id = context.sign_in.site.session_id(request.headers) or ""
    async with context.database.transaction() as connection:
        identity = await tokens.identify_session(connection, session_id)
        await tokens.end_session(connection, session_id)
        if identity is not None:
            await audit.record(connection, identity.subject, "session.end", identity.subject)
    return _cookie(request, context, "", 0)


def _cookie(request: Request, context: ApiContext, session_id: str, seconds: float) -> str:
    name = context.sign_in.site.cookie_name(request.headers)
    secure = "" if name == LOOPBACK_COOKIE else "; Secure"
    return f"{name}={session_id}; Max-Age={seconds:.0f}; Path=/; HttpOnly; SameSite=Lax{secure}"


async def refused_token(request: Request, context: ApiContext, sentence: str) -> HTTPException:
    """Return the answer to a refused token: 403, or 429 when its client has failed too often.

    After too many failures only the metric counts, so that strangers cannot fill the log and the audit.
    """
    context.process.metrics.sign_in_failures.inc()
    address = request.client.host if request.client else "unknown"
    wait = context.sign_in.failures.add(address, monotonic())
    if wait is not None:
        seconds = str(math.ceil(wait))
        return HTTPException(
            429, f"too many tokens from this address were refused; wait {seconds} s", headers={"Retry-After": seconds}
        )
    path = request.scope["path"]
    log.warning("api.sign_in_failed", address=address, path=path, method=request.method, reason=sentence)
    detail = {"method": request.method, "path": path[:1000], "reason": sentence}

    async def record(connection: AsyncConnection) -> None:
        await audit.record(connection, "unknown", "sign_in.failed", address, detail)

    await optional_write(context.database, record)
    return HTTPException(403, sentence)


async def optional_write(database: Database, write: Callable[[AsyncConnection], Awaitable[None]]) -> None:
    """Make a write that may be lost: when the database is slow or unreachable, the request is answered without it."""
    try:
        with anyio.move_on_after(_OPTIONAL_WRITE_TIMEOUT) as scope:
            async with database.transaction() as connection:
                await write(connection)
    except UNAVAILABLE as error:
        log.warning("api.not_recorded", error=str(error), kind=type(error).__name__)
    else:
        if scope.cancelled_caught:
            log.warning("api.not_recorded", error="the database was too slow")
