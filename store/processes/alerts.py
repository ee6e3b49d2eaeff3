"""Known alerts: what was seen by which rule, since when, and whether it was sent."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, upsert
from store.database.schema import database_now, setting
from store.features.alerts.tables import alert

_SINCE: Final = "alerts_since"


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
    """Return all known alerts."""
    a = alert.c
    query = select(a.key, a.rule, a.alert, a.subject, a.message, a.since, a.is_fired)
    rows = await connection.execute(query.order_by(a.key))
    return [
        KnownAlert(
            key=row.key,
            rule=row.rule,
            alert=row.alert,
            subject=json.loads(row.subject),
            message=row.message,
            since=row.since,
            is_fired=row.is_fired,
        )
        for row in rows
    ]


async def add(connection: AsyncConnection, known: Sequence[KnownAlert]) -> None:
    """Keep these alerts from now on."""
    rows: list[dict[str, Any]] = [{**vars(each), "subject": json.dumps(each.subject)} for each in known]
    if rows:
        await connection.execute(insert(alert), rows)


async def set_fired(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Record that their messages are handed over in this transaction."""
    for some in chunks(sorted(keys)):
        await connection.execute(update(alert).where(alert.c.key.in_(some)).values(is_fired=True))


async def remove(connection: AsyncConnection, keys: Collection[str]) -> None:
    """Remove alerts that no longer hold."""
    for some in chunks(sorted(keys)):
        await connection.execute(delete(alert).where(alert.c.key.in_(some)))


async def alerting_since(connection: AsyncConnection, dialect: str) -> datetime:
    """Return when this database was first checked for alerts: nobody is notified of anything before that."""
    now: datetime = (await connection.execute(select(database_now()))).scalar_one()
    new = upsert(setting, dialect).values(key=_SINCE, value=now.isoformat())
    await connection.execute(new.on_conflict_do_nothing())
    value: str = (await connection.execute(select(setting.c.value).where(setting.c.key == _SINCE))).scalar_one()
    return datetime.fromisoformat(value)
