"""Catching up: a new job with `catchup` gets the events of its assets that were stored before it was first seen.

How far they go, and of which assets they are, is kept in the transaction that applies the job. Steps of the scheduler queue
them, oldest first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, bindparam, func, insert, literal, select, union, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature
from store.database.schema import (
    asset,
    asset_alias,
    asset_alias_asset,
    asset_event,
    database_now,
    job,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
)
from store.keys import JobDefinition
from store.references import ONLY_PLAIN, UNDECIDED

_e, _j = asset_event.c, job.c


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """The stored events that a job still has to get: those of these assets after the event `at`, up to the event `to`."""

    at: int
    to: int
    assets: Sequence[int]

    @classmethod
    def of(cls, at: int | None, to: int | None, assets: str | None) -> CatchUp | None:
        """Return what a job's columns say; None: it has them all."""
        return None if at is None or to is None or assets is None else cls(at=at, to=to, assets=json.loads(assets))


def catches_up(definition: JobDefinition) -> bool:
    """Whether a new job gets the events that were stored before it. With a cron, `catchup` is about ticks."""
    return definition.catchup and definition.schedule is not None and definition.cron is None


async def begin(connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
    """Keep what new jobs with `catchup` have to get. Count how many events of each new job's assets are stored, if any are.

    A job that no longer catches up, or is not configured any more, gets no more of them.
    """
    counts: dict[str, int] = {}
    new = sorted(applied.jobs.keys() - applied.jobs_before.keys())
    for dag_id, definition in ((dag_id, applied.jobs[dag_id]) for dag_id in new):
        assets = (await connection.execute(scheduled(dag_id))).scalars().all()
        row = (await connection.execute(_STORED, {"b_assets": list(assets)})).one()
        if row.events:
            counts[dag_id] = row.events
        if row.events and catches_up(definition):
            place = {"catchup_at": 0, "catchup_to": row.newest, "catchup_assets": json.dumps(sorted(assets))}
            await connection.execute(update(job).where(_j.dag_id == dag_id).values(place))
    for row in (await connection.execute(_CATCHING_UP)).all():
        if not (row.active and catches_up(row.definition)):
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
    nothing = {"catchup_at": None, "catchup_to": None, "catchup_assets": None}
    await connection.execute(update(job).where(_j.dag_id == dag_id).values(nothing))


async def queue(
    connection: AsyncConnection, dag_id: str, which: CatchUp, *, limit: int, filtered: bool
) -> Sequence[int]:
    """Queue the next events for a locked job, and return them in order. What a `where` makes of them is to be decided."""
    satisfies = literal(UNDECIDED if filtered else ONLY_PLAIN)
    some = select(literal(dag_id), _e.id, _e.asset_id, database_now(), _e.partition_key, satisfies)
    some = some.where(_e.asset_id.in_(which.assets), _e.asset_id.in_(scheduled(dag_id)))
    some = some.where(_e.id > which.at, _e.id <= which.to).order_by(_e.id).limit(limit)
    names = ["dag_id", "event_id", "asset_id", "created_at", "partition_key", "satisfies"]
    rows = await connection.execute(insert(queued_event).from_select(names, some).returning(queued_event.c.event_id))
    events = sorted(rows.scalars())
    if events:
        await connection.execute(update(job).where(_j.dag_id == dag_id).values(catchup_at=events[-1]))
    return events


def scheduled(dag_id: str) -> Any:
    """Select the assets that a job waits for, through aliases too."""
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    through_alias = select(r.asset_id).join(job_schedule_alias, a.alias_id == r.alias_id).where(a.dag_id == dag_id)
    return union(select(s.asset_id).where(s.dag_id == dag_id), through_alias)


_STORED: Final = select(func.count().label("events"), func.max(_e.id).label("newest")).where(
    _e.asset_id.in_(bindparam("b_assets", expanding=True))
)
_FIRST_LACKING: Final = select(func.min(_j.catchup_at)).scalar_subquery()
_kept = asset_event.alias("lacking").c
LACKING: Final[Select[Any]] = select(_kept.id).where(_kept.id > _FIRST_LACKING)
"""The events that new jobs may still have to get: those after the first one that any of them lacks."""
_CATCHING_UP: Final[Select[Any]] = select(_j.dag_id, _j.active, _j.definition).where(_j.catchup_at.is_not(None))
