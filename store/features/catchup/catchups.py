"""Catching up: a new job with `catchup` gets the events of its assets that were stored before it was first seen.

How far they go, and of which assets they are, is kept in the transaction that applies the job, which opens the step that queues
them, oldest first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, bindparam, delete, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import edges_of_jobs, open_steps
from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature
from store.database.schema import (
    asset,
    asset_alias,
    asset_alias_asset,
    asset_event,
    database_now,
    job,
    queued_event,
)
from store.features.catchup.tables import catchup
from store.references import ONLY_PLAIN, UNDECIDED

FEATURE: Final = "catchup"
"""The name under which its steps are open."""
_e, _j, _c = asset_event.c, job.c, catchup.c


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """The stored events that a job still has to get: those of these assets after the event `at`, up to the event `to`."""

    at: int
    to: int
    assets: Sequence[int]


async def of_job(connection: AsyncConnection, dag_id: str) -> CatchUp | None:
    """Return what a locked job still has to get; None: it has it all."""
    row = (await connection.execute(select(catchup).where(_c.dag_id == dag_id))).one_or_none()
    return None if row is None else CatchUp(at=row.at_event, to=row.to_event, assets=json.loads(row.assets))


async def begin(connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
    """Keep what new jobs with `catchup` have to get. Count how many events of each new job's assets are stored, if any are.

    A job that no longer catches up, or is not configured any more, gets no more of them.
    """
    counts: dict[str, int] = {}
    new = sorted(applied.jobs.keys() - applied.jobs_before.keys())
    for dag_id, definition in ((dag_id, applied.jobs[dag_id]) for dag_id in new):
        assets = (await connection.execute(edges_of_jobs.awaited_assets(dag_id))).scalars().all()
        row = (await connection.execute(_STORED, {"b_assets": list(assets)})).one()
        if row.events:
            counts[dag_id] = row.events
        if row.events and definition.catches_up:
            place = {"at_event": 0, "to_event": row.newest, "assets": json.dumps(sorted(assets))}
            await connection.execute(insert(catchup).values(dag_id=dag_id, **place))
            await open_steps.open_(connection, dag_id, FEATURE)
    for row in (await connection.execute(_CATCHING_UP)).all():
        if not (row.active and row.definition.catches_up):
            await end(connection, row.dag_id)
    return AppliedFeature(counts={"earlier": counts})


@dataclass(frozen=True, kw_only=True)
class StoredEvents:
    """The jobs that are known, how many events of each asset are stored, by uri, and the uris that aliases resolved to."""

    jobs: AbstractSet[str]
    events: Mapping[str, int]
    aliases: Mapping[str, AbstractSet[str]]


async def stored(connection: AsyncConnection) -> StoredEvents:
    """Count all stored events by asset. It reads an index of all of them."""
    of_asset = select(_e.asset_id, func.count().label("events")).group_by(_e.asset_id).subquery()
    counted = select(asset.c.uri, of_asset.c.events).join(of_asset, of_asset.c.asset_id == asset.c.id)
    resolved = select(asset_alias.c.name, asset.c.uri).join_from(asset_alias_asset, asset_alias).join(asset)
    uris: defaultdict[str, set[str]] = defaultdict(set)
    for row in await connection.execute(resolved):
        uris[row.name].add(row.uri)
    return StoredEvents(
        jobs=set((await connection.execute(select(_j.dag_id))).scalars()),
        events={row.uri: row.events for row in await connection.execute(counted)},
        aliases=uris,
    )


async def end(connection: AsyncConnection, dag_id: str) -> None:
    """Record that a job has all that it had to get."""
    await connection.execute(delete(catchup).where(_c.dag_id == dag_id))
    await open_steps.close(connection, dag_id, FEATURE)


async def queue(
    connection: AsyncConnection, dag_id: str, which: CatchUp, *, limit: int, filtered: bool
) -> Sequence[int]:
    """Queue the next events for a locked job, and return them in order. What a `where` makes of them is to be decided."""
    satisfies = literal(UNDECIDED if filtered else ONLY_PLAIN)
    some = select(literal(dag_id), _e.id, _e.asset_id, database_now(), _e.partition_key, satisfies)
    some = some.where(_e.asset_id.in_(which.assets), _e.asset_id.in_(edges_of_jobs.awaited_assets(dag_id)))
    some = some.where(_e.id > which.at, _e.id <= which.to).order_by(_e.id).limit(limit)
    names = ["dag_id", "event_id", "asset_id", "created_at", "partition_key", "satisfies"]
    rows = await connection.execute(insert(queued_event).from_select(names, some).returning(queued_event.c.event_id))
    events = sorted(rows.scalars())
    if events:
        await connection.execute(update(catchup).where(_c.dag_id == dag_id).values(at_event=events[-1]))
    return events


_STORED: Final = select(func.count().label("events"), func.max(_e.id).label("newest")).where(
    _e.asset_id.in_(bindparam("b_assets", expanding=True))
)
_FIRST_LACKING: Final = select(func.min(_c.at_event)).scalar_subquery()
_kept = asset_event.alias("lacking").c
LACKING: Final[Select[Any]] = select(_kept.id).where(_kept.id > _FIRST_LACKING)
"""The events that new jobs may still have to get: those after the first one that any of them lacks."""
_CATCHING_UP: Final[Select[Any]] = select(_j.dag_id, _j.active, _j.definition).join(catchup, _c.dag_id == _j.dag_id)
