"""The graph: watchers, assets, aliases and jobs, and what leads from one to the other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from store.catalog import graph
from watcher.serving.web.drawing import drawn
from watcher.serving.web.rendering import Pages

router = APIRouter(include_in_schema=False)
_MOST_NODES = 300


@router.get("/graph")
async def whole(view: Pages, around: Annotated[str | None, Query(max_length=1500)] = None) -> Response:
    """All of it, or what lies before and behind the node of this name."""
    async with view.context.database.reading() as connection:
        nodes, edges = await graph.of_all(connection)
    if around is not None:
        nodes, edges = graph.around(nodes, edges, around)
    drawing = drawn(nodes, edges) if 0 < len(nodes) <= _MOST_NODES else None
    return view.page("graph.html", drawing=drawing, nodes=nodes, edges=edges, around=around)
