"""Assets with what surrounds them: jobs, watchers, aliases, last event, watermarks. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Literal

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Row,
    Select,
    Subquery,
    and_,
    bindparam,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.paging import PageRequest, ResultPage, all_of, begins, like, one_of, page, shaped
from store.database.schema import (
    ALIAS_EDGES,
    ASSET_EDGES,
    asset,
    asset_alias,
    asset_alias_asset,
    asset_event,
    database_now,
    job,
)
from store.errors import Conflict, no_asset
from store.keys import AssetId, AssetRef, ClockDeadline, EventId, Role

_a, _e = asset.c, asset_event.c
_IDS: Final[BindParameter[int]] = bindparam("b_ids", expanding=True)
ASSET_ORDERS: Final = {name: _a[name] for name in ("id", "name", "uri", "created_at", "updated_at")}


@dataclass(frozen=True, kw_only=True)
class AssetRow:
    """An asset with its newest event, at `seen_at` by the database's clock; `extra` is a JSON object's text."""

    id: AssetId
    name: str
    uri: str
    group: str
    extra: str
    origin: str
    active: bool
    expect_every_seconds: int | None
    expect_by: str | None
    partition_parts: str | None
    created_at: datetime
    updated_at: datetime
    last_event_id: EventId | None
    last_event_at: datetime | None
    seen_at: datetime

    @property
    def ref(self) -> AssetRef:
        """The asset with all its names."""
        return AssetRef(id=self.id, name=self.name, uri=self.uri)

    @property
    def expect_every(self) -> timedelta | None:
        """How often an event is expected; None for never, as for an asset that is no longer configured."""
        seconds = self.expect_every_seconds if self.active else None
        return None if seconds is None else timedelta(seconds=seconds)

    @property
    def due_by(self) -> ClockDeadline | None:
        """The times by which an event is expected; None for none, as for an asset that is no longer configured."""
        return ClockDeadline.from_json(self.expect_by) if self.active and self.expect_by is not None else None

    @property
    def age(self) -> timedelta:
        """The time since its newest event; an asset without events is as old as itself."""
        return max(self.seen_at - (self.last_event_at or self.created_at), timedelta(0))

    @property
    def is_late(self) -> bool:
        return self.expect_every is not None and self.age > self.expect_every


@cache
def _assets() -> Select[Any]:
    newest = select(func.max(_e.id)).where(_e.asset_id == _a.id).scalar_subquery()
    last = asset_event.alias("last_event")
    of_last = (last.c.id.label("last_event_id"), last.c.timestamp.label("last_event_at"))
    now = database_now().label("seen_at")
    return select(asset, *of_last, now).select_from(asset).outerjoin(last, last.c.id == newest)


async def listed(
    connection: AsyncConnection,
    window: PageRequest,
    *,
    name_pattern: str | None = None,
    name_prefix: str | None = None,
    uri_pattern: str | None = None,
    uri_prefix: str | None = None,
    dag_ids: Collection[str] | None = None,
    only_active: bool = True,
) -> ResultPage[AssetRow]:
    """Return a part of the assets. `dag_ids` are jobs that are scheduled on the asset, read it, or update it."""
    names = like(_a.name, name_pattern), begins(_a.name, name_prefix)
    query = _assets().where(*names, like(_a.uri, uri_pattern), begins(_a.uri, uri_prefix))
    if only_active:
        query = query.where(_a.active)
    if dag_ids:
        edge = _edges().c
        query = query.where(_a.id.in_(select(edge.asset_id).where(edge.dag_id.in_(dag_ids))))
    return await page(connection, query, window, ASSET_ORDERS, AssetRow)


async def following(connection: AsyncConnection, name: str | None, *, limit: int) -> Sequence[AssetRow]:
    """Return the active assets behind this name, in order of name; None: from the first on."""
    behind = true() if name is None else _a.name > name
    return await all_of(connection, _assets().where(_a.active, behind).order_by(_a.name).limit(limit), AssetRow)


async def get(connection: AsyncConnection, asset_id: int) -> AssetRow:
    """Return one asset, also one that is no longer configured. Raises `NotFound`."""
    return await one_of(connection, _assets().where(_a.id == asset_id), AssetRow, no_asset(asset_id))


REFERENCE: Final = select(_a.id, _a.name, _a.uri, _a.active).where(_a.id == bindparam("b_asset_id", type_=_a.id.type))


async def reference(connection: AsyncConnection, asset_id: int) -> AssetRef:
    """Return the asset, also one that is no longer configured. Raises `NotFound`."""
    return referred((await connection.execute(REFERENCE, {"b_asset_id": asset_id})).one_or_none(), asset_id)


def referred(row: Row[*tuple[Any, ...]] | None, asset_id: int, *, active: bool = False) -> AssetRef:
    """Return the asset of a row of `REFERENCE`; it must be configured if `active`. Raises `NotFound`, `Conflict`."""
    if row is None:
        raise no_asset(asset_id)
    if active and not row.active:
        raise Conflict(f"the asset {row.name!r} is not active; configure it again to write its store")
    return AssetRef(id=row.id, name=row.name, uri=row.uri)


_EXPECTED: Final = (
    _assets().where(_a.active, _a.expect_every_seconds.is_not(None) | _a.expect_by.is_not(None)).order_by(_a.name)
)


async def expected(connection: AsyncConnection) -> Sequence[AssetRow]:
    """Return the active assets that expect events, by name."""
    return await all_of(connection, _EXPECTED, AssetRow)


async def of_alias(connection: AsyncConnection, alias_id: int) -> Sequence[AssetRow]:
    """Return the active assets that an alias has resolved to, in the order of their ids."""
    r = asset_alias_asset.c
    resolved = select(r.asset_id).where(r.alias_id == alias_id)
    return await all_of(connection, _assets().where(_a.id.in_(resolved), _a.active).order_by(_a.id), AssetRow)


def declared(dag_id: ColumnElement[str] | str, roles: Collection[Role]) -> ColumnElement[bool]:
    """Return the condition that a statement's asset is active and declared by the job in one of the roles.

    The job names the asset, or an alias that resolved to it.
    """
    r = asset_alias_asset.c
    direct = (ASSET_EDGES[role].c for role in roles)
    through = (ALIAS_EDGES[role].c for role in roles)
    return and_(
        _a.active,
        or_(
            *(exists().where(e.dag_id == dag_id, e.asset_id == _a.id) for e in direct),
            *(exists().where(e.dag_id == dag_id, e.alias_id == r.alias_id, r.asset_id == _a.id) for e in through),
        ),
    )


async def named_by_job(
    connection: AsyncConnection, dag_id: str, roles: Collection[Role], *, name: str | None, uri: str | None
) -> tuple[AssetRow, bool]:
    """Return the asset of this name, uri, or both, and whether the job declares it in one of the roles.

    Raises `NotFound`.
    """
    query = _assets().add_columns(declared(dag_id, roles).label("is_declared"))
    given = {_a.name: name, _a.uri: uri}
    query = query.where(*(column == value for column, value in given.items() if value is not None))
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise no_asset(name or uri)
    return shaped({column: row[column] for column in _OF_ASSET}, AssetRow), bool(row["is_declared"])


_OF_ASSET: Final = [field.name for field in fields(AssetRow)]


@dataclass(frozen=True, kw_only=True)
class JobOfAsset:
    """A configured job that is scheduled on an asset, reads or updates it."""

    asset_id: int
    role: Role
    dag_id: str
    task_id: str
    created_at: datetime
    updated_at: datetime


async def jobs_around(connection: AsyncConnection, asset_ids: Collection[int]) -> Sequence[JobOfAsset]:
    """Return the configured jobs around assets, by name."""
    return await all_of(connection, _jobs_around(), JobOfAsset, {"b_ids": list(asset_ids)})


@cache
def _jobs_around() -> Select[Any]:
    edge, j = _edges().c, job.c
    query = select(edge.asset_id, edge.role, j.dag_id, j.task_id, j.created_at, j.updated_at)
    return query.join(job, j.dag_id == edge.dag_id).where(edge.asset_id.in_(_IDS), j.active).order_by(j.dag_id)


@dataclass(frozen=True, kw_only=True)
class AssetOfJob(AssetRef):
    """An active asset that a job is scheduled on, reads or updates."""

    role: Role


async def around_job(connection: AsyncConnection, dag_id: str) -> Sequence[AssetOfJob]:
    """Return the active assets around a job, by name."""
    edge = _edges().c
    query = select(edge.role, _a.id, _a.name, _a.uri).join(asset, _a.id == edge.asset_id)
    return await all_of(connection, query.where(edge.dag_id == dag_id, _a.active).order_by(_a.name), AssetOfJob)


@cache
def _edges() -> Subquery:
    each = [select(edge.c.dag_id, edge.c.asset_id, literal(role).label("role")) for role, edge in ASSET_EDGES.items()]
    return union_all(*each).subquery("edge")


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A configured watcher of an asset, or an alias that resolved to it; only aliases have an id and a group."""

    asset_id: int
    kind: Literal["watcher", "alias"]
    name: str
    id: int | None
    group: str | None


