"""Which events runs consumed, which runs consumed events, and which events are in failed runs. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import asset_event, run, run_asset_event, watcher
from store.detection.event_lists import StoredEvent, with_assets
from store.runs.runs import IS_THERE, RunRow, this_run

_e = asset_event.c


async def events_of_run(
    connection: AsyncConnection, dag_id: str, run_id: str, *, limit: int | None = None
) -> Sequence[StoredEvent]:
    """Return the events that a run consumes, oldest first; all, unless there is a `limit`."""
    r = run_asset_event.c
    consumed = with_assets().join(run_asset_event, r.event_id == _e.id).where(r.dag_id == dag_id, r.run_id == run_id)
    return await all_of(connection, consumed.order_by(_e.id).limit(limit), StoredEvent.stored)


@dataclass(frozen=True, kw_only=True)
class ConsumingRun(RunRow):
    """A run that consumed an event; `triggering`: the event completed the condition."""

    event_id: int
    triggering: bool


async def runs_of_events(connection: AsyncConnection, event_ids: Collection[int]) -> Sequence[ConsumingRun]:
    """Return the runs that consumed events, oldest first, without deleted ones."""
    r = run_asset_event.c
    query = (
        select(r.event_id, r.completed.label("triggering"), run)
        .select_from(run_asset_event)
        .join(run, and_(run.c.dag_id == r.dag_id, run.c.run_id == r.run_id))
        .where(r.event_id.in_(event_ids), IS_THERE)
    )
    return await all_of(connection, query.order_by(run.c.id), ConsumingRun)


async def events_with_source(connection: AsyncConnection, event_ids: Collection[int]) -> Collection[int]:
    """Return those of the events whose watcher is configured, or whose run is there."""
    by_watcher = exists().where(watcher.c.name == _e.source_watcher, watcher.c.active)
    by_run = exists().where(this_run(_e.source_dag_id, _e.source_run_id), IS_THERE)
    query = select(_e.id).where(_e.id.in_(event_ids), or_(by_watcher, by_run))
    return {*(await connection.execute(query)).scalars()}


_r = run_asset_event.c
_FAILED = and_(run.c.dag_id == _r.dag_id, run.c.run_id == _r.run_id, run.c.state == "failed")


async def unprocessed_of_jobs(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, int]:
    """Return how many events are in failed runs of each job, without jobs that have none."""
    counted = select(_r.dag_id, func.count().label("events")).join(run, _FAILED).where(_r.dag_id.in_(dag_ids))
    return {row.dag_id: row.events for row in await connection.execute(counted.group_by(_r.dag_id))}


_UNPROCESSED_OF_ASSETS: Final = (
    select(asset_event.c.asset_id, func.count(asset_event.c.id.distinct()).label("events"))
    .select_from(run_asset_event)
    .join(run, _FAILED)
    .join(asset_event, asset_event.c.id == _r.event_id)
    .where(asset_event.c.asset_id.in_(bindparam("b_ids", expanding=True)))
    .group_by(asset_event.c.asset_id)
)


async def unprocessed_of_assets(connection: AsyncConnection, asset_ids: Collection[int]) -> Mapping[int, int]:
    """Return how many events of each asset are in failed runs, without assets that have none."""
    counted = await connection.execute(_UNPROCESSED_OF_ASSETS, {"b_ids": list(asset_ids)})
    return {row.asset_id: row.events for row in counted}
