"""The events of a watcher, in parts, and what became of each: its runs and its queues. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_event, queued_event, run, run_asset_event

_e, _r = asset_event.c, run_asset_event.c


class EventWithFate(NamedTuple):
    """An event of a watcher. `extra` is JSON text; `runs` are the states of the runs that have it."""

    id: int
    timestamp: datetime
    extra: str
    runs: frozenset[str]
    is_queued: bool


_SOME: Final = (
    select(_e.id, _e.timestamp, _e.extra)
    .where(
        _e.asset_id == bindparam("b_asset"),
        _e.id > bindparam("b_after"),
        _e.source_watcher.in_(bindparam("b_names", expanding=True)),
    )
    .order_by(_e.id)
    .limit(bindparam("b_most"))
)
_LOW, _HIGH = bindparam("b_low", type_=BigInteger), bindparam("b_high", type_=BigInteger)
_RUNS: Final = (
    select(_r.event_id, run.c.state)
    .join_from(run_asset_event, run, and_(run.c.dag_id == _r.dag_id, run.c.run_id == _r.run_id))
    .where(_r.event_id.between(_LOW, _HIGH))
)
_QUEUED: Final = select(queued_event.c.event_id).where(queued_event.c.event_id.between(_LOW, _HIGH))


async def events_after(
    connection: AsyncConnection, asset_id: int, watchers: Collection[str], after: int, *, limit: int
) -> Sequence[EventWithFate]:
    """Return the next events of an asset that watchers of these names reported, oldest first."""
    given = {"b_asset": asset_id, "b_after": after, "b_names": [*watchers], "b_most": limit}
    events = (await connection.execute(_SOME, given)).all()
    if not events:
        return ()
    limits = {"b_low": events[0].id, "b_high": events[-1].id}
    states: dict[int, set[str]] = defaultdict(set)
    for event_id, state in await connection.execute(_RUNS, limits):
        states[event_id].add(state)
    queued = {*(await connection.execute(_QUEUED, limits)).scalars()}
    nothing: frozenset[str] = frozenset()
    return [
        EventWithFate(id_, at, extra, frozenset(states[id_]) if id_ in states else nothing, id_ in queued)
        for id_, at, extra in events
    ]


async def last_event(connection: AsyncConnection) -> int:
    """Return the highest id of an event; 0 without one."""
    return await connection.scalar(select(func.max(_e.id))) or 0
