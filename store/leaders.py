"""Who schedules and starts runs: one row, an epoch that grows at every take-over, and the database's clock only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import upsert
from store.errors import NotLeading
from store.schema import database_now, leader

_ROW: Final = 1


async def take(session: AsyncSession, owner: str, lease: timedelta, dialect: str) -> int | None:
    """Lead from now on, if nobody does or `owner` itself did before it was restarted; the new epoch, else None.

    Waits for the transactions that hold the epoch before.
    """
    now = await _now(session)
    first = upsert(leader, dialect).values(id=_ROW, owner=owner, epoch=0, expires_at=now)
    await session.execute(first.on_conflict_do_nothing())
    free = or_(leader.c.owner == owner, leader.c.expires_at <= now)
    taken = update(leader).where(leader.c.id == _ROW, free)
    values = {"owner": owner, "epoch": leader.c.epoch + 1, "expires_at": now + lease}
    epoch: int | None = (await session.execute(taken.values(**values).returning(leader.c.epoch))).scalar_one_or_none()
    return epoch


async def renew(session: AsyncSession, epoch: int, lease: timedelta) -> bool:
    """Lead on; False when somebody took over."""
    ours = update(leader).where(leader.c.epoch == epoch).values(expires_at=await _now(session) + lease)
    return (await session.execute(ours.returning(leader.c.epoch))).scalar_one_or_none() is not None


async def hold(session: AsyncSession, epoch: int) -> None:
    """Nobody takes over before this transaction ends. Its first statement. Raises `NotLeading`."""
    held = select(leader.c.id).where(leader.c.epoch == epoch).with_for_update(read=True)
    if (await session.execute(held)).one_or_none() is None:
        raise NotLeading("another process schedules and starts runs now; this one stands by")


async def resign(session: AsyncSession, epoch: int) -> None:
    """A leader ends on purpose: another may take over at once."""
    await session.execute(update(leader).where(leader.c.epoch == epoch).values(expires_at=database_now()))


async def _now(session: AsyncSession) -> datetime:
    return (await session.execute(select(database_now()))).scalar_one()
