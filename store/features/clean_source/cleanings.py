"""Events whose files are to be moved or deleted once every job that got them has loaded them, and how far that has come.

A row is written in the transaction that stores the event, with the jobs that got it then. Only the host of the watcher changes
it, behind the fence of the position's owner and epoch. No transaction lasts while a source is asked.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Select, bindparam, delete, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import all_of
from store.database.schema import (
    asset,
    asset_event,
    database_now,
    database_time_in,
    watcher_position,
    watcher_position_row,
)
from store.detection.positions import HeldPosition
from store.features.clean_source.removed_files import FileOfEvent
from store.features.clean_source.tables import cleaning

CleaningState: TypeAlias = Literal["waiting", "staying", "done"]
"""`waiting`: jobs have not loaded all, or its time has not come. `staying`: files stay, and somebody may change that."""

_c, _e = cleaning.c, asset_event.c


@dataclass(frozen=True, kw_only=True)
class FilesInHand:
    """The files that are being removed: by number, the names of their versions. `place` is the source as it was then.

    `outcomes` are those of the other files that were taken with them. `others` are the same files by other events that name them,
    `places` where copies of them are.
    """

    place: str
    files: Mapping[int, Sequence[int]]
    outcomes: Mapping[int, str] = field(default_factory=dict)
    is_copied: bool = False
    others: Mapping[int, Sequence[FileOfEvent]] = field(default_factory=dict)
    places: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def rows(self, event_id: int, numbers: Collection[int] | None = None) -> Mapping[FileOfEvent, int]:
        """Return the files, or those with these numbers, by all events that name them, each with its number in the event."""
        chosen = [number for number in self.files if numbers is None or number in numbers]
        return {
            each: number for number in chosen for each in (FileOfEvent(event_id, number), *self.others.get(number, ()))
        }

    @property
    def names(self) -> Sequence[int]:
        return [name for names in self.files.values() for name in names]

    def to_json(self) -> str:
        files = {str(number): [*names] for number, names in self.files.items()}
        outcomes = {str(number): outcome for number, outcome in self.outcomes.items()}
        others = {str(number): [*map(list, each)] for number, each in self.others.items()}
        places = {str(number): place for number, place in self.places.items()}
        known = {"place": self.place, "files": files, "outcomes": outcomes, "copied": self.is_copied}
        return json.dumps({**known, "others": others, "places": places})

    @classmethod
    def from_json(cls, text: str | None) -> FilesInHand | None:
        if text is None:
            return None
        document = json.loads(text)
        return cls(
            place=document["place"],
            files={int(number): names for number, names in document["files"].items()},
            outcomes={int(number): outcome for number, outcome in document["outcomes"].items()},
            is_copied=document["copied"],
            others={
                int(number): [FileOfEvent(*each) for each in events]
                for number, events in document.get("others", {}).items()
            },
            places={int(number): place for number, place in document.get("places", {}).items()},
        )


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """How far the cleaning of an event has come.

    A pass goes through the numbers in `files` (None: through all of the event); `next_file` is the place of the next. `staying` has
    the files that were gone through and stay, by number, each with the reason; another pass goes through them later.
    """

    event_id: int
    owed: Sequence[str] = ()
    state: CleaningState = "waiting"
    reason: str | None = None
    passes: int = 0
    next_file: int = 0
    files: Sequence[int] | None = None
    staying: Mapping[int, str] = field(default_factory=dict)
    in_hand: FilesInHand | None = None
    removed: int = 0

    @property
    def values(self) -> Mapping[str, Any]:
        """The columns that change."""
        return {
            "state": self.state,
            "reason": self.reason,
            "passes": self.passes,
            "next_file": self.next_file,
            "files": None if self.files is None else json.dumps([*self.files]),
            "staying": json.dumps({str(number): reason for number, reason in self.staying.items()}),
            "working": None if self.in_hand is None else self.in_hand.to_json(),
            "removed": self.removed,
        }


def _stored(**row: Any) -> Cleaning:
    return Cleaning(
        event_id=row["event_id"],
        owed=json.loads(row["owed"]),
        state=row["state"],
        reason=row["reason"],
        passes=row["passes"],
        next_file=row["next_file"],
        files=None if row["files"] is None else json.loads(row["files"]),
        staying={int(number): reason for number, reason in json.loads(row["staying"]).items()},
        in_hand=FilesInHand.from_json(row["working"]),
        removed=row["removed"],
    )


_COLUMNS: Final = [column for column in _c if column.name not in {"watcher", "due_at"}]
_DUE: Final = (
    select(*_COLUMNS)
    .where(_c.watcher == bindparam("b_watcher"), _c.due_at <= database_now())
    .order_by(_c.due_at)
    .limit(bindparam("b_limit"))
)


async def due(connection: AsyncConnection, watcher: str, *, limit: int) -> Sequence[Cleaning]:
    """Return events of a watcher that are to be looked at, those first that are due for the longest time."""
    return await all_of(connection, _DUE, _stored, {"b_watcher": watcher, "b_limit": limit})


async def get(connection: AsyncConnection, event_id: int) -> Cleaning:
    """Return the cleaning of an event as it stands."""
    [cleaned] = await all_of(connection, select(*_COLUMNS).where(_c.event_id == event_id), _stored)
    return cleaned


async def bring_forward(connection: AsyncConnection, watcher: str, after: timedelta) -> None:
    """Look at events of the watcher no later than so long from now: `after` may have been longer before."""
    latest = database_time_in(literal(after.total_seconds()))
    sooner = update(cleaning).where(_c.watcher == watcher, _c.due_at > latest)
    await connection.execute(sooner.values(due_at=latest))


async def is_held(connection: AsyncConnection, held: HeldPosition) -> bool:
    """Return whether the watcher's position is still this owner's, and lock it until the transaction ends."""
    p = watcher_position.c
    mine = select(p.watcher).where(p.watcher == held.watcher, p.owner == held.owner, p.epoch == held.epoch)
    return (await connection.execute(mine.with_for_update(read=True))).one_or_none() is not None


async def change(connection: AsyncConnection, changed: Cleaning, due_at: datetime | None) -> None:
    """Store how far a cleaning has come, and when to look at it next; None: never."""
    this = update(cleaning).where(_c.event_id == changed.event_id)
    await connection.execute(this.values(**changed.values, due_at=due_at))


async def forget_versions(connection: AsyncConnection, watcher: str, names: Collection[int]) -> None:
    """Drop versions that were removed from the watcher's large set. The running watcher drops them by itself."""
    r = watcher_position_row.c
    for some in chunks([*names]):
        await connection.execute(delete(watcher_position_row).where(r.watcher == watcher, r.member.in_(some)))


