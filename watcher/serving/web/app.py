"""The whole application: the API, and beside it the pages, which tell failures in HTML."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from watcher.serving import api
from watcher.serving.api.context import ApiContext
from watcher.serving.web import addresses, static
from watcher.serving.web.log_links import LogLinks
from watcher.serving.web.pages import assets, audit, graph, jobs, logs, overview, runs, search, signing_in, watchers
from watcher.serving.web.rendering import error_page

Handler = Callable[[Request, Any], Awaitable[Response]]
_FOR_PROGRAMS: Final = ("/api/", "/execution/")
_NOT_AUTHENTICATED: Final = 401


def create_app(context: ApiContext) -> FastAPI:
    """The API with the pages."""
    app = api.create_app(context)
    for part in (overview, assets, watchers, runs, jobs, logs, audit, search, graph, signing_in, static):
        app.router.routes.extend(part.router.routes)
    for kind, handler in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _for_people(handler))
    app.add_middleware(LogLinks)
    return app


def _for_people(handler: Any) -> Handler:
    """What the API would answer, as a page for browsers; who has not signed in is sent to where that is done."""

    async def answer(request: Request, error: Any) -> Response:
        response: Response = await handler(request, error)
        if not addresses.is_for_people(request):
            return response
        if response.status_code == _NOT_AUTHENTICATED:
            return RedirectResponse(addresses.sign_in(request), 303)
        if request.scope["path"].startswith(_FOR_PROGRAMS):
            return response
        return error_page(request, response.status_code, json.loads(bytes(response.body))["detail"])

    return answer
