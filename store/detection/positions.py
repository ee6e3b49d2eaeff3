"""Positions: where each watcher stands, who owns it, and the fence that keeps others from moving it.

The first statement of every commit is `advance`: a conditional update on (epoch, version). It is the lock and the
fence. Take-over raises the epoch before anyone reads the position; a rewind raises the version.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    and_,
    bindparam,
    cast,
    exists,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningUpdate

from store.database.dialects import each_pair, upsert
from store.database.schema import UNDO_SUFFIX, database_now, triggerer, watcher_position
from store.detection import rejections
from store.detection.position_chunks import stored_chunks
from store.detection.position_rows import UNCHANGED, RowDifferences, stored_rows
from store.detection.rejections import Rejection


@dataclass(frozen=True, kw_only=True)
class HeldPosition:
    """A position as its owner last saw it; the next commit must still find its (epoch, version)."""

    watcher: str
    owner: str
    epoch: int
    version: int


FIRST_FORMAT: Final = 1
"""The format of states that were stored before formats were counted."""


@dataclass(frozen=True, kw_only=True)
class KeptPosition:
    """The position before a rewind, while that can be undone. `state` is JSON text, None if nothing was committed."""

    state: str | None
    rows: Mapping[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedPosition:
    """A position read whole: `state` and `source_identity` are JSON texts, None until the first commit."""

    held: HeldPosition
    source_identity: str | None
    state: str | None
    rows: Mapping[int, int]
    rejected: Sequence[Rejection] = ()
    """Items that could not be reported."""
    kept: KeptPosition | None = None
    chunks: Mapping[int, bytes] = field(default_factory=dict)


async def claim(
    connection: AsyncConnection, watcher: str, owner: str, dialect: str, format_: int = FIRST_FORMAT
) -> LoadedPosition | None:
    """Call `claim_all` for one position."""
    return (await claim_all(connection, {watcher: format_}, owner, dialect)).get(watcher)


async def claim_all(
    connection: AsyncConnection, formats: Mapping[str, int], owner: str, dialect: str
) -> Mapping[str, LoadedPosition]:
    """Take positions over for a triggerer and read them: those that no other living triggerer owns.

    `formats` gives for each watcher the newest format of a state that its class reads; what was stored in a newer one
    is left to other triggerers. Every claim raises the epoch, also of a position that was ours: a past commit whose
    outcome is unknown can never land after it. One statement claims. The large sets may be read after it, in its
    transaction or not, because whatever moves a position loses our epoch or changes its version.
    """
    p, asked = watcher_position.c, each_pair("b_formats", dialect)
    format_ = cast(asked.c.value, Integer)
    others = exists().where(p.watcher == asked.c.key, or_(_is_kept(owner), _is_newer(format_)))
    names = select(asked.c.key, literal(owner), literal(1), format_).where(~others).order_by(asked.c.key)
    new = upsert(watcher_position, dialect).from_select(["watcher", "owner", "epoch", "format"], names)
    claims = new.on_conflict_do_update(
        index_elements=["watcher"],
        set_={"owner": owner, "epoch": p.epoch + 1},
        where=~or_(_is_kept(owner), _is_newer(new.excluded.format)),
    )
    claimed = claims.returning(p.watcher, p.epoch, p.version, p.source_identity, p.state, p.previous)
    rows = {row.watcher: row for row in await connection.execute(claimed, {"b_formats": json.dumps(dict(formats))})}
    return await _whole(connection, rows, dict.fromkeys(rows, owner))


def _is_kept(owner: str) -> ColumnElement[bool]:
    """Another living triggerer owns it.

    In an upsert's condition SQLAlchemy correlates nothing, so the column is named.
    """
    p, t = watcher_position.c, triggerer.c
    of_position = t.id == literal_column("watcher_position.owner")
    return and_(p.owner.is_not(None), p.owner != owner, exists().where(of_position, t.expires_at > database_now()))


def _is_newer(format_: ColumnElement[int]) -> ColumnElement[bool]:
    return and_(watcher_position.c.state.is_not(None), watcher_position.c.format > format_)


async def formats(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, int]:
    """Return the format in which the states of these watchers are stored, of those that have one."""
    p = watcher_position.c
    query = select(p.watcher, p.format).where(p.watcher.in_(watchers), p.state.is_not(None))
    return {row.watcher: row.format for row in await connection.execute(query)}


async def release(connection: AsyncConnection, owner: str, watchers: Collection[str] | None = None) -> frozenset[str]:
    """Release positions, so that another triggerer may take them at once; return whose they were.

    `watchers` None: all that this owner holds.
    """
    p = watcher_position.c
    mine = p.owner == owner if watchers is None else and_(p.owner == owner, p.watcher.in_(watchers))
    released = await connection.execute(update(watcher_position).where(mine).values(owner=None).returning(p.watcher))
    return frozenset(released.scalars())


@dataclass(frozen=True, kw_only=True)
class NewPosition:
    """Where a watcher continues. The texts are JSON; `format` counts how its class has written `state`."""

    COLUMNS: ClassVar = ("source_identity", "format", "state", "watermark")

    source_identity: str
    state: str
    watermark: str
    format: int = FIRST_FORMAT
    rows: RowDifferences = UNCHANGED

    @property
    def columns(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self.COLUMNS}


@cache
def advance() -> ReturningUpdate[Any]:
    """Move a position one version on, if it is the one that is held (`b_watcher`, `b_epoch`, `b_version`).

    It is the first statement of a commit: the lock and the fence. What an undo goes back to stays; see
    `rewind.end_undo`.
    """
    return _fenced({name: bindparam(f"b_{name}") for name in NewPosition.COLUMNS})


@cache
def keep() -> ReturningUpdate[Any]:
    """Store a newer state at the same place, like `advance`. The watermark stays, and what an undo goes back to."""
    return _fenced({name: bindparam(f"b_{name}") for name in ("format", "state")})


def _fenced(content: Mapping[str, Any]) -> ReturningUpdate[Any]:
    p = watcher_position.c
    held = (p.watcher == bindparam("b_watcher"), p.epoch == bindparam("b_epoch"), p.version == bindparam("b_version"))
    return update(watcher_position).where(*held).values({**content, **_moved()}).returning(p.version)


def advance_all(given: FromClause, *, skip_locked: bool) -> ReturningUpdate[Any]:
    """Return PostgreSQL's `advance` for the positions of `given`; it returns the columns of those that moved.

    Positions are locked in order of name. One that somebody else has locked is waited for, or skipped.
    """
    p = watcher_position.c
    held = (p.watcher == given.c.watcher, p.epoch == given.c.epoch, p.version == given.c.version)
    free = select(*given.c).join_from(watcher_position, given, and_(*held)).order_by(p.watcher)
    locked = free.with_for_update(of=watcher_position, skip_locked=skip_locked).cte("locked").c
    content = {name: locked[name] for name in NewPosition.COLUMNS}
    moved = update(watcher_position).where(p.watcher == locked.watcher).values({**content, **_moved()})
    return moved.returning(locked.watcher, locked.asset_id, locked.key, p.version)


def _moved() -> dict[str, Any]:
    return {"version": watcher_position.c.version + 1, "updated_at": database_now()}


def parameters(held: HeldPosition, position: NewPosition) -> dict[str, Any]:
    """Return the parameters of `advance` and `keep`."""
    place = {"b_watcher": held.watcher, "b_epoch": held.epoch, "b_version": held.version}
    return {**place, **{f"b_{name}": text for name, text in position.columns.items()}}


async def held_by(connection: AsyncConnection, owner: str) -> Mapping[str, HeldPosition]:
    """Return all positions that a triggerer holds, by watcher."""
    p = watcher_position.c
    rows = await connection.execute(select(p.watcher, p.owner, p.epoch, p.version).where(p.owner == owner))
    return {
        row.watcher: HeldPosition(watcher=row.watcher, owner=row.owner, epoch=row.epoch, version=row.version)
        for row in rows
    }


async def unbegun(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, str | None]:
    """Return those of these watchers that have committed nothing so far, each with its owner."""
    p = watcher_position.c
    rows = await connection.execute(select(p.watcher, p.owner, p.state.is_not(None).label("has_begun")))
    owners: dict[str, str | None] = dict.fromkeys(watchers)
    for row in rows:
        if row.has_begun:
            owners.pop(row.watcher, None)
        elif row.watcher in owners:
            owners[row.watcher] = row.owner
    return owners


async def identities(connection: AsyncConnection) -> Mapping[str, str]:
    """Return the source identities, as JSON, of the watchers that have a position, by name."""
    p = watcher_position.c
    query = select(p.watcher, p.source_identity).where(p.state.is_not(None)).order_by(p.watcher)
    return {row.watcher: row.source_identity for row in await connection.execute(query)}


async def read(connection: AsyncConnection, watcher: str) -> LoadedPosition | None:
    """Return a position as it stands, whoever holds it; None if the watcher has never been started."""
    row = (await connection.execute(_position_of(watcher))).one_or_none()
    if row is None:
        return None
    return (await _whole(connection, {watcher: row}, {watcher: row.owner or ""}))[watcher]


async def read_without_rows(connection: AsyncConnection, watcher: str) -> LoadedPosition | None:
    """Return a position like `read`, without what is stored beside it."""
    row = (await connection.execute(_position_of(watcher))).one_or_none()
    return None if row is None else _loaded(watcher, row, row.owner or "")


def _position_of(watcher: str) -> Select[Any]:
    p = watcher_position.c
    columns = (p.owner, p.epoch, p.version, p.source_identity, p.state, p.previous)
    return select(*columns).where(p.watcher == watcher)


def _loaded(
    watcher: str,
    row: Any,
    owner: str,
    rows: Mapping[int, int] = {},
    rejected: Sequence[Rejection] = (),
    kept: KeptPosition | None = None,
    chunks: Mapping[int, bytes] = {},
) -> LoadedPosition:
    return LoadedPosition(
        held=HeldPosition(watcher=watcher, owner=owner, epoch=row.epoch, version=row.version),
        source_identity=row.source_identity,
        state=row.state,
        rows=rows,
        rejected=rejected,
        kept=kept,
        chunks=chunks,
    )


async def _whole(
    connection: AsyncConnection, rows: Mapping[str, Any], owners: Mapping[str, str]
) -> Mapping[str, LoadedPosition]:
    """Return the positions of these rows, with what is stored beside them."""
    previous = {name: json.loads(row.previous) for name, row in rows.items() if row.previous is not None}
    sets = await stored_rows(connection, [*rows, *(name + UNDO_SUFFIX for name in previous)])
    kept = {
        name: KeptPosition(state=each["state"], rows=sets.get(name + UNDO_SUFFIX, {}))
        for name, each in previous.items()
    }
    chunks = await stored_chunks(connection, rows)
    rejected = await rejections.of_watchers(connection, rows)
    return {
        name: _loaded(
            name, row, owners[name], sets.get(name, {}), rejected.get(name, ()), kept.get(name), chunks.get(name, {})
        )
        for name, row in rows.items()
    }
