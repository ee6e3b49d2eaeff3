"""Moving a position to another watcher's name.

Event ids are made from a watcher's name and its position's version, so under neither name does the version ever go back:
the old name keeps its row, with the version and without a position, in case somebody takes the name again.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import upsert
from store.errors import Conflict, NotFound
from store.rewinding import KEPT
from store.schema import database_now, triggerer, watcher, watcher_position, watcher_position_row

_MOVED = ("source_identity", "state", "watermark", "previous", "updated_at")


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """A position under its new name; `old_asset_id` is where the old name's watermark entry is, if that is known."""

    version: int
    watermark: str | None
    old_asset_id: int | None


async def rename(session: AsyncSession, old: str, new: str, dialect: str) -> Renamed:
    """Move all that `old` knows to `new`, and whether people have paused it. Raises `NotFound`, `Conflict`.

    A triggerer that has just begun with `new` loses its next commit and reads the moved position.
    """
    p = watcher_position.c
    lives = exists().where(triggerer.c.id == p.owner, triggerer.c.expires_at > database_now()).label("lives")
    both = (
        select(watcher_position, lives)
        .where(p.watcher.in_((old, new)))
        .order_by(p.watcher)
        .with_for_update(of=watcher_position)
    )
    rows = {row.watcher: row for row in await session.execute(both)}
    before, there = rows.get(old), rows.get(new)
    if before is None or before.state is None:
        raise NotFound(f"{old!r} has left no position to move; correct the name")
    if before.lives:
        raise Conflict(
            f"{old} is still being watched; stop the daemon that does, or take {old} out of its configuration"
        )
    if there is not None and there.state is not None:
        raise Conflict(f"{new} has a position already, and moving another over it would lose it; use another name")
    version, epoch = (max(getattr(row, name) for row in rows.values()) + 1 for name in ("version", "epoch"))
    moved = {name: getattr(before, name) for name in _MOVED}
    entry = upsert(watcher_position, dialect).values(watcher=new, version=version, epoch=epoch, **moved)
    changed = {name: entry.excluded[name] for name in ("version", "epoch", *_MOVED)}
    await session.execute(entry.on_conflict_do_update(index_elements=["watcher"], set_=changed))
    emptied = update(watcher_position).where(p.watcher == old)
    await session.execute(emptied.values(owner=None, epoch=epoch, **dict.fromkeys(_MOVED)))
    await _move_rows(session, old, new)
    return Renamed(
        version=version, watermark=before.watermark, old_asset_id=await _move_pause(session, old, new, dialect)
    )


async def _move_rows(session: AsyncSession, old: str, new: str) -> None:
    r = watcher_position_row.c
    for suffix in ("", KEPT):
        await session.execute(delete(watcher_position_row).where(r.watcher == new + suffix))
        mine = update(watcher_position_row).where(r.watcher == old + suffix)
        await session.execute(mine.values(watcher=new + suffix))


async def _move_pause(session: AsyncSession, old: str, new: str, dialect: str) -> int | None:
    """The new name may not be in the mirror of the configuration yet; returns the old one's asset."""
    w = watcher.c
    row = (await session.execute(select(w.asset_id, w.trigger, w.paused).where(w.name == old))).one_or_none()
    if row is None:
        return None
    entry = upsert(watcher, dialect).values(name=new, active=False, **row._mapping)  # noqa: SLF001  SQLAlchemy's public name
    await session.execute(entry.on_conflict_do_update(index_elements=["name"], set_={"paused": row.paused}))
    return int(row.asset_id)
