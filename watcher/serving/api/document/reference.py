"""`/docs`: the OpenAPI document as a page to read. It needs no script, no style, and nothing from another machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1>
<p>Version {version}. The whole of it, with all shapes, for programs: <a href="openapi.json">openapi.json</a>.</p>
{sections}</body></html>
"""


@router.get("/docs")
async def reference(request: Request) -> HTMLResponse:
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
