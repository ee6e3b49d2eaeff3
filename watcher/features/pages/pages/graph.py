"""The graph: watchers, assets, aliases and jobs as boxes in columns, and curves between them. The server draws the SVG."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from statistics import fmean
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Query, Response

from store.features.pages import graph
from store.features.pages.graph import Edge, Key, Node
from watcher.features.pages.rendering import Pages
from watcher.host.page_paths import path
from watcher.host.states import look_of

router = APIRouter(include_in_schema=False)
_MOST_NODES: Final = 500
WIDTH: Final = 190
HEIGHT: Final = 34
_ACROSS: Final = 250
_DOWN: Final = 50
_MARGIN: Final = 12
_LETTERS: Final = 24
"""Characters of a name that fit into a box."""
_PASSES: Final = 4
"""Passes over the columns. Each moves nodes nearer to their neighbours."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """A node with its coordinates."""

    node: Node
    x: int
    y: int

    @property
    def label(self) -> str:
        name = self.node.name
        return name if len(name) <= _LETTERS else f"{name[: _LETTERS // 2 - 1]}…{name[-_LETTERS // 2 :]}"

    @property
    def page(self) -> str:
        """The node's own page. For an alias, which has none, it is the graph around it."""
        pages = {"watcher": "watchers", "asset": "assets", "job": "jobs"}
        kind = self.node.kind
        return path(pages[kind], self.node.id) if kind in pages else path("graph", around=self.node.name)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """An edge. `line` is the data of an SVG path."""

    line: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The boxes and curves of a graph, and the size of their drawing."""

    boxes: Sequence[Box]
    curves: Sequence[Curve]
    width: int
    height: int


Spot: TypeAlias = Key | tuple[Edge, int]
Cell: TypeAlias = Node | tuple[Edge, int]
"""The content of a place in a column: a node, or an edge that passes through the column."""


@router.get("/graph")
async def whole(
    view: Pages,
    around: Annotated[str | None, Query(max_length=1500)] = None,
    text: Annotated[str, Query(max_length=250)] = "",
    state: Annotated[str | None, Query(max_length=50)] = None,
    fold: Annotated[bool, Query()] = False,
) -> Response:
    """Show the whole graph, or the nodes before and after the node `around`; those that match, and without watchers."""
    async with view.context.database.reading() as connection:
        nodes, edges = await graph.of_all(connection)
    if around is not None:
        nodes, edges = graph.around(nodes, edges, around)
    if fold:
        nodes, edges = graph.folded(nodes, edges)
    states = Counter(node.state for node in nodes if node.state)
    nodes, edges = graph.selected(nodes, edges, text.strip(), state)
    shown, between = failing_part(nodes, edges) if len(nodes) > _MOST_NODES else (nodes, edges)
    drawing = drawn(shown, between) if shown else None
    return view.page(
        "graph.html",
        drawing=drawing,
        nodes=nodes,
        is_part=len(nodes) > _MOST_NODES,
        edges=edges,
        around=around,
        text=text,
        state=state,
        fold=fold or None,
        states=sorted(states.items()),
    )


def failing_part(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return what fails, with what is next to it, as much of it as can be drawn: all nodes are too many for one picture."""
    bad = [node.key for node in nodes if node.state and look_of(node.state).color == "bad"]
    part = graph.beside(nodes, edges, bad)
    while len(part[0]) > _MOST_NODES:
        bad = bad[: len(bad) // 2]
        part = graph.beside(nodes, edges, bad)
    return part


def drawn(nodes: Sequence[Node], edges: Sequence[Edge]) -> Drawing:
    """Return the drawing. Each node is to the right of its predecessors, except in circles, and edges pass between nodes."""
    place = _places(nodes, edges)
    ways = {edge: _way(edge, place) for edge in edges}
    columns = _ordered(_columns(nodes, place, ways), ways)
    spots = {
        _key(cell): (_MARGIN + column * _ACROSS, _MARGIN + row * _DOWN)
        for column, cells in enumerate(columns)
        for row, cell in enumerate(cells)
    }
    return Drawing(
        boxes=[Box(node=node, x=spots[node.key][0], y=spots[node.key][1]) for node in nodes],
        curves=[Curve(line=_line([spots[key] for key in way]), role=edge.role) for edge, way in ways.items()],
        width=2 * _MARGIN + (len(columns) - 1) * _ACROSS + WIDTH,
        height=2 * _MARGIN + (max(map(len, columns)) - 1) * _DOWN + HEIGHT,
    )


def _places(nodes: Sequence[Node], edges: Sequence[Edge]) -> Mapping[Key, int]:
    """Return each node's column by the longest path to it. In a circle the first node comes first, and an edge leads back to it."""
    before: dict[Key, set[Key]] = {node.key: set() for node in nodes}
    for edge in edges:
        if edge.source != edge.target:
            before[edge.target].add(edge.source)
    place: dict[Key, int] = {}
    while len(place) < len(nodes):
        waiting = [key for key in before if key not in place]
        ready = [key for key in waiting if before[key] <= place.keys()] or waiting[:1]
        place |= {
            key: max((place[source] + 1 for source in before[key] if source in place), default=0) for key in ready
        }
    return place


def _way(edge: Edge, place: Mapping[Key, int]) -> Sequence[Spot]:
    """Return the places of an edge: its source, the edge itself in each column between, and its target."""
    between = range(place[edge.source] + 1, place[edge.target])
    return [edge.source, *((edge, column) for column in between), edge.target]


def _columns(nodes: Sequence[Node], place: Mapping[Key, int], ways: Mapping[Edge, Sequence[Spot]]) -> list[list[Cell]]:
    columns: list[list[Cell]] = [[] for _ in range(max(place.values()) + 1)]
    for node in nodes:
        columns[place[node.key]].append(node)
    for edge, way in ways.items():
        for _, column in way[1:-1]:
            columns[int(column)].append((edge, int(column)))
    return columns


def _ordered(columns: list[list[Cell]], ways: Mapping[Edge, Sequence[Spot]]) -> list[list[Cell]]:
    """Sort each column by the mean place of its cells' neighbours, so that few curves cross. Cells without any come last."""
    beside: dict[Spot, list[Spot]] = defaultdict(list)
    for way in ways.values():
        for left, right in pairwise(way):
            beside[left].append(right)
            beside[right].append(left)
    row = {_key(cell): float(line) for column in columns for line, cell in enumerate(column)}
    for _ in range(_PASSES):
        for number, cells in enumerate(columns):
            columns[number] = sorted(cells, key=partial(_mean, row, beside))
            row |= {_key(cell): float(line) for line, cell in enumerate(columns[number])}
    return columns


def _mean(row: Mapping[Spot, float], beside: Mapping[Spot, Sequence[Spot]], cell: Cell) -> float:
    neighbours = beside.get(_key(cell))
    return fmean(row[key] for key in neighbours) if neighbours else inf


def _key(cell: Cell) -> Spot:
    return cell.key if isinstance(cell, Node) else cell


def _line(spots: Sequence[tuple[int, int]]) -> str:
    """Return the path from the right side of the first place, through those between, to the left side of the last."""
    line = ""
    for (x, y), (to_x, to_y) in pairwise(spots):
        start, end = y + HEIGHT // 2, to_y + HEIGHT // 2
        bend = max(abs(to_x - x - WIDTH) // 2, 30)
        line += f"{'L' if line else 'M'}{x + WIDTH} {start}C{x + WIDTH + bend} {start} {to_x - bend} {end} {to_x} {end}"
    return line
