"""The table of heartbeats, and all statements about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, MetaData, Row, String, Table, Text, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

KEPT = 1_000
"""The number of heartbeats that are kept. The clean-up of the daemon knows nothing of this table."""

_metadata = MetaData()
_beat = Table(
    "x_heartbeat_beat",
    _metadata,
    Column("at", String(32), primary_key=True),  # ISO 8601, in UTC
    Column("failure", Text),  # null: it has arrived
)


async def upgrade(connection: AsyncConnection, from_version: int) -> int:
    """Bring the tables from a version to the newest one, and return that."""
    if from_version < 1:
        await connection.run_sync(_metadata.create_all)
    return 1


async def remember(connection: AsyncConnection, at: datetime, failure: str | None) -> None:
    """Write a heartbeat, and remove those that are too many."""
    await connection.execute(insert(_beat).values(at=at.isoformat(timespec="microseconds"), failure=failure))
    oldest = select(_beat.c.at).order_by(_beat.c.at.desc()).limit(1).offset(KEPT - 1).scalar_subquery()
    await connection.execute(delete(_beat).where(_beat.c.at < oldest))


async def newest(connection: AsyncConnection, limit: int) -> Sequence[Row[Any, Any]]:
    """Return `at` and `failure` of so many heartbeats, the newest first."""
    rows = await connection.execute(select(_beat.c.at, _beat.c.failure).order_by(_beat.c.at.desc()).limit(limit))
    return rows.all()
