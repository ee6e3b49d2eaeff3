"""Which events and runs a replay is about: parts of statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import edges_of_jobs
from store.database.dialects import chunks
from store.database.paging import equal
from store.database.schema import (
    asset_alias_asset,
    asset_event,
    job,
    job_outlet,
    job_schedule_alias,
    job_schedule_asset,
    run,
    run_asset_event,
)
from store.fates import Fate
from store.runs import fates
from store.runs.fates import PlaceAtJob
from store.runs.runs import OVER

_e, _r, _j = asset_event.c, run_asset_event.c, job.c
RUN_OF: Final = and_(run.c.dag_id == _r.dag_id, run.c.run_id == _r.run_id)


@dataclass(frozen=True, kw_only=True)
class ReplayRange:
    """The stored events of a job's assets from a moment on, before another.

    `asset_id` None: all assets of its schedule. `partition` None: events of any partition key, or without one.
    """

    dag_id: str
    since: datetime
    until: datetime
    asset_id: int | None = None
    partition: str | None = None
    include_dropped: bool = False
    include_items: Sequence[Fate] = ()
    """The fates of items that a run may lack that runs again although it has succeeded."""


def assets_of(which: ReplayRange) -> Any:
    """Return the assets that a replay is about."""
    return edges_of_jobs.awaited_assets(which.dag_id) if which.asset_id is None else [which.asset_id]


def in_range(which: ReplayRange) -> ColumnElement[bool]:
    """The condition that an event is in the range."""
    times = and_(_e.timestamp >= which.since, _e.timestamp < which.until)
    return and_(_e.asset_id.in_(assets_of(which)), times, equal(_e.partition_key, which.partition))


NEVER_CONSUMED: Final = PlaceAtJob("", Fate.NOT_TAKEN)
FORGOTTEN: Final[Sequence[PlaceAtJob]] = [
    PlaceAtJob("record", fate) for fate in (Fate.LOADED, Fate.FAILED, Fate.UNKNOWN)
]
"""Consumed by a run that the clean-up has removed."""
DROPPED: Final[Sequence[PlaceAtJob]] = [PlaceAtJob(in_place, Fate.DROPPED) for in_place in ("record", "run")]
"""Taken off the queue, or consumed by a run that a person deleted."""


def queueable(which: ReplayRange) -> Sequence[PlaceAtJob]:
    """Return the places at the job whose events the replay queues."""
    return [NEVER_CONSUMED, *DROPPED, *FORGOTTEN] if which.include_dropped else [NEVER_CONSUMED]


def places(which: ReplayRange) -> Select[Any]:
    """Select the events of the range, each with its place at the job as text."""
    place = fates.place_at_job(which.dag_id).label("place")
    return select(_e.id, _e.asset_id, _e.partition_key, place).where(in_range(which))


def cleared(which: ReplayRange, after: int, last: int | None) -> ColumnElement[bool]:
    """The condition that a run of the job is over and consumed an event of the range."""
    has_event = select(_e.id).join(run_asset_event, _r.event_id == _e.id).where(RUN_OF, in_range(which))
    upper = true() if last is None else run.c.id <= last
    here = and_(run.c.dag_id == which.dag_id, run.c.state.in_(OVER), run.c.id > after, upper)
    return and_(here, has_event.correlate(run).exists())


class EventCounts(NamedTuple):
    """How many events some runs have, and how many of these are in the range of a replay."""

    all: int
    in_range: int


async def count_events(connection: AsyncConnection, which: ReplayRange, run_ids: Collection[int]) -> EventCounts:
    """Count the events of runs."""
    here = case((in_range(which), 1), else_=0)
    query = select(func.count().label("events"), func.coalesce(func.sum(here), 0).label("here"))
    query = query.join_from(run, run_asset_event, RUN_OF).join(asset_event, _e.id == _r.event_id)
    counts = EventCounts(0, 0)
    for some in chunks(sorted(run_ids)):
        row = (await connection.execute(query.where(run.c.id.in_(some)))).one()
        counts = EventCounts(counts.all + row.events, counts.in_range + row.here)
    return counts


def behind(dag_id: str) -> Select[Any]:
    """Select the jobs that wait for what a job writes."""
    o, s, a, r = job_outlet.c, job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    written = select(o.asset_id).where(o.dag_id == dag_id)
    through_alias = select(a.dag_id).join(asset_alias_asset, r.alias_id == a.alias_id).where(r.asset_id.in_(written))
    direct = select(s.dag_id).where(s.asset_id.in_(written))
    return (
        select(_j.dag_id).where(_j.active, or_(_j.dag_id.in_(direct), _j.dag_id.in_(through_alias))).order_by(_j.dag_id)
    )
