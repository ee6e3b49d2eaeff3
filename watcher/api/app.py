"""The application: every route behind the same guards, every failure told the same way."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watcher.api.context import ApiContext
from watcher.api.errors import ErrorResponse, add_handlers
from watcher.api.execution import ROUTERS
from watcher.api.routes import (
    asset_store,
    assets,
    dags,
    events,
    logs,
    queued_events,
    reload,
    system,
    task_store,
    watchers,
)
from watcher.machine import program_version

CORE_LIMIT: Final = 1_048_576
"""Bytes, beside the value that a request may carry."""
EXECUTION_LIMIT: Final = 16_777_216
"""Bytes. What a job writes has no limit of its own, as in Airflow; this one only protects the daemon's memory."""


def create_app(context: ApiContext) -> FastAPI:
    """The REST API, the Execution API and the probes."""
    app = FastAPI(title="Asset Watcher", version=program_version(), redirect_slashes=False)
    app.state.context = context
    core = APIRouter(prefix="/api/v2")
    # The first that matches wins: `assets/events` before `assets/{asset_id}`.
    resources = (events, queued_events, assets, asset_store, dags, task_store, logs, watchers, reload, system)
    for resource in resources:
        core.include_router(resource.router)
    for router in ROUTERS:  # asked most often, so looked at first
        app.include_router(router, prefix="/execution")
    app.include_router(core)
    app.include_router(system.probes)
    add_handlers(app)
    app.add_middleware(Guards, max_value_bytes=context.max_value_storage_bytes)
    return app


class Guards:
    """What no request gets past, whatever its route: a body that is too large, an address no database can look up."""

    def __init__(self, app: ASGIApp, max_value_bytes: int) -> None:
        self._app = app
        self._core_limit = CORE_LIMIT + max_value_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
            refusal = ErrorResponse({"detail": "the address holds a NUL character; remove it"}, 422)
            await refusal(scope, receive, send)
        else:
            limit = EXECUTION_LIMIT if scope["path"].startswith("/execution/") else self._core_limit
            await self._app(scope, _counted(receive, limit), send)


def _counted(receive: Receive, limit: int) -> Receive:
    """`receive`, ending in 413 as soon as the body is past its limit, whatever length the client announced."""
    size = 0

    async def count() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes; send less")
        return message

    return count
