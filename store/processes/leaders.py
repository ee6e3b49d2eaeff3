"""The leader, which schedules and starts runs.

One row, an epoch that grows at every take-over, the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import database_now, database_time_in, leader
from store.errors import NotLeading

_ROW: Final = 1
_HOLD: Final = select(leader.c.id).where(leader.c.epoch == bindparam("b_epoch")).with_for_update(read=True)


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The new leader's epoch; without one, how long until the other's lease ends."""

    epoch: int | None = None
    expires_in: timedelta = timedelta(0)


async def take(connection: AsyncConnection, owner: str, lease: timedelta, dialect: str) -> Campaign:
    """Lead from now on, if nobody does or `owner` itself did before it was restarted.

    It waits for the transactions that hold the previous epoch. One statement changes the row, so the row is never
    locked while this process is busy.
    """
    free = or_(leader.c.owner == owner, leader.c.expires_at <= database_now())
    values = {"owner": owner, "epoch": leader.c.epoch + 1, "expires_at": database_time_in(lease.total_seconds())}
    taken = update(leader).where(leader.c.id == _ROW, free).values(**values, start_reasons=None)
    taken = taken.returning(leader.c.epoch)
    while True:
        epoch = (await connection.execute(taken)).scalar_one_or_none()
        if epoch is not None:
            return Campaign(epoch=epoch)
        now = database_now().label("now")
        row = (await connection.execute(select(leader.c.expires_at, now).where(leader.c.id == _ROW))).one_or_none()
        if row is not None:
            return Campaign(expires_in=row.expires_at - row.now)
        first = upsert(leader, dialect).values(id=_ROW, owner=owner, epoch=0, expires_at=database_now())
        await connection.execute(first.on_conflict_do_nothing())


async def renew(connection: AsyncConnection, epoch: int, lease: timedelta) -> bool:
    """Continue to lead; return False if somebody took over."""
    renewed = database_time_in(lease.total_seconds())
    ours = update(leader).where(leader.c.epoch == epoch).values(expires_at=renewed)
    return (await connection.execute(ours.returning(leader.c.epoch))).scalar_one_or_none() is not None


async def set_start_reasons(connection: AsyncConnection, epoch: int, reasons: str | None) -> None:
    """Keep why no further run starts, for people who ask; nothing happens if somebody took over."""
    await connection.execute(update(leader).where(leader.c.epoch == epoch).values(start_reasons=reasons))


async def hold(connection: AsyncConnection, epoch: int) -> None:
    """Keep others from taking over until this transaction ends; it must be the first statement. Raises `NotLeading`."""
    if (await connection.execute(_HOLD, {"b_epoch": epoch})).one_or_none() is None:
        raise NotLeading("another process schedules and starts runs now; this one stands by")


async def resign(connection: AsyncConnection, epoch: int) -> None:
    """End the leadership on purpose: another process may take over at once."""
    await connection.execute(update(leader).where(leader.c.epoch == epoch).values(expires_at=database_now()))
