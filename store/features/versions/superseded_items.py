"""Which items of runs are superseded: a newer version of their path is in the same run, or is queued, running or loaded at the job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

from anyio.to_thread import run_sync
from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, is_one_of
from store.database.schema import (
    asset_event,
    dropped_event,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_try,
)
from store.detection.sketched_events import has_bits
from store.fates import HAS_LOADED, Fate
from store.features.versions import file_versions
from store.features.versions.file_versions import FilePath, NamedVersion, Newest
from store.keys import TaskInstanceKey, TryKey
from store.runs import fates
from store.runs.runs import this_run
from store.runs.tries import changed_items
from store.runs.tries.changed_items import ChangedItem, ChangedItems, ItemChanges
from store.runs.tries.try_lookup import this_try

MOST_COUNTED: Final = 1_000
"""The most events whose superseded items are counted."""
_AT_ONCE: Final = 50
"""The most runs, and the most events of other runs, that are in memory at a time."""
_SOON_READ: Final = 200_000
"""Characters of events that are read in the event loop. More are read in a thread."""
_MOST_SKETCHED: Final = 100
"""The most names that are searched by sketches; the text of each event that may come into question is read for more."""
_MOST_READ: Final = 20_000
"""The most events that one search reads, the newest of those that may name one of the paths."""
_COUNTS: Final = frozenset({Fate.QUEUED, Fate.RUNNING, *HAS_LOADED})
"""The fates at a job of an event whose versions count."""
_e, _r, _t, _y = asset_event.c, run_asset_event.c, task_instance.c, task_try.c
T = TypeVar("T")
Versions: TypeAlias = tuple[Newest, Sequence[NamedVersion]]


class SupersededItems(ItemChanges):
    """What newer versions supersede. Before a run's first try its own events decide: the job finds out what is gone."""

    async def of_runs(
        self,
        connection: AsyncConnection,
        run_ids: Collection[int],
        /,
        *,
        lock: bool,  # noqa: ARG002  a newer version that comes meanwhile is found by the job
    ) -> Mapping[int, Sequence[ChangedItem]]:
        tried = await _tried(connection, run_ids)
        several = {*tried, *await _with_several_events(connection, run_ids)}
        items: dict[int, Sequence[ChangedItem]] = {}
        for some in _groups(sorted(several)):
            items |= await _of_some(connection, some, tried)
        return items

    async def count(self, connection: AsyncConnection, event_ids: Select[Any], /) -> Mapping[Fate, int]:
        """Count the items that newer ones of the same events supersede, of the first `MOST_COUNTED` events."""
        query = _EVENTS.where(_e.id.in_(event_ids)).order_by(_e.id).limit(MOST_COUNTED)
        _, superseded = file_versions.split(_versions(await connection.execute(query)))
        return {Fate.SUPERSEDED: len(superseded)} if superseded else {}


SUPERSEDED: Final = SupersededItems()


async def _of_some(
    connection: AsyncConnection, run_ids: Collection[int], tried: Collection[int]
) -> Mapping[int, Sequence[ChangedItem]]:
    """Return the superseded items of a few runs. What came later counts for those that have had a try."""
    jobs, versions = await _versions_of_runs(connection, run_ids)
    items = {run_id: [*superseded] for run_id, (_, superseded) in versions.items()}
    again = [run_id for run_id in versions if run_id in tried]
    for dag_id in sorted({jobs[run_id] for run_id in again}):
        mine = {run_id: versions[run_id][0] for run_id in again if jobs[run_id] == dag_id}
        newer = await newer_at_job(connection, dag_id, mine.values())
        for run_id, newest in mine.items():
            items[run_id] += file_versions.superseded_by(newer, newest)
    changed = {run_id: [*map(_item, each)] for run_id, each in items.items() if each}
    return await _as_admitted(connection, changed, tried)


