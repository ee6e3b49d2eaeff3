"""Records the events whose files are to be moved or deleted, in the transaction that stores them, with the jobs that got them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from sqlalchemy import Insert, Text, bindparam, cast, delete, func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import edges_of_jobs
from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature
from store.database.dialects import chunks
from store.database.schema import asset_event, database_time_in, queued_event
from store.detection.interest import NOBODY, AddedEvents, EventOrigin
from store.fates import Fate
from store.features.clean_source import removed_files
from store.features.clean_source.tables import cleaned_watcher, cleaning
from store.keys import Wake

_e, _w = asset_event.c, cleaned_watcher.c


@dataclass(frozen=True, kw_only=True)
class CleanedWatcher:
    """A watcher whose events' files are removed, no sooner than `after` a job has loaded them. `assets` are those of its events."""

    after: timedelta
    assets: Collection[str]


async def apply(
    connection: AsyncConnection,
    applied: AppliedCatalog,
    watchers: Mapping[str, CleanedWatcher],
    more_assets: Collection[str] = (),
) -> AppliedFeature:
    """Mirror the watchers, given by name. Events of a watcher that is left out are not recorded any more.

    Events of `more_assets` may name the same files.
    """
    configured = {name: watcher.after.total_seconds() for name, watcher in watchers.items()}
    if configured != {row.watcher: row.after_seconds for row in await connection.execute(select(cleaned_watcher))}:
        await connection.execute(delete(cleaned_watcher))
        if configured:
            rows = [{"watcher": name, "after_seconds": seconds} for name, seconds in sorted(configured.items())]
            await connection.execute(insert(cleaned_watcher), rows)
    await removed_files.give_up_search(connection, watchers.keys())
    own = {name for watcher in watchers.values() for name in watcher.assets}
    named = {applied.asset_ids[name] for name in own.union(more_assets)}
    interest = named | await removed_files.assets_of_interest(connection)
    return AppliedFeature(interest=interest, counts={"cleaned": await _cleaned_before(connection, applied)})


async def _cleaned_before(connection: AsyncConnection, applied: AppliedCatalog) -> Mapping[str, int]:
    """Count by new job the files that were deleted of the events which it catches up with, without jobs that lack none."""
    counts: dict[str, int] = {}
    for dag_id in sorted(applied.jobs.keys() - applied.jobs_before.keys()):
        if applied.jobs[dag_id].catches_up:
            of_assets = select(_e.id).where(_e.asset_id.in_(edges_of_jobs.awaited_assets(dag_id)))
            counts[dag_id] = (await removed_files.CHANGES.count(connection, of_assets)).get(Fate.CLEANED, 0)
    return {dag_id: files for dag_id, files in counts.items() if files}


async def after_events(connection: AsyncConnection, events: AddedEvents) -> Collection[Wake]:
    """Record the events of these watchers, with the jobs in whose queues they are now."""
    if events.origin is EventOrigin.DETECTION:
        for some in chunks(events.ids):
            await connection.execute(_recording(connection.dialect.name), {"b_ids": list(some)})
    return NOBODY


@cache
def _recording(dialect: str) -> Insert:
    q = queued_event.c
    jobs = cast(func.json_agg(q.dag_id), Text) if dialect == "postgresql" else func.json_group_array(q.dag_id)
    owed = func.coalesce(select(jobs).where(q.event_id == _e.id).scalar_subquery(), literal("[]"))
    due_at = database_time_in(_w.after_seconds)
    mine = select(_e.id, _e.source_watcher, owed, literal("waiting"), due_at)
    mine = mine.join_from(asset_event, cleaned_watcher, _w.watcher == _e.source_watcher)
    mine = mine.where(_e.id.in_(bindparam("b_ids", expanding=True)))
    return insert(cleaning).from_select(["event_id", "watcher", "owed", "state", "due_at"], mine)
