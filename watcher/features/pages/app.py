"""The pages beside the API, which report failures as HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from watcher.features.pages import addresses, static_files
from watcher.features.pages.pages import (
    assets,
    audit,
    events,
    graph,
    jobs,
    lists,
    logs,
    overview,
    problems,
    runs,
    search,
    signing_in,
    timeline,
    watchers,
)
from watcher.features.pages.rendering import error_page

Handler = Callable[[Request, Any], Awaitable[Response]]
_FOR_PROGRAMS: Final = ("/api/", "/execution/")
_NOT_AUTHENTICATED: Final = 401
_PAGES: Final = {
    "/api/v2/watchers/{name}/logs": r"watchers/\1/log",
    "/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}": r"runs/\1/\2/log/\3/\4",
    "/api/v2/audit": "audit",
}
"""The page that shows what a route of the API answers."""
_OF_A_WRITE: Final = re.compile("(^|&)(around|write_id)=")


def add_pages(app: FastAPI) -> None:
    """Add the pages to the application, and show the API's refusals to people as pages."""
    for part in (
        overview,
        problems,
        assets,
        events,
        watchers,
        runs,
        jobs,
        lists,
        logs,
        audit,
        search,
        graph,
        timeline,
        signing_in,
        static_files,
    ):
        app.router.routes.extend(part.router.routes)
    for kind, handler in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _for_people(handler))
    app.router.routes[:] = [_with_links(route) for route in app.router.routes]


def _with_links(route: BaseRoute) -> BaseRoute:
    """Return the route, or one that redirects browsers. Routes are shared by all applications, and none is changed."""
    if not isinstance(route, APIRoute) or route.path not in _PAGES:
        return route
    linked = copy(route)
    linked.app = LogLinks(route.app, route.path)
    return linked


def _for_people(handler: Any) -> Handler:
    """Return a handler that shows the API's refusal as a page in browsers. It redirects people who are not signed in."""

    async def answer(request: Request, error: Any) -> Response:
        response: Response = await handler(request, error)
        if not addresses.is_for_people(request):
            return response
        if response.status_code == _NOT_AUTHENTICATED:
            return await signing_in.ask_to_sign_in(request)
        if request.scope["path"].startswith(_FOR_PROGRAMS):
            return response
        return await error_page(request, response.status_code, json.loads(bytes(response.body))["detail"])

    return answer


class LogLinks:
    """Redirects browsers from a `log_url`, an address of the API, to the page with the same lines."""

    def __init__(self, answer: ASGIApp, path: str) -> None:
        self._answer = answer
        self._path = re.compile(re.sub(r"\{\w+\}", "([^/]+)", path))
        self._page = _PAGES[path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._page_of_write(Request(scope))
        answer = self._answer if page is None else RedirectResponse(page, 303)
        await answer(scope, receive, send)

    def _page_of_write(self, request: Request) -> str | None:
        """Return the page of a `log_url`, or None for other requests. The encoding of its parts is kept."""
        query = request.url.query
        if not addresses.is_for_people(request) or not _OF_A_WRITE.search(query):
            return None
        match = self._path.fullmatch(addresses.raw_path(request))
        return f"{addresses.root(request)}{match.expand(self._page)}?{query}#{addresses.LINE}" if match else None
