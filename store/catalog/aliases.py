"""Asset aliases: what they resolved to, and what came through them.

An event goes exactly to the jobs whose association was committed before it. A lock ensures this: an event's row shares
its asset's key (the foreign key does that), and a new association locks it exclusively. So one of the two waits for the
other's commit, and the queue rows are made by a later statement, which sees it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.paging import PageRequest, ResultPage, begins, like, one_of, page
from store.database.schema import (
    ALIAS_EDGES,
    asset,
    asset_alias,
    asset_alias_asset,
    asset_alias_event,
    database_now,
    job_schedule_alias,
)
from store.errors import Conflict, no_alias
from store.keys import Role

ALIAS_ORDERS: Final = {name: asset_alias.c[name] for name in ("id", "name", "group")}


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The asset that was meant; `created`: nobody had named it before."""

    asset_id: int
    created: bool = False


async def resolve(connection: AsyncConnection, uri: str, name: str, dialect: str) -> Resolved:
    """Return the asset of this normalised uri; make it if there is none, activate it if it was configured once.

    Raises `Conflict` if the name belongs to an asset with another uri.
    """
    times = {"created_at": database_now(), "updated_at": database_now()}
    new = upsert(asset, dialect).values(name=name, uri=uri, group="asset", origin="alias", **times)
    made = (await connection.execute(new.on_conflict_do_nothing().returning(asset.c.id))).scalar_one_or_none()
    if made is not None:
        return Resolved(asset_id=made, created=True)
    of_uri = await connection.execute(select(asset.c.id, asset.c.active).where(asset.c.uri == uri))
    known = of_uri.one_or_none()
    if known is None or await _is_anothers(connection, name, known.id):
        raise Conflict(f"the asset {name!r} has another uri than {uri!r}; give another name, or that uri")
    if not known.active:
        back = update(asset).where(asset.c.id == known.id)
        await connection.execute(back.values(active=True, origin="alias", updated_at=database_now()))
    return Resolved(asset_id=known.id)


async def _is_anothers(connection: AsyncConnection, name: str, asset_id: int) -> bool:
    other = select(asset.c.id).where(asset.c.name == name, asset.c.id != asset_id)
    return (await connection.execute(other)).one_or_none() is not None


async def associate(connection: AsyncConnection, pairs: Collection[tuple[int, int]], dialect: str) -> None:
    """Let aliases resolve to assets from now on; `pairs` are (asset id, alias id).

    Call it before the events are appended.
    """
    r = asset_alias_asset.c
    query = select(r.asset_id, r.alias_id).where(r.asset_id.in_({asset_id for asset_id, _ in pairs}))
    known = {(row.asset_id, row.alias_id) for row in await connection.execute(query)}
    for asset_id, alias_id in sorted(set(pairs) - known):
        await connection.execute(select(asset.c.id).where(asset.c.id == asset_id).with_for_update())
        new = upsert(asset_alias_asset, dialect).values(alias_id=alias_id, asset_id=asset_id)
        await connection.execute(new.on_conflict_do_nothing())


async def remember(connection: AsyncConnection, pairs: Iterable[tuple[int, int]]) -> None:
    """Store which events came through which aliases; `pairs` are (event id, alias id)."""
    if rows := [{"event_id": event_id, "alias_id": alias_id} for event_id, alias_id in pairs]:
        await connection.execute(insert(asset_alias_event), rows)


async def all_resolved_names(connection: AsyncConnection) -> Mapping[str, frozenset[str]]:
    """Return the names of the assets that each alias has resolved to, without aliases that have resolved to none."""
    r = asset_alias_asset.c
    query = select(asset_alias.c.name.label("alias"), asset.c.name)
    query = query.join_from(asset_alias, asset_alias_asset, r.alias_id == asset_alias.c.id)
    names: dict[str, set[str]] = {}
    for row in await connection.execute(query.join(asset, asset.c.id == r.asset_id)):
        names.setdefault(row.alias, set()).add(row.name)
    return {alias: frozenset(of_alias) for alias, of_alias in names.items()}


async def resolved_names(connection: AsyncConnection, dag_id: str) -> Mapping[str, frozenset[str]]:
    """Return the names of the assets that each alias of a job's schedule has resolved to."""
    s, r = job_schedule_alias.c, asset_alias_asset.c
    query = (
        select(asset_alias.c.name.label("alias"), asset.c.name)
        .join_from(job_schedule_alias, asset_alias, asset_alias.c.id == s.alias_id)
        .join(asset_alias_asset, r.alias_id == s.alias_id)
        .join(asset, asset.c.id == r.asset_id)
        .where(s.dag_id == dag_id)
    )
    names: dict[str, set[str]] = {}
    for row in await connection.execute(query):
        names.setdefault(row.alias, set()).add(row.name)
    return {alias: frozenset(of_alias) for alias, of_alias in names.items()}


@dataclass(frozen=True, kw_only=True)
class AliasRow:
    """An alias as the configuration declared it; it is not active once it is no longer configured."""

    id: int
    name: str
    group: str
    active: bool


async def listed(
    connection: AsyncConnection, name_pattern: str | None, name_prefix: str | None, window: PageRequest
) -> ResultPage[AliasRow]:
    """Return a part of the configured aliases."""
    a = asset_alias.c
    query = select(asset_alias).where(a.active, like(a.name, name_pattern), begins(a.name, name_prefix))
    return await page(connection, query, window, ALIAS_ORDERS, AliasRow)


async def get(connection: AsyncConnection, alias_id: int) -> AliasRow:
    """Return one alias, also one that is no longer configured. Raises `NotFound`."""
    return await one_of(
        connection, select(asset_alias).where(asset_alias.c.id == alias_id), AliasRow, no_alias(alias_id)
    )


async def of_job(connection: AsyncConnection, dag_id: str, roles: Collection[Role]) -> Mapping[str, int]:
    """Return the ids of the aliases that a job names in one of the roles (schedule, inlet, outlet)."""
    ids: dict[str, int] = {}
    for role in roles:
        edge = ALIAS_EDGES[role].c
        query = select(asset_alias.c.name, asset_alias.c.id).join(ALIAS_EDGES[role], edge.alias_id == asset_alias.c.id)
        rows = await connection.execute(query.where(edge.dag_id == dag_id).order_by(asset_alias.c.name))
        ids.update({row.name: row.id for row in rows})
    return ids
