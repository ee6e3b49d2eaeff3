"""How many events came in each of the last hours, or in each part of a span: from indexes alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import BigInteger, Select, bindparam, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import UtcDateTime, asset, asset_event, database_time_in

HOURS: Final = 24
_e = asset_event.c


async def by_hour(connection: AsyncConnection, asset_ids: Collection[int]) -> Mapping[int, Sequence[int]]:
    """Return the counts of each asset, oldest hour first; the last hour is not over.

    Assets without events are not in the result. Ids are given as events come, so the first id of each hour stands for
    its beginning.
    """
    counts: dict[int, list[int]] = defaultdict(lambda: [0] * HOURS)
    firsts = (await connection.execute(_FIRST_IDS)).one()
    hours = [(hour, *ids) for hour, ids in enumerate(pairwise([*firsts, None])) if ids[0] is not None]
    if hours and asset_ids:
        for row in await connection.execute(_counted(hours, asset_ids)):
            if row.events:
                counts[row.asset_id][row.hour] = row.events
    return counts


async def between(connection: AsyncConnection, edges: Sequence[datetime]) -> Sequence[int]:
    """Return how many events came between each two neighbouring edges, which ascend."""
    times = {f"edge_{place}": edge for place, edge in enumerate(edges)}
    rows = await connection.execute(_counted_between(len(edges) - 1), times)
    return [row.events for row in rows]


@cache
def _counted_between(parts: int) -> Select[Any]:
    edges = [bindparam(f"edge_{place}", type_=UtcDateTime()) for place in range(parts + 1)]
    spans = (
        select(literal(place).label("place"), since.label("since"), until.label("until"))
        for place, (since, until) in enumerate(pairwise(edges))
    )
    span = union_all(*spans).subquery("span")
    within = (_e.timestamp >= span.c.since, _e.timestamp < span.c.until)
    events = select(func.count()).select_from(asset_event).where(*within).correlate(span).scalar_subquery()
    return select(span.c.place, events.label("events")).select_from(span).order_by(span.c.place)


@cache
def _first_ids() -> Select[Any]:
    """Select the first event since each hour's beginning; null if none came since.

    The time is a query of its own: PostgreSQL uses no index for a function whose result may differ for each row.
    """
    since = (select(database_time_in(-3600.0 * back)).scalar_subquery() for back in range(HOURS, 0, -1))
    firsts = (select(_e.id).where(_e.timestamp >= moment).order_by(_e.timestamp).limit(1) for moment in since)
    return select(*(first.scalar_subquery().label(f"hour_{place}") for place, first in enumerate(firsts)))


_FIRST_IDS: Final = _first_ids()


def _counted(hours: Sequence[tuple[int, int, int | None]], asset_ids: Collection[int]) -> Select[Any]:
    spans = (
        select(
            literal(hour).label("hour"),
            literal(first, BigInteger).label("first"),
            literal(_AFTER_ALL if following is None else following, BigInteger).label("following"),
        )
        for hour, first, following in hours
    )
    span = union_all(*spans).subquery("span")
    within = (_e.asset_id == asset.c.id, _e.id >= span.c.first, _e.id < span.c.following)
    events = select(func.count()).select_from(asset_event).where(*within).correlate(asset, span).scalar_subquery()
    query = select(asset.c.id.label("asset_id"), span.c.hour, events.label("events"))
    return query.select_from(asset.join(span, asset.c.id.in_(asset_ids)))


_AFTER_ALL: Final = 2**62
