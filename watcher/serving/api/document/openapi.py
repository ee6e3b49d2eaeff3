"""The OpenAPI document: FastAPI's description of the routes, completed with every refusal that a request can get.

A route documents its success and the refusals that only it has. The other refusals follow from the route's path and
parameters. `/docs` shows the document as a page to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from pydantic.json_schema import models_json_schema

from watcher.serving.api.context import ApiContext
from watcher.serving.api.document.refusals import RESPONSES, SHAPES
from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE, SESSION_COOKIE

_SAFE: Final = {"get", "head"}
_OPEN: Final = ("/healthz", "/readyz", "/metrics")
reference_page = APIRouter(include_in_schema=False)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1>
<p>Version {version}. The complete document with all schemas, for programs: <a href="openapi.json">openapi.json</a>.</p>
{sections}</body></html>
"""


class Documented(FastAPI):
    """An application whose document lists every answer that it may give, and whether people need a token."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete(super().openapi())
        document = super().openapi()
        context: ApiContext | None = self.state.context
        return _without_tokens(document) if context is not None and context.sign_in.auth == "none" else document


def _without_tokens(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of an application that asks nobody but jobs for a token."""
    paths = {
        path: {method: _open(operation) for method, operation in methods.items()}
        if path.startswith("/api/")
        else methods
        for path, methods in document["paths"].items()
    }
    return {**document, "paths": paths}


def _open(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operation with "no token" among what may be sent to it."""
    return {**operation, "security": [*operation["security"], {}]} if "security" in operation else operation


def _complete(document: dict[str, Any]) -> None:
    components = document["components"]
    _, shapes = models_json_schema(
        [(shape, "serialization") for shape in SHAPES], ref_template="#/components/schemas/{model}"
    )
    components["schemas"] |= shapes["$defs"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["responses"] = dict(RESPONSES)
    cookies = {name: {"type": "apiKey", "in": "cookie", "name": name} for name in (SESSION_COOKIE, LOOPBACK_COOKIE)}
    components["securitySchemes"] |= cookies
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method, operation, cookies)


def _complete_operation(path: str, method: str, operation: dict[str, Any], cookies: Mapping[str, Any]) -> None:
    answers = operation["responses"]
    for status in _refusals(path, method, operation):
        if "content" not in answers.get(status, {}) or status == "422":
            of_jobs = f"Job{status}" if path.startswith("/execution/") else status
            name = of_jobs if of_jobs in RESPONSES else status
            answers[status] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = dict(sorted(answers.items()))
    if "security" in operation and path.startswith("/api/"):
        operation["security"] += [{name: []} for name in cookies]


def _refusals(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statuses that follow from a route's path, its parameters, and its own documentation."""
    yield from ("400", "405", "408", "413", "414", "422", "431", "503")
    yield from (status for status in ("404", "409", "502") if status in operation["responses"])
    is_of_jobs, is_signed_in = path.startswith("/execution/"), "security" in operation
    if is_signed_in:
        yield from ("401", "403", "429")
    if not is_of_jobs and path not in _OPEN:
        yield "421"
    if is_of_jobs or "{" in path:
        yield "404"
    if is_of_jobs and method not in _SAFE:
        yield "409"


@reference_page.get("/docs")
async def reference(request: Request) -> HTMLResponse:
    """Show the document as a page. It needs no script, no style, and nothing from another host."""
    return HTMLResponse(_page(request.app.openapi()))


def _page(document: Mapping[str, Any]) -> str:
    by_tag: dict[str, list[str]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].extend(_lines(method.upper(), path, operation))
    sections = (f"<h2>{escape(tag)}</h2>\n<dl>\n{''.join(lines)}</dl>\n" for tag, lines in by_tag.items())
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        sections="".join(sections),
    )


def _lines(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    about = operation.get("description") or operation["summary"]
    query = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    asked = f"<br>Query: {', '.join(f'<code>{escape(name)}</code>' for name in query)}" if query else ""
    yield f"<dt><code>{method} {escape(path)}</code></dt><dd>{escape(about)}{asked}</dd>\n"
