"""The files of events that were moved or deleted, or are being so: what every job of these events finds gone, or at another place.

A file that several events name is recorded with each of them. The rows are written with the steps of the cleaning. Whoever decides
about a run by them, and whoever decides that files may go, take turns: so no run begins with files that go meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, and_, case, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import configuration_lock
from store.database.dialects import chunks, is_one_of, upsert
from store.database.schema import (
    asset,
    asset_alias,
    asset_alias_asset,
    asset_event,
    asset_interest,
    job,
    queued_event,
    run,
    run_asset_event,
)
from store.fates import Fate
from store.features.clean_source.tables import IS_SOUGHT, removed_file
from store.runs.tries.changed_items import ChangedItem, name_of

_LOCK: Final = 7_305_811_464_228_961_113  # an arbitrary number that nothing else uses
_f, _r = removed_file.c, run_asset_event.c
FEATURE: Final = "clean_source"
"""The name under which assets are of interest."""
UNKNOWN_PLACE: Final[Mapping[str, Any]] = {}
"""The place of a file that was moved, or is being moved, as long as it is not known where to."""


class FileOfEvent(NamedTuple):
    """A file, by an event that names it and its place among the event's files."""

    event_id: int
    number: int


async def exclude_runs(connection: AsyncConnection) -> None:
    """Let nobody decide about a run by these rows until this transaction ends. SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


async def _exclude_removals(connection: AsyncConnection) -> None:
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock_shared(_LOCK)))


async def take_in_hand(connection: AsyncConnection, files: Collection[FileOfEvent], *, moves: bool) -> None:
    """Record that files are being removed. The caller has excluded runs, and decided that they may go."""
    await forget(connection, files)
    place = json.dumps(UNKNOWN_PLACE) if moves else None
    rows = [{"event_id": each.event_id, "number": each.number, "place": place, "in_hand": True} for each in files]
    if rows:
        await connection.execute(insert(removed_file), rows)


async def take_interest(connection: AsyncConnection, files: Collection[FileOfEvent]) -> None:
    """Take part in whatever is decided about the runs of these files' events from now on, of whatever assets they are."""
    e, i = asset_event.c, asset_interest.c
    of_events = select(e.asset_id).distinct().where(e.id.in_({each.event_id for each in files}))
    new = of_events.where(e.asset_id.not_in(select(i.asset_id).where(i.feature == FEATURE)))
    if assets := (await connection.execute(new)).scalars().all():
        await configuration_lock.share(connection)
        rows = [{"asset_id": asset_id, "feature": FEATURE} for asset_id in sorted(assets)]
        interest = upsert(asset_interest, connection.dialect.name)
        await connection.execute(interest.on_conflict_do_nothing(), rows)


async def assets_of_interest(connection: AsyncConnection) -> frozenset[int]:
    """Return the assets that are of interest already, and of whose events files are gone."""
    e, i = asset_event.c, asset_interest.c
    is_gone = select(_f.event_id).join(asset_event, e.id == _f.event_id).where(e.asset_id == i.asset_id)
    query = select(i.asset_id).where(i.feature == FEATURE, is_gone.correlate(asset_interest).exists())
    return frozenset((await connection.execute(query)).scalars())


async def conclude(connection: AsyncConnection, files: Mapping[FileOfEvent, Mapping[str, Any] | None]) -> None:
    """Record that files, of which nothing is recorded, are removed, each with its new place. None: it was deleted."""
    rows = [
        {"event_id": each.event_id, "number": each.number, "place": None if place is None else json.dumps(place)}
        for each, place in files.items()
    ]
    if rows:
        await connection.execute(insert(removed_file), rows)


async def forget(connection: AsyncConnection, files: Collection[FileOfEvent]) -> None:
    """Record that files are where they were."""
    for some in chunks([*files]):
        await connection.execute(delete(removed_file).where(tuple_(_f.event_id, _f.number).in_(some)))


class RemovedFile(NamedTuple):
    """A file that is gone from its place: `cleaned`, or `moved`, with the address of its new place if that is known."""

    fate: Fate
    moved_to: str | None = None


async def of_events(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, Mapping[int, RemovedFile]]:
    """Return the files that are gone from their places, by event and number."""
    gone: defaultdict[int, dict[int, RemovedFile]] = defaultdict(dict)
    for some in chunks(sorted(event_ids)):
        here = is_one_of(_f.event_id, some, connection.dialect.name)
        query = select(_f.event_id, _f.number, _f.place).where(here, ~_f.in_hand)
        for row in await connection.execute(query):
            gone[row.event_id][row.number] = _removed(row.place)
    return gone


def _removed(text: str | None) -> RemovedFile:
    if text is None:
        return RemovedFile(Fate.CLEANED)
    place = json.loads(text)
    return RemovedFile(Fate.MOVED, name_of(place) if place else None)


