"""Features that take part in the transaction of new events: which assets each is interested in, and what it then does.

A feature names its assets when a configuration is applied (`store.catalog.catalog_sync`). The kernel's own statement reads these
names with the queue rows that it makes. When nobody is interested in the assets of a transaction's events, nothing else runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from sqlalchemy import BigInteger, Subquery, Text, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_interest
from store.keys import Wake

_i = asset_interest.c
Interest: TypeAlias = Mapping[int, Collection[str]]
"""The features that are interested, by asset id; assets in which nobody is interested may be absent."""


class EventOrigin(StrEnum):
    """The ways in which events come."""

    DETECTION = "detection"
    """A watcher detected something."""
    POST = "post"
    """A person or a tool posted it."""
    JOB = "job"
    """A job reported it at its end, or succeeded."""
    LISTENING = "listening"
    """It was read from another system."""


@dataclass(frozen=True, kw_only=True)
class AddedEvents:
    """Events of one origin that the transaction has stored and queued, by their ids in order."""

    origin: EventOrigin
    ids: Sequence[int]


class AfterEvents(Protocol):
    """What a feature does in the transaction of events of its assets, after all statements of the kernel about them.

    It may write the feature's own tables, and locks nothing that the kernel locks. What it raises undoes the transaction. It
    returns whom to wake after the commit.
    """

    async def __call__(self, connection: AsyncConnection, events: AddedEvents, /) -> Collection[Wake]: ...


NOBODY: Final[frozenset[Wake]] = frozenset()


@dataclass(frozen=True, kw_only=True)
class EventHooks:
    """What the features of a process do with new events, by their names, in the order in which they run.

    The interest of a feature that this process does not have is passed over.
    """

    features: Mapping[str, AfterEvents] = field(default_factory=dict)

    async def run(
        self,
        connection: AsyncConnection,
        origin: EventOrigin,
        events: Iterable[tuple[int, int]],
        interest: Interest,
    ) -> frozenset[Wake]:
        """Let the features that are interested do their part, for events given by id and asset id. Return whom to wake."""
        if not interest:
            return NOBODY
        by_asset = sorted(events)
        wakes: set[Wake] = set()
        for feature, after_events in self.features.items():
            ids = [event_id for event_id, asset_id in by_asset if feature in interest.get(asset_id, ())]
            if ids:
                wakes.update(await after_events(connection, AddedEvents(origin=origin, ids=ids)))
        return frozenset(wakes)


NO_HOOKS: Final = EventHooks()
"""The hooks of a program without features."""


def interested() -> Subquery:
    """Return one row with the interest in the assets `b_assets`, for PostgreSQL: a JSON list of pairs, or null."""
    these = _i.asset_id == func.any(bindparam("b_assets", type_=ARRAY(BigInteger)))
    pairs = cast(func.json_agg(func.json_build_array(_i.asset_id, _i.feature)), Text)
    return select(pairs.label("pairs")).where(these).subquery("interested")


def interest_of(pairs: str | None) -> Interest:
    """Return the interest that `interested` has answered with."""
    interest: dict[int, set[str]] = {}
    if pairs is not None:
        for asset_id, feature in json.loads(pairs):
            interest.setdefault(asset_id, set()).add(feature)
    return interest


OF_EACH_EVENT: Final = (
    select(func.json_group_array(_i.feature))
    .where(_i.asset_id == literal_column("asset_event.asset_id"))  # an INSERT does not correlate
    .scalar_subquery()
)
"""A JSON list of the features that are interested, for SQLite to return with each event that it stores."""
