"""Messages to other systems: rows written in the transaction that gave the reason, each sent until it has arrived.

A destination has lanes. Within a lane, messages go in the order of their ids, so what one transaction after another
writes arrives in that order. The leader sends, and notes each attempt before it makes it: after a crash, an attempt
with an unknown answer can be looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import asset, asset_event, database_now, database_time_in, seconds_between
from store.features.outbox.tables import asset_forward, outbox

AIRFLOW: Final = "airflow"
"""The destination of events; its lanes are asset ids."""

_o, _e, _f = outbox.c, asset_event.c, asset_forward.c


@dataclass(frozen=True, kw_only=True)
class NewMessage:
    """A message to send: `message_id` identifies its repeats, `body` is JSON text."""

    destination: str
    lane: str
    message_id: str
    body: str


@dataclass(frozen=True, kw_only=True)
class OutboxMessage:
    """The next message of a lane, at `now`.

    For an event, `body` is its `extra`, and `message_id` is None unless a watcher made it.
    """

    id: int
    destination: str
    lane: str
    message_id: str | None
    body: str
    asset_event_id: int | None
    target: str | None
    """The asset of Airflow's that an event goes to; None for other messages."""
    partition_key: str | None
    """The partition key that goes with an event."""
    attempts: int
    first_attempt_at: datetime | None
    attempt_at: datetime | None
    """The last attempt, while its outcome is unknown."""
    not_before: datetime | None
    now: datetime


async def put(connection: AsyncConnection, messages: Sequence[NewMessage]) -> None:
    """Add messages in the caller's transaction. Wake the sender once it is committed."""
    if messages:
        rows = [vars(message) for message in messages]
        await connection.execute(insert(outbox).values(created_at=database_now()), rows)


def _lanes_due() -> Select[tuple[str, float]]:
    lowest, later, inner = (outbox.alias(name).c for name in ("lowest", "later", "inner"))
    destination: BindParameter[str] = bindparam("b_destination")
    first = select(func.min(lowest.lane).label("lane")).where(lowest.destination == destination)
    lanes = first.cte("lanes", recursive=True)
    following = select(func.min(later.lane)).where(later.destination == destination, later.lane > lanes.c.lane)
    lanes = lanes.union_all(select(following.scalar_subquery()).where(lanes.c.lane.is_not(None)))
    ids = select(func.min(inner.id)).where(inner.destination == destination, inner.lane == lanes.c.lane)
    head = ids.scalar_subquery()
    wait = func.coalesce(seconds_between(database_now(), _o.not_before), 0.0).label("wait")
    return select(_o.lane, wait).join_from(lanes, outbox, _o.id == head)


_LANES_DUE: Final = _lanes_due()


async def lanes_due(connection: AsyncConnection, destination: str) -> Mapping[str, float]:
    """Return the lanes that have messages, each with the seconds until its first may be sent."""
    rows = await connection.execute(_LANES_DUE, {"b_destination": destination})
    return {row.lane: max(row.wait, 0.0) for row in rows}


@cache
def _first() -> Select[Any]:
    body = func.coalesce(_o.body, _e.extra).label("body")
    key = case((_f.with_partition_key, _e.partition_key)).label("partition_key")
    of_message = (_o.id, _o.destination, _o.lane, _o.message_id, _o.asset_event_id)
    of_attempts = (_o.attempts, _o.first_attempt_at, _o.attempt_at, _o.not_before)
    return (
        select(*of_message, body, _f.target, key, *of_attempts, database_now().label("now"))
        .outerjoin_from(outbox, asset_event, _e.id == _o.asset_event_id)
        .outerjoin(asset_forward, _f.asset_id == _e.asset_id)
        .where(_o.destination == bindparam("b_destination"), _o.lane == bindparam("b_lane"))
        .order_by(_o.id)
        .limit(1)
    )


async def first(connection: AsyncConnection, destination: str, lane: str) -> OutboxMessage | None:
    """Return the message that must be sent before all others of the lane."""
    which = {"b_destination": destination, "b_lane": lane}
    return next(iter(await all_of(connection, _first(), OutboxMessage, which)), None)


async def begin(connection: AsyncConnection, message_id: int) -> None:
    """Note that an attempt is about to be made."""
    now = database_now()
    values = {"attempts": _o.attempts + 1, "first_attempt_at": func.coalesce(_o.first_attempt_at, now)}
    await connection.execute(update(outbox).where(_o.id == message_id).values(attempt_at=now, **values))


async def remove(connection: AsyncConnection, message_id: int) -> None:
    """Remove a message that has arrived."""
    await connection.execute(delete(outbox).where(_o.id == message_id))


async def postpone(
    connection: AsyncConnection, message_id: int, pause: timedelta, error: str, *, refused: bool, is_unclear: bool
) -> None:
    """Retry a message after `pause`: it has not arrived, or its outcome `is_unclear` and must be looked up."""
    attempt = {} if is_unclear else {"attempt_at": None}
    again = database_time_in(pause.total_seconds())
    postponed = update(outbox).where(_o.id == message_id)
    await connection.execute(postponed.values(not_before=again, error=error, refused=refused, **attempt))


async def defer(connection: AsyncConnection, message_id: int, pause: timedelta) -> None:
    """Leave a message alone for this long."""
    again = database_time_in(pause.total_seconds())
    await connection.execute(update(outbox).where(_o.id == message_id).values(not_before=again))


async def depths(connection: AsyncConnection) -> Mapping[str, int]:
    """Return how many messages each destination has."""
    counted = select(_o.destination, func.count().label("messages")).group_by(_o.destination)
    return {row.destination: row.messages for row in await connection.execute(counted)}


@dataclass(frozen=True, kw_only=True)
class StuckLane:
    """A lane whose first message does not arrive: why, since when it waits, and whether it was refused as wrong."""

    destination: str
    lane: str
    asset: str | None
    target: str | None
    error: str
    refused: bool
    since: datetime
    next_try_at: datetime | None


async def stuck(connection: AsyncConnection, asset_id: int | None = None) -> Sequence[StuckLane]:
    """Return the lanes that wait after a failure, in order; of one asset, or all."""
    if asset_id is None:
        return await all_of(connection, _STUCK, StuckLane)
    of_asset = _STUCK.where(_o.destination == AIRFLOW, _o.lane == str(asset_id))
    return await all_of(connection, of_asset, StuckLane)


def _stuck() -> Select[Any]:
    earlier = outbox.alias("earlier").c
    is_first = (
        ~select(earlier.id)
        .where(earlier.destination == _o.destination, earlier.lane == _o.lane, earlier.id < _o.id)
        .exists()
    )
    return (
        select(_o.destination, _o.lane, asset.c.name.label("asset"), _f.target, _o.error, _o.refused)
        .add_columns(_o.created_at.label("since"), _o.not_before.label("next_try_at"))
        .outerjoin_from(outbox, asset_event, _e.id == _o.asset_event_id)
        .outerjoin(asset, asset.c.id == _e.asset_id)
        .outerjoin(asset_forward, _f.asset_id == _e.asset_id)
        .where(and_(_o.error.is_not(None), is_first))
        .order_by(_o.destination, _o.lane)
    )


_STUCK: Final = _stuck()
