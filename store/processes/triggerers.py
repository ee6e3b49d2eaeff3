"""Triggerers and dispatchers: which live, by the database's clock only, and which keys their processes sign with."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Table, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import database_now, database_time_in, dispatcher, setting, triggerer

CAPACITY: Final = 10_000
"""The most watchers that a triggerer hosts, unless it says otherwise."""


@dataclass(frozen=True, kw_only=True)
class ProcessInfo:
    """A process of ours on some machine."""

    id: str
    host: str
    pid: int


async def beat(
    connection: AsyncConnection, process: ProcessInfo, lease: timedelta, dialect: str, capacity: int = CAPACITY
) -> None:
    """Record that a triggerer lives; it counts as living until `lease` from now."""
    known = {"id": process.id, "host": process.host, "pid": process.pid, "started_at": database_now()}
    await _beat(connection, triggerer, known, {"capacity": capacity, **_alive(lease)}, dialect)


def _alive(lease: timedelta) -> dict[str, Any]:
    return {"heartbeat_at": database_now(), "expires_at": database_time_in(lease.total_seconds())}


async def _beat(
    connection: AsyncConnection, table: Table, known: Mapping[str, Any], alive: Mapping[str, Any], dialect: str
) -> None:
    """Write the heartbeat in one statement, so that no time of this process passes within it."""
    new = upsert(table, dialect).values(**known, **alive)
    await connection.execute(new.on_conflict_do_update(index_elements=[*table.primary_key], set_=alive))


@dataclass(frozen=True, kw_only=True)
class LivingTriggerer:
    """A triggerer whose lease runs for `expires_in` more, and the most watchers that it hosts."""

    id: str
    capacity: int
    expires_in: timedelta
    configuration: str | None = None
    """The hash of the configuration that it runs; None before it has announced it."""


async def living(connection: AsyncConnection) -> Sequence[LivingTriggerer]:
    """Return the triggerers whose lease runs, by their ids."""
    t, now = triggerer.c, database_now()
    known = (t.id, t.capacity, t.configuration, t.expires_at, now.label("now"))
    alive = select(*known).where(t.expires_at > now).order_by(t.id)
    return [
        LivingTriggerer(
            id=row.id, capacity=row.capacity, expires_in=row.expires_at - row.now, configuration=row.configuration
        )
        for row in await connection.execute(alive)
    ]


async def heard_others(connection: AsyncConnection, process_id: str) -> frozenset[str]:
    """Return the other triggerers with a heartbeat since this one began. One that was killed before has none."""
    t, own = triggerer.c, triggerer.alias().c
    began = select(own.started_at).where(own.id == process_id).scalar_subquery()
    ids = await connection.execute(select(t.id).where(t.id != process_id, t.heartbeat_at > began))
    return frozenset(ids.scalars())


async def announce(
    connection: AsyncConnection, process_id: str, configuration: str | None, definitions: Mapping[str, str | None]
) -> None:
    """Record which configuration a triggerer runs from now on, and the hash by which it knows each watcher."""
    row = update(triggerer).where(triggerer.c.id == process_id)
    await connection.execute(row.values(configuration=configuration, definitions=json.dumps(dict(definitions))))


async def announced(connection: AsyncConnection, ids: Collection[str]) -> Mapping[str, Mapping[str, str | None]]:
    """Return what these triggerers announced about watchers."""
    t = triggerer.c
    rows = await connection.execute(select(t.id, t.definitions).where(t.id.in_(ids), t.definitions.is_not(None)))
    return {row.id: json.loads(row.definitions) for row in rows}


@dataclass(frozen=True, kw_only=True)
class RunningConfiguration:
    """A living process that hosts watchers or starts runs, and the hash of the configuration that it runs."""

    host: str
    pid: int
    roles: frozenset[str]
    configuration: str | None


async def configurations(connection: AsyncConnection) -> Sequence[RunningConfiguration]:
    """Return the living processes and their configurations; processes that only serve the API are unknown here."""
    roles: dict[tuple[str, int, str | None], set[str]] = {}
    for role, table in (("triggerer", triggerer), ("scheduler", dispatcher)):
        p = table.c
        query = select(p.host, p.pid, p.configuration).where(p.expires_at > database_now()).order_by(p.host, p.pid)
        for row in await connection.execute(query):
            roles.setdefault((row.host, row.pid, row.configuration), set()).add(role)
    return [
        RunningConfiguration(host=host, pid=pid, roles=frozenset(of_process), configuration=configuration)
        for (host, pid, configuration), of_process in roles.items()
    ]


async def leave(connection: AsyncConnection, process_id: str) -> None:
    """Remove a triggerer that ends on purpose: its watchers are free at once."""
    await connection.execute(delete(triggerer).where(triggerer.c.id == process_id))


async def forget_dead(connection: AsyncConnection, silent_for: timedelta) -> None:
    """Remove triggerers that have been silent for long; their ids never come back."""
    before = database_time_in(-silent_for.total_seconds())
    await connection.execute(delete(triggerer).where(triggerer.c.expires_at < before))


async def beat_dispatcher(
    connection: AsyncConnection, process: ProcessInfo, lease: timedelta, dialect: str, configuration: str | None = None
) -> None:
    """Record that a home's dispatcher lives, and its configuration; `process.id` is the home's id."""
    alive = {"host": process.host, "pid": process.pid, "configuration": configuration, **_alive(lease)}
    await _beat(connection, dispatcher, {"home_id": process.id}, alive, dialect)


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of any process of a kind, and whether it still counts."""

    at: datetime
    lives: bool


async def heartbeats(connection: AsyncConnection) -> Mapping[str, Heartbeat | None]:
    """Return the newest heartbeat of any scheduler and any triggerer, by the database's clock; None: never one."""
    kinds = {"scheduler": dispatcher, "triggerer": triggerer}  # our scheduler and dispatcher are one
    newest: dict[str, Heartbeat | None] = {}
    for kind, processes in kinds.items():
        p = processes.c
        query = select(func.max(p.heartbeat_at), func.max(p.expires_at) > database_now())
        at, lives = (await connection.execute(query)).one()
        newest[kind] = None if at is None else Heartbeat(at=at, lives=bool(lives))
    return newest


_SIGNING_KEYS: Final = "signing_keys"


@dataclass(frozen=True, kw_only=True)
class SigningKeys:
    """Digests of a process's keys, in its order; they reveal nothing about the keys."""

    digests: Sequence[str]
    host: str
    pid: int

    @classmethod
    def of(cls, secrets: Sequence[bytes], process: ProcessInfo) -> SigningKeys:
        digests = [hmac.new(secret, b"asset-watcher", hashlib.sha256).hexdigest() for secret in secrets]
        return cls(digests=digests, host=process.host, pid=process.pid)


async def publish_keys(connection: AsyncConnection, keys: SigningKeys, dialect: str) -> None:
    """Publish these keys: from now on other processes compare theirs with them."""
    row = upsert(setting, dialect).values(key=_SIGNING_KEYS, value=json.dumps(asdict(keys)))
    await connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": row.excluded.value}))


async def published_keys(connection: AsyncConnection) -> SigningKeys | None:
    """Return the keys of the process that started last."""
    stored = (
        await connection.execute(select(setting.c.value).where(setting.c.key == _SIGNING_KEYS))
    ).scalar_one_or_none()
    if stored is None:
        return None
    keys = json.loads(stored)
    return SigningKeys(digests=keys["digests"], host=keys["host"], pid=keys["pid"])
