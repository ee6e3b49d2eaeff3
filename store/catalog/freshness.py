"""Whether assets get the events that are expected of them, by the database's clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset, asset_event, database_now


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """An active asset with `expect_every`; one that never had an event is as old as itself."""

    asset_id: int
    asset: str
    expect_every: timedelta
    age: timedelta

    @property
    def is_late(self) -> bool:
        return self.age > self.expect_every


async def freshness(connection: AsyncConnection, asset_ids: Collection[int] | None = None) -> Sequence[Freshness]:
    """Of these assets, or of all of which something is expected."""
    newest = select(func.max(asset_event.c.id)).where(asset_event.c.asset_id == asset.c.id).scalar_subquery()
    last = asset_event.alias("last_event")
    wanted = (
        select(asset.c.id, asset.c.name, asset.c.expect_every_seconds, asset.c.created_at, last.c.timestamp)
        .add_columns(database_now().label("now"))
        .select_from(asset)
        .outerjoin(last, last.c.id == newest)
        .where(asset.c.active, asset.c.expect_every_seconds.is_not(None))
        .where(true() if asset_ids is None else asset.c.id.in_(asset_ids))
        .order_by(asset.c.name)
    )
    return [
        Freshness(
            asset_id=row.id,
            asset=row.name,
            expect_every=timedelta(seconds=row.expect_every_seconds),
            age=_age(row.timestamp or row.created_at, row.now),
        )
        for row in await connection.execute(wanted)
    ]


def _age(since: datetime, now: datetime) -> timedelta:
    return max(now - since, timedelta(0))
