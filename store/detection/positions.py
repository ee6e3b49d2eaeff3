"""Positions: where each watcher stands, who owns it, and the fence that keeps everybody else from moving it.

The first statement of every commit is `advance`: a conditional update on (epoch, version). It is the lock and the fence.
Take-over raises the epoch before anyone reads the position; a rewind raises the version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from sqlalchemy import FromClause, and_, bindparam, delete, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningUpdate

from store.database.dialects import chunks, upsert
from store.database.schema import database_now, triggerer, watcher_position, watcher_position_row


@dataclass(frozen=True, kw_only=True)
class HeldPosition:
    """A position as its owner last saw it; (epoch, version) is what the next commit must still find."""

    watcher: str
    owner: str
    epoch: int
    version: int


@dataclass(frozen=True, kw_only=True)
class LoadedPosition:
    """A position read whole: `state` and `source_identity` are JSON texts, None until the first commit."""

    held: HeldPosition
    source_identity: str | None
    state: str | None
    rows: Mapping[int, int]


async def claim(connection: AsyncConnection, watcher: str, owner: str, dialect: str) -> LoadedPosition | None:
    """Take the position over for a triggerer and read it; None while another living triggerer owns it.

    Every claim raises the epoch, also of a position that was ours: a commit of the past whose outcome is unknown can
    never land after it.
    """
    await connection.execute(upsert(watcher_position, dialect).values(watcher=watcher).on_conflict_do_nothing())
    p = watcher_position.c
    owner_lives = exists().where(triggerer.c.id == p.owner, triggerer.c.expires_at > database_now())
    free = or_(p.owner.is_(None), p.owner == owner, ~owner_lives)
    taken = await connection.execute(
        update(watcher_position)
        .where(p.watcher == watcher, free)
        .values(owner=owner, epoch=p.epoch + 1)
        .returning(p.epoch, p.version, p.source_identity, p.state)
    )
    return await _loaded(connection, watcher, owner, taken.one_or_none())


async def release(connection: AsyncConnection, owner: str, watchers: Collection[str] | None = None) -> None:
    """Give positions up, so that another triggerer may take them at once; None: all that this owner holds."""
    mine = watcher_position.c.owner == owner
    if watchers is not None:
        mine = and_(mine, watcher_position.c.watcher.in_(watchers))
    await connection.execute(update(watcher_position).where(mine).values(owner=None))


@dataclass(frozen=True, kw_only=True)
class RowDifferences:
    """How a watcher's large set changes; see `triggers.base.RowChanges`."""

    clear: bool = False
    delete_below: int | None = None
    delete: Collection[int] = ()
    insert: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NewPosition:
    """Where a watcher goes on; the texts are JSON."""

    COLUMNS: ClassVar = ("source_identity", "state", "watermark")

    source_identity: str
    state: str
    watermark: str
    rows: RowDifferences = field(default_factory=RowDifferences)

    @property
    def columns(self) -> dict[str, str]:
        return {name: vars(self)[name] for name in self.COLUMNS}


@cache
def advance() -> ReturningUpdate[Any]:
    """Move a position one version on, if it is the one that is held (`b_watcher`, `b_epoch`, `b_version`).

    The first statement of a commit: the lock and the fence. A rewind's kept position goes with the first commit after it.
    """
    return _fenced({**{name: bindparam(f"b_{name}") for name in NewPosition.COLUMNS}, "previous": None})


@cache
def keep() -> ReturningUpdate[Any]:
    """Like `advance`, for a newer state at the same place: the watermark stays, and what an undo goes back to."""
    return _fenced({"state": bindparam("b_state")})


def _fenced(content: Mapping[str, Any]) -> ReturningUpdate[Any]:
    p = watcher_position.c
    held = (p.watcher == bindparam("b_watcher"), p.epoch == bindparam("b_epoch"), p.version == bindparam("b_version"))
    return update(watcher_position).where(*held).values({**content, **_moved()}).returning(p.version)


def advance_all(given: FromClause, *, skip_locked: bool) -> ReturningUpdate[Any]:
    """`advance` for the positions of `given`, PostgreSQL's; returns what is given of those that are held, and new versions.

    Positions are locked in order of name. One that somebody else has locked is waited for, or left out.
    """
    p = watcher_position.c
    held = (p.watcher == given.c.watcher, p.epoch == given.c.epoch, p.version == given.c.version)
    free = select(*given.c).join_from(watcher_position, given, and_(*held)).order_by(p.watcher)
    locked = free.with_for_update(of=watcher_position, skip_locked=skip_locked).cte("locked").c
    content = {name: locked[name] for name in NewPosition.COLUMNS}
    moved = (
        update(watcher_position).where(p.watcher == locked.watcher).values({**content, "previous": None, **_moved()})
    )
    return moved.returning(locked.watcher, locked.asset_id, locked.key, p.version)


def _moved() -> dict[str, Any]:
    return {"version": watcher_position.c.version + 1, "updated_at": database_now()}


def parameters(held: HeldPosition, position: NewPosition) -> dict[str, Any]:
    """Those of `advance` and `keep`."""
    place = {"b_watcher": held.watcher, "b_epoch": held.epoch, "b_version": held.version}
    return {**place, **{f"b_{name}": text for name, text in position.columns.items()}}


async def change_rows(connection: AsyncConnection, watcher: str, rows: RowDifferences, dialect: str) -> None:
    """Apply differences to the watcher's large set, after `advance` in the same transaction."""
    r = watcher_position_row.c
    mine = r.watcher == watcher
    if rows.clear:
        await connection.execute(delete(watcher_position_row).where(mine))
    if rows.delete_below is not None:
        await connection.execute(delete(watcher_position_row).where(mine, r.value < rows.delete_below))
    for some in chunks(list(rows.delete)):
        await connection.execute(delete(watcher_position_row).where(mine, r.member.in_(some)))
    if rows.insert:
        new = upsert(watcher_position_row, dialect)
        await connection.execute(
            new.on_conflict_do_update(index_elements=["watcher", "member"], set_={"value": new.excluded.value}),
            [{"watcher": watcher, "member": member, "value": value} for member, value in rows.insert.items()],
        )


async def versions(connection: AsyncConnection, owner: str) -> Mapping[str, int]:
    """The versions of all positions that a triggerer holds."""
    p = watcher_position.c
    rows = await connection.execute(select(p.watcher, p.version).where(p.owner == owner))
    return {row.watcher: row.version for row in rows}


async def read(connection: AsyncConnection, watcher: str) -> LoadedPosition | None:
    """A position as it stands, whoever holds it; None when the watcher has never been started."""
    p = watcher_position.c
    query = select(p.owner, p.epoch, p.version, p.source_identity, p.state).where(p.watcher == watcher)
    row = (await connection.execute(query)).one_or_none()
    return await _loaded(connection, watcher, "" if row is None else row.owner or "", row)


async def _loaded(connection: AsyncConnection, watcher: str, owner: str, row: Any | None) -> LoadedPosition | None:
    if row is None:
        return None
    r = watcher_position_row.c
    members = await connection.execute(select(r.member, r.value).where(r.watcher == watcher))
    return LoadedPosition(
        held=HeldPosition(watcher=watcher, owner=owner, epoch=row.epoch, version=row.version),
        source_identity=row.source_identity,
        state=row.state,
        rows={member.member: member.value for member in members},
    )
