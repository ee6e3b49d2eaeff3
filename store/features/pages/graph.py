"""The graph of what is configured: watchers to assets, assets and aliases to jobs, jobs to theirs. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Select, String, case, cast, exists, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.paging import all_of
from store.database.schema import (
    ALIAS_EDGES,
    ASSET_EDGES,
    asset,
    asset_alias,
    asset_alias_asset,
    job,
    queued_event,
    watcher,
)
from store.features.pages.job_states import state_of_job

Kind: TypeAlias = Literal["watcher", "asset", "alias", "job"]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A configured object; `id` is an asset's or an alias's number, a watcher's or a job's name."""

    kind: Kind
    id: str
    name: str
    state: str
    """A watcher's state. For a job `paused`, `running`, `failed` if its newest run that is over did, or `waiting` if its
    queue has events; for an asset `queued` if events of it wait in a queue. '' for all others."""

    @property
    def key(self) -> Key:
        return self.kind, self.id


Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Edge:
    """An edge between two nodes. `role`: how the job names it, `watches`, or `stands for` from an alias."""

    source: Key
    target: Key
    role: str


async def of_all(connection: AsyncConnection) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return everything that is configured, in two statements."""
    nodes = await all_of(connection, _NODES, Node)
    known = {node.key for node in nodes}
    edges = await all_of(connection, _EDGES, _edge)
    return nodes, [edge for edge in edges if {edge.source, edge.target} <= known]


def around(nodes: Sequence[Node], edges: Sequence[Edge], name: str) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return the nodes of this name with everything before and behind them."""
    starts = {node.key for node in nodes if node.name == name}
    forwards, backwards = defaultdict(set), defaultdict(set)
    for edge in edges:
        forwards[edge.source].add(edge.target)
        backwards[edge.target].add(edge.source)
    near = _reached(starts, forwards) | _reached(starts, backwards)
    kept = [edge for edge in edges if edge.source in near and edge.target in near]
    return [node for node in nodes if node.key in near], kept


def selected(
    nodes: Sequence[Node], edges: Sequence[Edge], text: str, state: str | None
) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return the nodes whose name contains the text and that are in the state, with the nodes next to them."""
    if not text and state is None:
        return nodes, edges
    matching = {node.key for node in nodes if text.lower() in node.name.lower() and state in (None, node.state)}
    return beside(nodes, edges, matching)


def beside(
    nodes: Sequence[Node], edges: Sequence[Edge], matching: Collection[Key]
) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return these nodes, the nodes next to them, and the edges between those."""
    kept = [edge for edge in edges if edge.source in matching or edge.target in matching]
    near = {*matching, *(key for edge in kept for key in (edge.source, edge.target))}
    return [node for node in nodes if node.key in near], kept


def folded(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[Sequence[Node], Sequence[Edge]]:
    """Return the graph without watchers. An asset has the state of its first watcher that does not work."""
    bad = {node.key: node.state for node in nodes if node.kind == "watcher" and node.state not in _GOOD}
    of_asset = {edge.target: bad[edge.source] for edge in reversed(edges) if edge.source in bad}
    kept = [replace(node, state=of_asset.get(node.key, node.state)) for node in nodes if node.kind != "watcher"]
    return kept, [edge for edge in edges if edge.role != "watches"]


_GOOD: Final = frozenset({"running", "starting", "stopped"})


def _reached(starts: set[Key], following: Mapping[Key, set[Key]]) -> set[Key]:
    reached, ahead = set(starts), list(starts)
    while ahead:
        new = following.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached


def _node(kind: Kind, identity: Any, name: Any, active: Any, state: Any) -> Select[Any]:
    shown = (literal(kind).label("kind"), cast(identity, String).label("id"), name.label("name"), state.label("state"))
    return select(*shown).where(active)


def _paused(column: ColumnElement[bool], otherwise: Any) -> ColumnElement[str]:
    return case((column, "paused"), else_=otherwise)


@cache
def _nodes() -> Select[Any]:
    w, a, s, j, q = watcher.c, asset.c, asset_alias.c, job.c, queued_event.c
    parts = (
        _node("watcher", w.name, w.name, w.active, _paused(w.paused, w.state)),
        _node("asset", a.id, a.name, a.active, case((exists().where(q.asset_id == a.id), "queued"), else_="")),
        _node("alias", s.id, s.name, s.active, literal("")),
        _node("job", j.dag_id, j.dag_id, j.active, state_of_job("")),
    )
    every = union_all(*parts).subquery("node")
    return select(every).order_by(every.c.kind, every.c.name)


def _pair(source: tuple[str, Any], target: tuple[str, Any], role: str) -> Select[Any]:
    (from_kind, from_id), (to_kind, to_id) = source, target
    ends = (literal(from_kind).label("from_kind"), cast(from_id, String).label("from_id"))
    other = (literal(to_kind).label("to_kind"), cast(to_id, String).label("to_id"))
    columns: list[Any] = [*ends, *other, literal(role).label("role")]
    return select(*columns)


@cache
def _edges() -> Select[Any]:
    r = asset_alias_asset.c
    watched = watcher_assets.configured().subquery("watched").c
    parts = [_pair(("watcher", watched.name), ("asset", watched.asset_id), "watches")]
    parts.append(_pair(("asset", r.asset_id), ("alias", r.alias_id), "stands for"))
    tables: tuple[tuple[Kind, str, Mapping[Any, Any]], ...] = (
        ("asset", "asset_id", ASSET_EDGES),
        ("alias", "alias_id", ALIAS_EDGES),
    )
    for kind, column, by_role in tables:
        for role, table in by_role.items():
            named, of_job = (kind, table.c[column]), ("job", table.c.dag_id)
            parts.append(_pair(of_job, named, role) if role == "outlet" else _pair(named, of_job, role))
    every = union_all(*parts).subquery("edge")
    return select(every).order_by(every.c.from_kind, every.c.from_id, every.c.to_kind, every.c.to_id)


def _edge(*, from_kind: str, from_id: str, to_kind: str, to_id: str, role: str) -> Edge:
    return Edge(source=(from_kind, from_id), target=(to_kind, to_id), role=role)


_NODES: Final = _nodes()
_EDGES: Final = _edges()
