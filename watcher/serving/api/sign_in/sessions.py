"""Signing in to the web pages: a token is exchanged for a session, whose id the browser keeps in a cookie.

Whoever has the cookie acts as the token's subject in its role, under the rules of `same_site`.
"""

from __future__ import annotations

from fastapi import HTTPException, Request

from store.processes import audit, tokens
from watcher.serving.api.context import ApiContext
from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE
from watcher.serving.api.sign_in.sign_ins import REFUSED, failed


async def begin(request: Request, context: ApiContext, token: str) -> str:
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
            await tokens.end_session(connection, context.sign_in.site.session_id(request.headers) or "")
            session_id = await tokens.begin_session(connection, identity.token_id)
            detail = {"token_id": identity.token_id}
            await audit.record(connection, identity.subject, "session.begin", identity.subject, detail)
    if session_id is None:
        raise await failed(request, context, REFUSED)
    return _cookie(request, context, session_id, tokens.SESSION_LIFETIME.total_seconds())


async def end(request: Request, context: ApiContext) -> str:
    """Sign out: nobody can use the session from now on. Returns the `Set-Cookie` header that takes it from the browser."""
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
