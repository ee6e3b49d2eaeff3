"""Who schedules and starts runs: one row, an epoch that grows at every take-over, and the database's clock only."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.paging import now_of
from store.database.schema import database_now, leader
from store.errors import NotLeading

_ROW: Final = 1
_HOLD: Final = select(leader.c.id).where(leader.c.epoch == bindparam("b_epoch")).with_for_update(read=True)


async def take(connection: AsyncConnection, owner: str, lease: timedelta, dialect: str) -> int | None:
    """Lead from now on, if nobody does or `owner` itself did before it was restarted; the new epoch, else None.

    Waits for the transactions that hold the epoch before.
    """
    now = await now_of(connection)
    first = upsert(leader, dialect).values(id=_ROW, owner=owner, epoch=0, expires_at=now)
    await connection.execute(first.on_conflict_do_nothing())
    free = or_(leader.c.owner == owner, leader.c.expires_at <= now)
    taken = update(leader).where(leader.c.id == _ROW, free)
    values = {"owner": owner, "epoch": leader.c.epoch + 1, "expires_at": now + lease}
    epoch: int | None = (
        await connection.execute(taken.values(**values).returning(leader.c.epoch))
    ).scalar_one_or_none()
    return epoch


async def renew(connection: AsyncConnection, epoch: int, lease: timedelta) -> bool:
    """Lead on; False when somebody took over."""
    ours = update(leader).where(leader.c.epoch == epoch).values(expires_at=await now_of(connection) + lease)
    return (await connection.execute(ours.returning(leader.c.epoch))).scalar_one_or_none() is not None


async def hold(connection: AsyncConnection, epoch: int) -> None:
    """Nobody takes over before this transaction ends. Its first statement. Raises `NotLeading`."""
    if (await connection.execute(_HOLD, {"b_epoch": epoch})).one_or_none() is None:
        raise NotLeading("another process schedules and starts runs now; this one stands by")


async def resign(connection: AsyncConnection, epoch: int) -> None:
    """A leader ends on purpose: another may take over at once."""
    await connection.execute(update(leader).where(leader.c.epoch == epoch).values(expires_at=database_now()))
