"""Triggerers and dispatchers: who lives, by the database's clock only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import upsert
from store.schema import database_now, dispatcher, triggerer


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of ours on some machine."""

    id: str
    host: str
    pid: int


async def beat(session: AsyncSession, process: Process, lease: timedelta, dialect: str) -> None:
    """A triggerer says that it lives; it counts as living until `lease` from now."""
    now = await _now(session)
    new = upsert(triggerer, dialect).values(
        id=process.id,
        host=process.host,
        pid=process.pid,
        started_at=now,
        heartbeat_at=now,
        expires_at=now + lease,
    )
    alive = {"heartbeat_at": now, "expires_at": now + lease}
    await session.execute(new.on_conflict_do_update(index_elements=["id"], set_=alive))


async def living(session: AsyncSession) -> Sequence[str]:
    """Ids of the triggerers whose lease runs, in order."""
    alive = select(triggerer.c.id).where(triggerer.c.expires_at > database_now()).order_by(triggerer.c.id)
    return (await session.execute(alive)).scalars().all()


async def leave(session: AsyncSession, process_id: str) -> None:
    """A triggerer ends on purpose: its watchers are free at once."""
    await session.execute(delete(triggerer).where(triggerer.c.id == process_id))


async def forget_dead(session: AsyncSession, silent_for: timedelta) -> None:
    """Drop triggerers that have been silent for long; their ids never come back."""
    await session.execute(delete(triggerer).where(triggerer.c.expires_at < await _now(session) - silent_for))


async def beat_dispatcher(session: AsyncSession, process: Process, lease: timedelta, dialect: str) -> None:
    """The dispatcher of a home says that it lives; `process.id` is the home's id."""
    now = await _now(session)
    alive = {"host": process.host, "pid": process.pid, "heartbeat_at": now, "expires_at": now + lease}
    new = upsert(dispatcher, dialect).values(home_id=process.id, **alive)
    await session.execute(new.on_conflict_do_update(index_elements=["home_id"], set_=alive))


async def _now(session: AsyncSession) -> datetime:
    return (await session.execute(select(database_now()))).scalar_one()