@dataclass(frozen=True, kw_only=True)
class EventFiles:
    """The event of a cleaning: its id over all installations, its asset's name, and its `extra` as JSON text."""

    event_id: str
    asset: str
    extra: str


async def files_of(connection: AsyncConnection, event_id: int) -> EventFiles:
    """Return what an event names."""
    query: Select[Any] = select(_e.event_id, asset.c.name.label("asset"), _e.extra).join(
        asset, asset.c.id == _e.asset_id
    )
    [event] = await all_of(connection, query.where(_e.id == event_id), EventFiles)
    return event


MOST_COUNTED: Final = 1_000
"""The most events whose files stay that are counted."""


async def staying(connection: AsyncConnection, watcher: str) -> Mapping[str, int]:
    """Return how many events of a watcher have files that stay, by reason."""
    some = select(_c.reason).where(_c.watcher == watcher, _c.state == "staying").limit(MOST_COUNTED).subquery()
    counted = select(some.c.reason, func.count().label("events")).group_by(some.c.reason).order_by(some.c.reason)
    return {row.reason or "": row.events for row in await connection.execute(counted)}


async def removed_since(connection: AsyncConnection, watcher: str, place: str) -> int:
    """Return how many files of a watcher's events were removed; of events stored since a `place` that is a time, or of all for `start`."""
    removed = select(func.coalesce(func.sum(_c.removed), 0)).where(_c.watcher == watcher)
    if place != "start":
        try:
            moment = datetime.fromisoformat(place)
        except ValueError:  # now, here, or an id
            return 0
        since = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        removed = removed.join(asset_event, _e.id == _c.event_id).where(_e.timestamp >= since)
    return int(await connection.scalar(removed) or 0)


async def of_events(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, Cleaning]:
    """Return the cleanings of those of these events that have one."""
    rows = await all_of(connection, select(*_COLUMNS).where(_c.event_id.in_(event_ids)), _stored)
    return {each.event_id: each for each in rows}
