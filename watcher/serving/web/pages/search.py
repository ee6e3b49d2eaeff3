"""The search page for names, keys, events and write ids."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from store.runs import search
from watcher.serving.api.parameters import storable
from watcher.serving.web.rendering import Pages

router = APIRouter(include_in_schema=False)
_MOST = 20
"""Results of each kind at most."""


@router.get("/search")
async def results(view: Pages, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Show the results for `q`, or none without a text."""
    text = _searchable(q)
    if not text:
        return view.page("search.html", text=q, matches=None)
    async with view.context.database.reading() as connection:
        matches = await search.matches(connection, text, limit=_MOST)
    return view.page("search.html", text=text, matches=matches)


def _searchable(q: str) -> str:
    """Return the text to search for, which is empty if no database can store `q`."""
    try:
        return storable(q.strip())
    except ValueError:
        return ""
