"""Messages to Airflow about events of forwarded assets, written in the transaction that stores the events."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Insert, Select, Text, bindparam, cast, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.schema import asset_event, database_now
from store.detection.interest import NOBODY, AddedEvents, EventOrigin
from store.features.outbox.outbox import AIRFLOW
from store.features.outbox.tables import asset_forward, outbox
from store.keys import Wake

_e = asset_event.c
SENDER: Final = Wake("outbox")
"""The hint for what sends the messages."""


def _put() -> Insert:
    of_event = (literal(AIRFLOW), cast(_e.asset_id, Text), _e.id, _e.event_id, database_now())
    due = select(*of_event).join_from(asset_event, asset_forward, asset_forward.c.asset_id == _e.asset_id)
    due = due.where(_e.id.in_(bindparam("b_ids", expanding=True))).order_by(_e.id)
    return insert(outbox).from_select(["destination", "lane", "asset_event_id", "message_id", "created_at"], due)


_PUT: Final = _put()


async def after_events(connection: AsyncConnection, events: AddedEvents) -> Collection[Wake]:
    """Write a message for each event, unless it was read in Airflow."""
    if events.origin is EventOrigin.LISTENING:
        return NOBODY
    for some in chunks(events.ids):
        await connection.execute(_PUT, {"b_ids": list(some)})
    return {SENDER}


UNSENT: Final[Select[Any]] = select(outbox.c.asset_event_id)
"""The events that have a message which has not arrived: the message is made of the event when it is sent."""
