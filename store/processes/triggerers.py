"""Triggerers and dispatchers: who lives, by the database's clock only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Table, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import database_now, database_time_in, dispatcher, triggerer

CAPACITY: Final = 10_000
"""Watchers that a triggerer hosts at most, unless it says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of ours on some machine."""

    id: str
    host: str
    pid: int


async def beat(
    connection: AsyncConnection, process: Process, lease: timedelta, dialect: str, capacity: int = CAPACITY
) -> None:
    """A triggerer says that it lives; it counts as living until `lease` from now."""
    known = {"id": process.id, "host": process.host, "pid": process.pid, "started_at": database_now()}
    await _beat(connection, triggerer, known, {"capacity": capacity, **_alive(lease)}, dialect)


def _alive(lease: timedelta) -> dict[str, Any]:
    return {"heartbeat_at": database_now(), "expires_at": database_time_in(lease.total_seconds())}


async def _beat(
    connection: AsyncConnection, table: Table, known: Mapping[str, Any], alive: Mapping[str, Any], dialect: str
) -> None:
    """One statement, so that no time of ours passes within it."""
    new = upsert(table, dialect).values(**known, **alive)
    await connection.execute(new.on_conflict_do_update(index_elements=[*table.primary_key], set_=alive))


@dataclass(frozen=True, kw_only=True)
class LivingTriggerer:
    """A triggerer whose lease runs for `expires_in` more, and the most watchers that it hosts."""

    id: str
    capacity: int
    expires_in: timedelta


async def living(connection: AsyncConnection) -> Sequence[LivingTriggerer]:
    """The triggerers whose lease runs, by their ids."""
    t, now = triggerer.c, database_now()
    alive = select(t.id, t.capacity, t.expires_at, now.label("now")).where(t.expires_at > now).order_by(t.id)
    return [
        LivingTriggerer(id=row.id, capacity=row.capacity, expires_in=row.expires_at - row.now)
        for row in await connection.execute(alive)
    ]


async def leave(connection: AsyncConnection, process_id: str) -> None:
    """A triggerer ends on purpose: its watchers are free at once."""
    await connection.execute(delete(triggerer).where(triggerer.c.id == process_id))


async def forget_dead(connection: AsyncConnection, silent_for: timedelta) -> None:
    """Drop triggerers that have been silent for long; their ids never come back."""
    before = database_time_in(-silent_for.total_seconds())
    await connection.execute(delete(triggerer).where(triggerer.c.expires_at < before))


async def beat_dispatcher(connection: AsyncConnection, process: Process, lease: timedelta, dialect: str) -> None:
    """The dispatcher of a home says that it lives; `process.id` is the home's id."""
    alive = {"host": process.host, "pid": process.pid, **_alive(lease)}
    await _beat(connection, dispatcher, {"home_id": process.id}, alive, dialect)


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
