"""Triggerers and dispatchers: who lives, by the database's clock only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.paging import now_of
from store.database.schema import database_now, dispatcher, triggerer


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of ours on some machine."""

    id: str
    host: str
    pid: int


async def beat(connection: AsyncConnection, process: Process, lease: timedelta, dialect: str) -> None:
    """A triggerer says that it lives; it counts as living until `lease` from now."""
    now = await now_of(connection)
    alive = {"heartbeat_at": now, "expires_at": now + lease}
    new = upsert(triggerer, dialect).values(id=process.id, host=process.host, pid=process.pid, started_at=now, **alive)
    await connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=alive))


async def living(connection: AsyncConnection) -> Sequence[str]:
    """Ids of the triggerers whose lease runs, in order."""
    alive = select(triggerer.c.id).where(triggerer.c.expires_at > database_now()).order_by(triggerer.c.id)
    return (await connection.execute(alive)).scalars().all()


async def leave(connection: AsyncConnection, process_id: str) -> None:
    """A triggerer ends on purpose: its watchers are free at once."""
    await connection.execute(delete(triggerer).where(triggerer.c.id == process_id))


async def forget_dead(connection: AsyncConnection, silent_for: timedelta) -> None:
    """Drop triggerers that have been silent for long; their ids never come back."""
    await connection.execute(delete(triggerer).where(triggerer.c.expires_at < await now_of(connection) - silent_for))


async def beat_dispatcher(connection: AsyncConnection, process: Process, lease: timedelta, dialect: str) -> None:
    """The dispatcher of a home says that it lives; `process.id` is the home's id."""
    now = await now_of(connection)
    alive = {"host": process.host, "pid": process.pid, "heartbeat_at": now, "expires_at": now + lease}
    new = upsert(dispatcher, dialect).values(home_id=process.id, **alive)
    await connection.execute(new.on_conflict_do_update(index_elements=["home_id"], set_=alive))


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """When some process of a kind last said that it lives, and whether that still counts."""

    at: datetime
    lives: bool


async def heartbeats(connection: AsyncConnection) -> Mapping[str, Heartbeat | None]:
    """The newest sign of life of any scheduler and of any triggerer, by the database's clock; None: never one."""
    kinds = {"scheduler": dispatcher, "triggerer": triggerer}  # our scheduler and dispatcher are one
    newest: dict[str, Heartbeat | None] = {}
    for kind, processes in kinds.items():
        p = processes.c
        query = select(func.max(p.heartbeat_at), func.max(p.expires_at) > database_now())
        at, lives = (await connection.execute(query)).one()
        newest[kind] = None if at is None else Heartbeat(at=at, lives=bool(lives))
    return newest
