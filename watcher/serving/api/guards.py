"""Checks that every request passes, whatever its route, before its body is read or the database is asked."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watcher.serving.api.context import ApiContext
from watcher.serving.api.errors import UNAVAILABLE, ErrorResponse, unavailable
from watcher.serving.api.sign_in.auth import sign_in


class Guards:
    """Refuses addresses that no database can look up, requests of other sites, and bodies that are too large.

    A body is kept only after its sender has signed in, so that strangers cannot fill the memory.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context: ApiContext = scope["app"].state.context
        limit = _limit(context, scope["path"])
        refused = _refusal(context, scope, limit)
        if refused is not None:
            await refused(scope, receive, send)
        else:
            await self._app(scope, _guarded(scope, receive, limit), send)


def _limit(context: ApiContext, path: str) -> int:
    """Return how many bytes a body may have."""
    if path.startswith("/execution/"):
        return context.limits.execution_body_bytes
    return context.limits.body_bytes + context.limits.max_value_storage_bytes


def _refusal(context: ApiContext, scope: Scope, limit: int) -> ErrorResponse | None:
    if "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
        return ErrorResponse({"detail": "the address contains a NUL character; remove it"}, 422)
    foreign = context.sign_in.site.refusal(scope, everybody_may=context.sign_in.auth == "none")
    if foreign is not None:
        return ErrorResponse({"detail": foreign.sentence}, foreign.status)
    length = Headers(scope=scope).get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        return ErrorResponse({"detail": _too_large(limit)}, 413)
    return None


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit} bytes; send less"


def _guarded(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Return a `receive` that raises 413 as soon as the body exceeds its limit, or the refusal of its sender.

    The body of a stranger is counted and discarded. The limit is checked before the token.
    """
    size, is_known = 0, False
    refused: HTTPException | None = None

    async def receive_guarded() -> Message:
        nonlocal size, refused, is_known
        if not is_known:
            is_known = True
            try:
                await sign_in(scope)
            except HTTPException as error:
                refused = error
            except UNAVAILABLE as error:  # FastAPI would report it as an error in the body
                refused = unavailable(scope, error)
        while True:
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, _too_large(limit))
            if refused is None:
                return message
            if not message.get("more_body"):
                raise refused

    return receive_guarded
