"""The jobs that are owed an event before its files may go, as the configuration, the queues and the open steps are now. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sqlalchemy import select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.schema import (
    asset_alias_asset,
    asset_event,
    job,
    job_schedule_alias,
    job_schedule_asset,
    open_step,
)
from store.fates import Fate
from store.runs import fates
from store.runs.fates import EventAtJob

_e, _s = asset_event.c, open_step.c


@dataclass(frozen=True, kw_only=True)
class OwedEvent:
    """What decides whether an event's files may go: the jobs that are owed it, and what became of it at each job."""

    jobs: Collection[str]
    at_jobs: Sequence[EventAtJob]


async def owed_events(
    connection: AsyncConnection, recorded: Mapping[int, Collection[str] | None]
) -> Mapping[int, OwedEvent]:
    """Return which jobs are owed these events, given with the jobs that got each when it was stored. None: that is not recorded.

    These are the recorded ones, else those that have the event by now; those for which it is queued; and those of which a step is
    open that may queue it still. Jobs that are not configured any more are owed nothing.
    """
    at_jobs = await fates.at_jobs(connection, recorded.keys())
    active = {*(await connection.execute(select(job.c.dag_id).where(job.c.active))).scalars()}
    assets = await _assets(connection, recorded.keys())
    to_come = await _jobs_with_open_steps(connection, {*assets.values()})
    owed: dict[int, OwedEvent] = {}
    for event_id, got in recorded.items():
        known = at_jobs.get(event_id, ())
        reached = {each.dag_id for each in known}
        later = sorted(to_come.get(assets.get(event_id, 0), frozenset()) - reached)
        here = [*known, *(EventAtJob(dag_id=dag_id, fate=Fate.QUEUED) for dag_id in later)]
        queued = {each.dag_id for each in here if each.fate is Fate.QUEUED}
        owed[event_id] = OwedEvent(jobs=({*(reached if got is None else got)} | queued) & active, at_jobs=here)
    return owed


async def _assets(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, int]:
    assets: dict[int, int] = {}
    for some in chunks(sorted(event_ids)):
        rows = await connection.execute(select(_e.id, _e.asset_id).where(_e.id.in_(some)))
        assets |= {row.id: row.asset_id for row in rows}
    return assets


async def _jobs_with_open_steps(
    connection: AsyncConnection, asset_ids: Collection[int]
) -> Mapping[int, AbstractSet[str]]:
    """Return the jobs that wait for these assets and catch up with their events, or have them replayed."""
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    direct = select(s.asset_id, s.dag_id).join(open_step, _s.dag_id == s.dag_id).where(s.asset_id.in_(asset_ids))
    through_alias = select(r.asset_id, a.dag_id).join_from(
        asset_alias_asset, job_schedule_alias, a.alias_id == r.alias_id
    )
    through_alias = through_alias.join(open_step, _s.dag_id == a.dag_id).where(r.asset_id.in_(asset_ids))
    jobs: defaultdict[int, set[str]] = defaultdict(set)
    for asset_id, dag_id in await connection.execute(union(direct, through_alias)):
        jobs[asset_id].add(dag_id)
    return jobs
