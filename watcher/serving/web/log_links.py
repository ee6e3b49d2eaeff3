"""`log_url`s are addresses of the API; a browser that opens one is shown the page of the same lines."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from watcher.serving.web import addresses

_PAGES: Final = (
    (re.compile("/api/v2/watchers/([^/]+)/logs"), r"watchers/\1/log"),
    (re.compile("/api/v2/dags/([^/]+)/dagRuns/([^/]+)/taskInstances/([^/]+)/logs/([^/]+)"), r"runs/\1/\2/log/\3/\4"),
    (re.compile("/api/v2/audit"), "audit"),
)
_OF_A_WRITE: Final = re.compile("(^|&)(around|write_id)=")


class LogLinks:
    """Sends browsers from what programs read of a write to what people read of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = _page(Request(scope)) if scope["type"] == "http" and scope["method"] == "GET" else None
        answer = self._app if page is None else RedirectResponse(page, 303)
        await answer(scope, receive, send)


def _page(request: Request) -> str | None:
    """Parts of the address stay as they are encoded."""
    query = request.url.query
    if not addresses.is_for_people(request) or not _OF_A_WRITE.search(query):
        return None
    for pattern, page in _PAGES:
        if match := pattern.fullmatch(addresses.raw_path(request)):
            return f"{addresses.root(request)}{match.expand(page)}?{query}#{addresses.LINE}"
    return None