async def _as_admitted(
    connection: AsyncConnection, changed: Mapping[int, Sequence[ChangedItem]], tried: Collection[int]
) -> Mapping[int, Sequence[ChangedItem]]:
    """Return the superseded items without those that came after a run was cleared that had succeeded: its part would have fewer rows.

    Its job finds out that they are gone, and fails.
    """
    admitted = await changed_items.admitted_without(connection, [each for each in changed if each in tried])
    kept = {
        run_id: [item for item in items if run_id not in admitted or (item.event_id, item.number) in admitted[run_id]]
        for run_id, items in changed.items()
    }
    return {run_id: items for run_id, items in kept.items() if items}


async def missed(
    connection: AsyncConnection, task: TaskInstanceKey, names: Collection[str]
) -> Mapping[str, Sequence[ChangedItem]]:
    """Return what newer versions supersede of the files with these names that a job misses, by name. Reads only.

    A run that has succeeded before leaves out nothing so: its part would have fewer rows.
    """
    [run_id] = (await connection.execute(select(run.c.id).where(this_run(task.dag_id, task.run_id)))).scalars()
    jobs, versions = await _versions_of_runs(connection, [run_id])
    if not versions or run_id in await changed_items.have_succeeded(connection, [run_id]):
        return {}
    asked = file_versions.named(versions[run_id][0], names)
    superseded = file_versions.superseded_by(await newer_at_job(connection, jobs[run_id], [asked]), asked)
    by_name = defaultdict[str, list[ChangedItem]](list)
    for version in superseded:
        by_name[version.path.name].append(_item(version))
    return by_name


async def leave_out(connection: AsyncConnection, key: TryKey, items: Collection[ChangedItem]) -> None:
    """Keep with a try, which is locked, that it leaves out these items from now on."""
    known = await changed_items.of_try(connection, key)
    changed = ChangedItems.merged([*known.items, *items])
    await connection.execute(update(task_try).where(this_try(key)).values(changed_items=changed.to_json()))
    counts = changed.counts_to_json()
    await connection.execute(update(run).where(this_run(key.dag_id, key.run_id)).values(changed_items=counts))


def _item(version: NamedVersion) -> ChangedItem:
    return ChangedItem(event_id=version.event_id, number=version.number, fate=Fate.SUPERSEDED)


