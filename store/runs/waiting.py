"""What the queues of jobs hold and lack, for people who ask why nothing runs. Reads only.

It costs a few index probes for each asset of a job's schedule, however many events are queued.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, func, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import (
    asset,
    asset_alias,
    asset_alias_asset,
    job,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
    run,
)
from store.runs.jobs import JOB_COLUMNS, JobRow
from store.runs.queues import ACTIVE

MOST_COUNTED: Final = 1000
"""The most queued events of one job and asset that are counted; one more is read, to show that there are more."""
_q = queued_event.c


@dataclass(frozen=True, kw_only=True)
class QueueOfAsset:
    """An asset of a job's schedule, by itself or through an alias, and what the job's queue holds of it.

    `is_scheduled` False: the schedule does not wait for the asset, but an earlier one did, and its events are queued.
    """

    dag_id: str
    asset_id: int
    asset: str
    queued: int
    oldest: datetime | None
    is_scheduled: bool = True


async def queues_of(connection: AsyncConnection, dag_ids: Collection[str]) -> Sequence[QueueOfAsset]:
    """Return the queues by job and asset, also where nothing is queued."""
    queued, scheduled = _queued(dag_ids), _scheduled(dag_ids).subquery("scheduled")
    pair = select(scheduled.c.dag_id, scheduled.c.asset_id).union(queued).subquery("pair")
    here = (_q.dag_id == pair.c.dag_id, _q.asset_id == pair.c.asset_id)
    first = select(_q.created_at).where(*here).order_by(_q.event_id).limit(1).correlate(pair).scalar_subquery()
    some = select(_q.event_id).where(*here).limit(MOST_COUNTED + 1).correlate(pair).subquery()
    counted = select(func.count()).select_from(some).scalar_subquery()
    columns = (pair.c.dag_id, pair.c.asset_id, asset.c.name.label("asset"), counted.label("queued"))
    same = (scheduled.c.dag_id == pair.c.dag_id, scheduled.c.asset_id == pair.c.asset_id)
    is_scheduled = select(scheduled.c.dag_id).where(*same).correlate(pair).exists().label("is_scheduled")
    query = select(*columns, first.label("oldest"), is_scheduled)
    query = query.join_from(pair, asset, asset.c.id == pair.c.asset_id)
    return await all_of(connection, query.order_by(pair.c.dag_id, asset.c.name), QueueOfAsset)


def _scheduled(dag_ids: Collection[str]) -> Any:
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    direct = select(s.dag_id, s.asset_id).where(s.dag_id.in_(dag_ids))
    through: Select[Any] = select(a.dag_id, r.asset_id).join(asset_alias_asset, r.alias_id == a.alias_id)
    return union(direct, through.where(a.dag_id.in_(dag_ids)))


def _queued(dag_ids: Collection[str]) -> Select[Any]:
    """Select each job and queued asset, each by one probe behind the previous one."""
    lowest = select(_q.asset_id).where(_q.dag_id == job.c.dag_id).order_by(_q.asset_id).limit(1)
    first = select(job.c.dag_id, lowest.correlate(job).scalar_subquery().label("asset_id"))
    pairs = first.where(job.c.dag_id.in_(dag_ids)).cte("queued_pair", recursive=True)
    behind = (_q.dag_id == pairs.c.dag_id, _q.asset_id > pairs.c.asset_id)
    following = select(_q.asset_id).where(*behind).order_by(_q.asset_id).limit(1).correlate(pairs).scalar_subquery()
    pairs = pairs.union_all(select(pairs.c.dag_id, following).where(pairs.c.asset_id.is_not(None)))
    return select(pairs.c.dag_id, pairs.c.asset_id).where(pairs.c.asset_id.is_not(None))


async def jobs_scheduled_on(connection: AsyncConnection, asset_id: int) -> Sequence[JobRow]:
    """Return the configured jobs that wait for an asset's events, by its name or through an alias; by name."""
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    direct = select(s.dag_id).where(s.asset_id == asset_id)
    through = select(a.dag_id).join(asset_alias_asset, r.alias_id == a.alias_id).where(r.asset_id == asset_id)
    query = select(*JOB_COLUMNS).where(job.c.active, job.c.dag_id.in_(direct.union(through)))
    return await all_of(connection, query.order_by(job.c.dag_id), JobRow)


async def resolved(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, Mapping[str, set[str]]]:
    """Return, by job, the names of the assets that each alias of its schedule has resolved to."""
    s, r = job_schedule_alias.c, asset_alias_asset.c
    query = (
        select(s.dag_id, asset_alias.c.name.label("alias"), asset.c.name)
        .join_from(job_schedule_alias, asset_alias, asset_alias.c.id == s.alias_id)
        .join(asset_alias_asset, r.alias_id == s.alias_id)
        .join(asset, asset.c.id == r.asset_id)
        .where(s.dag_id.in_(dag_ids))
    )
    names: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in await connection.execute(query):
        names[row.dag_id][row.alias].add(row.name)
    return names


async def active_runs(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, int]:
    """Return how many runs of each job are queued or running, without jobs that have none."""
    counted = select(run.c.dag_id, func.count().label("runs")).where(run.c.state.in_(ACTIVE))
    rows = await connection.execute(counted.where(run.c.dag_id.in_(dag_ids)).group_by(run.c.dag_id))
    return {row.dag_id: row.runs for row in rows}


async def failed_runs(connection: AsyncConnection) -> Mapping[str, int]:
    """Return how many failed runs wait for a person's decision, by configured job."""
    counted = select(run.c.dag_id, func.count().label("runs")).join(job, job.c.dag_id == run.c.dag_id)
    rows = await connection.execute(
        counted.where(run.c.state == "failed", job.c.active).group_by(run.c.dag_id).order_by(run.c.dag_id)
    )
    return {row.dag_id: row.runs for row in rows}
