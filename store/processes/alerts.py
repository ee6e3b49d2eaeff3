"""The alerts that are known: what was seen by which rule, since when, and whether somebody was told."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.schema import alert


@dataclass(frozen=True, kw_only=True)
class KnownAlert:
    """One condition, as one rule sees it; `key` is of both. `is_fired`: its message was handed to the outbox."""

    key: str
    rule: str
    alert: str
    subject: Mapping[str, str]
    message: str
    since: datetime
    is_fired: bool


async def listed(connection: AsyncConnection) -> Sequence[KnownAlert]:
    """All."""
    a = alert.c
    query = select(a.key, a.rule, a.alert, a.subject, a.message, a.since, a.is_fired)
    rows = await connection.execute(query.order_by(a.key))
    return [KnownAlert(**{**row._mapping, "subject": json.loads(row.subject)}) for row in rows]  # noqa: SLF001


async def add(connection: AsyncConnection, known: Sequence[KnownAlert]) -> None:
    """Keep these from now on."""
    rows: list[dict[str, Any]] = [{**vars(each), "subject": json.dumps(each.subject)} for each in known]
    if rows:
        await connection.execute(insert(alert), rows)


async def set_fired(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Their messages are handed over in this transaction."""
    for some in chunks(sorted(keys)):
        await connection.execute(update(alert).where(alert.c.key.in_(some)).values(is_fired=True))


async def remove(connection: AsyncConnection, keys: Collection[str]) -> None:
    """They hold no more."""
    for some in chunks(sorted(keys)):
        await connection.execute(delete(alert).where(alert.c.key.in_(some)))