_EVENTS: Final = select(_e.id, _e.asset_id, _e.source_watcher, _e.extra).where(_e.source_watcher.is_not(None))
_OF_RUNS: Final = (
    select(run.c.id.label("run"), run.c.dag_id, _e.id, _e.asset_id, _e.source_watcher, _e.extra)
    .join_from(run, run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
    .join(asset_event, _e.id == _r.event_id)
    .where(run.c.id.in_(bindparam("b_runs", expanding=True)), _e.source_watcher.is_not(None))
    .order_by(_e.id)
)


def _versions(rows: Iterable[Any]) -> Iterable[NamedVersion]:
    return chain.from_iterable(
        file_versions.versions_of(row.id, row.asset_id, row.source_watcher, row.extra) for row in rows
    )


async def _versions_of_runs(
    connection: AsyncConnection, run_ids: Collection[int]
) -> tuple[Mapping[int, str], Mapping[int, Versions]]:
    """Return the job of each run, and what its events name, of runs with events of files."""
    rows = (await connection.execute(_OF_RUNS, {"b_runs": [*run_ids]})).all()
    return await _in_time(rows, _split_by_run)


def _split_by_run(rows: Sequence[Any]) -> tuple[Mapping[int, str], Mapping[int, Versions]]:
    of_runs = defaultdict[int, list[NamedVersion]](list)
    for row in rows:
        of_runs[row.run] += file_versions.versions_of(row.id, row.asset_id, row.source_watcher, row.extra)
    versions = {run_id: file_versions.split(named) for run_id, named in of_runs.items() if named}
    return {row.run: row.dag_id for row in rows}, versions


def _groups(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


async def _with_several_events(connection: AsyncConnection, run_ids: Collection[int]) -> Collection[int]:
    """Return which of these runs have several events. One event names each path once."""
    query = select(run.c.id).join(run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
    query = query.group_by(run.c.id).having(func.count() > 1)
    several: set[int] = set()
    for some in chunks(sorted(run_ids)):
        several.update((await connection.execute(query.where(run.c.id.in_(some)))).scalars())
    return several


async def _tried(connection: AsyncConnection, run_ids: Collection[int]) -> frozenset[int]:
    """Return which of these runs have had a try."""
    of_run = and_(_t.dag_id == run.c.dag_id, _t.run_id == run.c.run_id)
    query = select(run.c.id).distinct().join_from(run, task_instance, of_run)
    query = query.join(task_try, _y.task_instance_id == _t.id)
    tried: set[int] = set()
    for some in chunks(sorted(run_ids)):
        tried.update((await connection.execute(query.where(run.c.id.in_(some)))).scalars())
    return frozenset(tried)


async def newer_at_job(connection: AsyncConnection, dag_id: str, of_runs: Collection[Newest]) -> Sequence[NamedVersion]:
    """Return the versions of these paths that events of a job name which came later, and which it has loaded, has, or waits for."""
    after: dict[FilePath, int] = {}
    for path, versions in chain.from_iterable(newest.items() for newest in of_runs):
        after[path] = min(after.get(path, versions[-1].event_id), versions[-1].event_id)
    newer: list[NamedVersion] = []
    for asset_id, watcher in sorted({(path.asset_id, path.watcher) for path in after}):
        mine = {path: event_id for path, event_id in after.items() if path[:2] == (asset_id, watcher)}
        for some in _groups(await _candidates(connection, dag_id, asset_id, watcher, mine)):
            these = is_one_of(_e.id, [*some], connection.dialect.name)
            rows = (await connection.execute(_EVENTS.where(these).order_by(_e.id))).all()
            naming = await _in_time(rows, partial(_later_versions, mine))
            at_jobs = await fates.at_jobs(connection, {version.event_id for version in naming}) if naming else {}
            counting = {
                event_id
                for event_id, each in at_jobs.items()
                if any(fate.dag_id == dag_id and fate.fate in _COUNTS for fate in each)
            }
            newer += [version for version in naming if version.event_id in counting]
    return newer


def _later_versions(after: Mapping[FilePath, int], rows: Sequence[Any]) -> Sequence[NamedVersion]:
    return [version for version in _versions(rows) if version.event_id > after.get(version.path, version.event_id)]


async def _in_time(rows: Sequence[Any], read: Callable[[Sequence[Any]], T]) -> T:
    """Read what events say: in a thread if it is much, so that the event loop goes on."""
    return read(rows) if sum(len(row.extra) for row in rows) < _SOON_READ else await run_sync(read, rows)


async def _candidates(
    connection: AsyncConnection, dag_id: str, asset_id: int, watcher: str, paths: Mapping[FilePath, int]
) -> Sequence[int]:
    """Return the newest events of a watcher that may name a newer version of some of these paths, and that the job got."""
    names = {path.name for path in paths}
    mine = and_(_e.asset_id == asset_id, _e.source_watcher == watcher, _e.id > min(paths.values()))
    query = select(_e.id).where(mine, _may_name(names), _is_at(dag_id)).order_by(_e.id.desc()).limit(_MOST_READ)
    return sorted((await connection.execute(query)).scalars())


def _may_name(names: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that an event may name one of these. Those with many files have no sketch of their names."""
    if len(names) > _MOST_SKETCHED:
        return true()
    return or_(_e.sketch_bits.is_(None), *map(has_bits, sorted(names)))


def _is_at(dag_id: str) -> ColumnElement[bool]:
    """Return the condition that a job got an event. Each table is probed by the event alone, as `fates.place_at_job` does."""
    places = (queued_event, run_asset_event, dropped_event)
    return or_(*(exists().where(place.c.event_id == _e.id, place.c.dag_id.concat("") == dag_id) for place in places))
