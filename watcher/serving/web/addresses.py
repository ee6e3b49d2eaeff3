"""Where each page is. Links are relative, so that they hold behind a proxy that shows us under a path of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import HTTPConnection, Request

from store.base import AssetStoreWriterKind, Writer

LINE: Final = "line"
"""The fragment of the log line that was asked for."""


def is_for_people(request: Request) -> bool:
    """Browsers say that they want HTML; programs do not."""
    return "text/html" in request.headers.get("accept", "")


def root(request: HTTPConnection) -> str:
    """What leads from the address that was asked for to `/`; every link begins with it."""
    return "../" * (raw_path(request).count("/") - 1) or "./"


def raw_path(request: HTTPConnection) -> str:
    """The path as it was asked for, still encoded."""
    path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    return path.partition(b"?")[0].decode("latin-1")


def part(text: object) -> str:
    """One part of a path, whatever is in it."""
    quoted = quote(str(text), safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(quoted, quoted)


def path(*parts: object, **query: object) -> str:
    """An address below the root; what of the query is None is left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/".join(map(part, parts)) + (f"?{urlencode(given)}" if given else "")


def sign_in(request: Request) -> str:
    """Where to sign in, to come back to what was asked for if asking again changes nothing."""
    here = raw_path(request) + (f"?{request.url.query}" if request.url.query else "")
    return root(request) + path("sign-in", next=here if request.method == "GET" and here != "/" else None)


def of_subject(subject: Mapping[str, str]) -> str:
    """The web page of what an alert is about."""
    match subject:
        case {"run_id": run_id, "dag_id": dag_id}:
            return path("runs", dag_id, run_id)
        case {"dag_id": dag_id}:
            return path("jobs", dag_id)
        case {"watcher": name}:
            return path("watchers", name)
    return path("assets")


def of_write(writer: Writer | None) -> str | None:
    """The page with the line of a write; None where nobody knows which line it is."""
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
