"""The addresses of the pages. Links are relative, so that they work behind a proxy that serves us under another path."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.requests import HTTPConnection, Request

from store.base import AssetStoreWriterKind, Writer
from watcher.host.page_paths import path

LINE: Final = "line"
"""The fragment of the requested log line."""


def is_for_people(request: Request) -> bool:
    """Whether the client accepts HTML, as browsers do and programs do not."""
    return "text/html" in request.headers.get("accept", "")


def root(request: HTTPConnection) -> str:
    """Return the relative path from the requested address to `/`. Every link begins with it."""
    return "../" * (raw_path(request).count("/") - 1) or "./"


def raw_path(request: HTTPConnection) -> str:
    """Return the requested path, still encoded."""
    path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    return path.partition(b"?")[0].decode("latin-1")


def sign_in(request: Request) -> str:
    """Return the address of the sign-in page, which leads back to the requested page if that was a GET request."""
    here = raw_path(request) + (f"?{request.url.query}" if request.url.query else "")
    return root(request) + path("sign-in", next=here if request.method == "GET" and here != "/" else None)


def of_write(writer: Writer | None) -> str | None:
    """Return the page with the log line of a write, or None if the line is unknown."""
    if writer is None or writer.write_id is None:
        return None
    match writer.kind:
        case AssetStoreWriterKind.WATCHER:
            page = path("watchers", writer.watcher, "log", around=writer.write_id)
        case AssetStoreWriterKind.TASK:
            of_try = ("runs", writer.dag_id, writer.run_id, "log", writer.task_id, writer.try_number)
            page = path(*of_try, around=writer.write_id, map_index=_mapped(writer.map_index))
        case AssetStoreWriterKind.API:
            page = path("audit", write_id=writer.write_id)
    return f"{page}#{LINE}"


def _mapped(map_index: int | None) -> int | None:
    return None if map_index is None or map_index < 0 else map_index
