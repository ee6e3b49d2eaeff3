"""Moving a position by a person's word: a rewind, and its undo until the next batch commits.

A rewind is a compare-and-set of the position row and raises the version, so a commit of the running watcher that is in
flight loses. The version never goes back, not even by undo: event ids are made from it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import delete, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from store import positions
from store.errors import Conflict
from store.schema import database_now, watcher_position, watcher_position_row

KEPT: Final = "@previous"  # no watcher's name holds an @


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """Where a position shall go on; the texts are JSON. `version` is the one it must still have."""

    watcher: str
    version: int
    source_identity: str
    state: str
    watermark: str
    clear: bool = False
    delete_below: int | None = None
    delete_members: Collection[int] = ()
    insert_members: Mapping[int, int] = field(default_factory=dict)


async def rewind(session: AsyncSession, wanted: Rewind, dialect: str) -> int:
    """Move the position and keep the previous one whole; returns the new version. Raises `Conflict` when it moved meanwhile."""
    p, r = watcher_position.c, watcher_position_row.c
    here = p.watcher == wanted.watcher
    before = (
        await session.execute(
            select(p.source_identity, p.state, p.watermark).where(here, p.version == wanted.version).with_for_update()
        )
    ).one_or_none()
    if before is None:
        raise Conflict(f"the position of {wanted.watcher} moved meanwhile; ask again")
    await session.execute(
        update(watcher_position)
        .where(here)
        .values(
            version=p.version + 1,
            source_identity=wanted.source_identity,
            state=wanted.state,
            watermark=wanted.watermark,
            previous=json.dumps(dict(before._mapping)),  # noqa: SLF001  SQLAlchemy's public name
            updated_at=database_now(),
        )
    )
    kept = wanted.watcher + KEPT
    await session.execute(delete(watcher_position_row).where(r.watcher == kept))
    copy = select(literal(kept), r.member, r.value).where(r.watcher == wanted.watcher)
    await session.execute(insert(watcher_position_row).from_select(["watcher", "member", "value"], copy))
    await positions.change_rows(
        session,
        wanted.watcher,
        dialect,
        clear=wanted.clear,
        delete_below=wanted.delete_below,
        delete_members=wanted.delete_members,
        insert_members=wanted.insert_members,
    )
    return wanted.version + 1


async def undo(session: AsyncSession, watcher: str) -> tuple[int, str | None]:
    """Put the kept position back; returns the new version and its watermark. Raises `Conflict` when none is kept."""
    p, r = watcher_position.c, watcher_position_row.c
    here = p.watcher == watcher
    row = (await session.execute(select(p.version, p.previous).where(here).with_for_update())).one_or_none()
    if row is None or row.previous is None:
        raise Conflict(f"{watcher} has no rewind to undo; the position before one is kept until the next batch commits")
    previous = json.loads(row.previous)
    moved = update(watcher_position).where(here)
    await session.execute(moved.values(version=p.version + 1, previous=None, updated_at=database_now(), **previous))
    await session.execute(delete(watcher_position_row).where(r.watcher == watcher))
    back = update(watcher_position_row).where(r.watcher == watcher + KEPT)
    await session.execute(back.values(watcher=watcher))
    return row.version + 1, previous["watermark"]