async def between(connection: AsyncConnection, low: int, high: int) -> Mapping[int, Mapping[int, Fate]]:
    """Return the files of events from `low` to `high` that are gone from their places, by event and number."""
    gone: defaultdict[int, dict[int, Fate]] = defaultdict(dict)
    query = select(_f.event_id, _f.number, _f.place).where(_f.event_id.between(low, high), ~_f.in_hand)
    for row in await connection.execute(query):
        gone[row.event_id][row.number] = Fate.CLEANED if row.place is None else Fate.MOVED
    return gone


@dataclass(frozen=True, kw_only=True)
class DeletedFiles:
    """The jobs that are known, how many files were deleted by the uri of their events' asset, and the uris that aliases resolved to.

    `queued` counts by job those of its queued events.
    """

    jobs: AbstractSet[str]
    files: Mapping[str, int]
    queued: Mapping[str, int]
    aliases: Mapping[str, AbstractSet[str]]


async def deleted(connection: AsyncConnection) -> DeletedFiles:
    """Count all files that were deleted, by asset."""
    e = asset_event.c
    files = select(asset.c.uri, func.count().label("files")).join_from(removed_file, asset_event, e.id == _f.event_id)
    files = files.join(asset, asset.c.id == e.asset_id).where(_f.place.is_(None), ~_f.in_hand).group_by(asset.c.uri)
    q = queued_event.c
    queued = select(q.dag_id, func.count().label("files")).join_from(
        queued_event, removed_file, _f.event_id == q.event_id
    )
    queued = queued.where(_f.place.is_(None), ~_f.in_hand).group_by(q.dag_id)
    resolved = select(asset_alias.c.name, asset.c.uri).join_from(asset_alias_asset, asset_alias).join(asset)
    uris: defaultdict[str, set[str]] = defaultdict(set)
    for row in await connection.execute(resolved):
        uris[row.name].add(row.uri)
    return DeletedFiles(
        jobs={*(await connection.execute(select(job.c.dag_id))).scalars()},
        files={row.uri: row.files for row in await connection.execute(files)},
        queued={row.dag_id: row.files for row in await connection.execute(queued)},
        aliases=uris,
    )


class RemovedFiles:
    """Implements `store.runs.tries.changed_items.ItemChanges`."""

    async def of_runs(
        self, connection: AsyncConnection, run_ids: Collection[int], /, *, lock: bool
    ) -> Mapping[int, Sequence[ChangedItem]]:
        if lock:
            await _exclude_removals(connection)
        query = select(run.c.id, _f.event_id, _f.number, _f.place, _f.in_hand)
        query = query.join_from(run, run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
        query = query.join(removed_file, _f.event_id == _r.event_id)
        items: defaultdict[int, list[ChangedItem]] = defaultdict(list)
        for row in await connection.execute(query.where(is_one_of(run.c.id, [*run_ids], connection.dialect.name))):
            items[row.id].append(_changed(row))
        return items

    async def count(self, connection: AsyncConnection, event_ids: Select[Any], /) -> Mapping[Fate, int]:
        fate = case((_f.place.is_(None), Fate.CLEANED.value), else_=Fate.MOVED.value).label("fate")
        query = select(fate, func.count().label("files")).where(_f.event_id.in_(event_ids), ~_f.in_hand)
        return Counter({Fate(row.fate): row.files for row in await connection.execute(query.group_by(fate))})


CHANGES: Final = RemovedFiles()


def _changed(row: Any) -> ChangedItem:
    """Return a changed item. What was moved to a place that is not known is in hand until somebody has looked for it."""
    place = None if row.place is None else json.loads(row.place)
    is_sought = place == UNKNOWN_PLACE
    return ChangedItem(
        event_id=row.event_id,
        number=row.number,
        fate=Fate.CLEANED if place is None or (is_sought and not row.in_hand) else Fate.MOVED,
        place=None if is_sought else place,
        is_in_hand=row.in_hand or is_sought,
    )


@dataclass(frozen=True, kw_only=True)
class SoughtFile:
    """A file that an earlier release has moved or deleted, and whose place is to be looked for."""

    file: FileOfEvent
    event_id: str
    """The id of its event over all installations."""
    extra: str


async def sought(connection: AsyncConnection, watcher: str, *, limit: int) -> Sequence[SoughtFile]:
    """Return some files of a watcher's events whose places are to be looked for."""
    e = asset_event.c
    query = select(_f.event_id.label("id"), _f.number, e.event_id, e.extra).join(asset_event, e.id == _f.event_id)
    query = query.where(IS_SOUGHT, ~_f.in_hand, e.source_watcher == watcher)
    rows = await connection.execute(query.order_by(_f.event_id, _f.number).limit(limit))
    return [SoughtFile(file=FileOfEvent(row.id, row.number), event_id=row.event_id, extra=row.extra) for row in rows]


async def give_up_search(connection: AsyncConnection, watchers: Collection[str]) -> None:
    """Take files for deleted whose places are not known, of events of other watchers than these, which could look for them."""
    of_others = select(asset_event.c.id).where(asset_event.c.source_watcher.not_in(watchers))
    unknown = update(removed_file).where(IS_SOUGHT, ~_f.in_hand, _f.event_id.in_(of_others))
    await connection.execute(unknown.values(place=None))
