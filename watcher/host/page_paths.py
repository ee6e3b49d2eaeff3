"""Paths of pages and of the API, encoded, relative to the root."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def part(text: object) -> str:
    """Return any text as one part of a path, encoded."""
    quoted = quote(str(text), safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(quoted, quoted)


def path(*parts: object, **query: object) -> str:
    """Return an address below the root. Query parameters that are None are omitted."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/".join(map(part, parts)) + (f"?{urlencode(given)}" if given else "")