async def attached(connection: AsyncConnection, asset_ids: Collection[int]) -> Sequence[Attached]:
    """Return the watchers of assets, by name, and the aliases that resolved to them, by id."""
    return await all_of(connection, _attached(), Attached, {"b_ids": list(asset_ids)})


@cache
def _attached() -> Select[Any]:
    w, r, s = watcher_assets.configured().subquery("watched").c, asset_alias_asset.c, asset_alias.c
    nothing = (null().label("id"), null().label("group"))
    watchers = select(w.asset_id, literal("watcher").label("kind"), w.name, *nothing)
    aliases = select(r.asset_id, literal("alias"), s.name, s.id, s.group).join(asset_alias, s.id == r.alias_id)
    both = union_all(watchers.where(w.asset_id.in_(_IDS)), aliases.where(r.asset_id.in_(_IDS))).subquery()
    return select(both).order_by(both.c.id, both.c.name)


async def ref_of(
    connection: AsyncConnection, asset_id: int | None = None, *, name: str | None = None, uri: str | None = None
) -> AssetRef:
    """Return the asset that matches all that is given. Raises `NotFound`."""
    given = {_a.id: asset_id, _a.name: name, _a.uri: uri}
    query = select(*given).where(*(column == value for column, value in given.items() if value is not None))
    return await one_of(connection, query, AssetRef, no_asset(name or uri or asset_id))


async def ids_by_name(connection: AsyncConnection) -> Mapping[str, int]:
    """Return the ids of all assets, also of those that are no longer configured."""
    return {row.name: row.id for row in await connection.execute(select(asset.c.name, asset.c.id))}
