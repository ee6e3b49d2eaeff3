"""What the queues of jobs hold and lack, for people who ask why nothing runs. Reads only.

It costs a few index probes for each asset of a job's schedule, however many events are queued.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, and_, func, literal, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
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
from store.references import ONLY_PLAIN, keys
from store.runs.jobs import JOB_COLUMNS, JobRow
from store.runs.queue.queues import ACTIVE, first_of_each

MOST_COUNTED: Final = 1000
"""The most queued events of one job and asset that are counted; one more is read, to show that there are more."""
_q = queued_event.c


@dataclass(frozen=True, kw_only=True)
class QueueOfAsset:
    """An asset of a job's schedule, by itself or through an alias, and what the job's queue holds of it.

    Events that satisfy different references, because of their `where`, are apart. An asset without queued events is there
    once.
    """

    dag_id: str
    asset_id: int
    asset: str
    queued: int
    oldest: datetime | None
    satisfies: str = ONLY_PLAIN

    @property
    def keys(self) -> AbstractSet[str]:
        """The keys of the references that these events satisfy."""
        return keys(self.asset, self.satisfies) if self.queued else frozenset()


async def queues_of(connection: AsyncConnection, dag_ids: Collection[str]) -> Sequence[QueueOfAsset]:
    """Return the queues by job, asset and what the events satisfy, also where nothing is queued."""
    each, scheduled = first_of_each(job.c.dag_id.in_(dag_ids)), _scheduled(dag_ids).subquery("scheduled")
    this = and_(_q.dag_id == each.c.dag_id, _q.event_id == each.c.event_id)
    queued = select(_q.dag_id, _q.asset_id, _q.satisfies).join_from(each, queued_event, this)
    pair = select(scheduled, literal(ONLY_PLAIN).label("satisfies")).union(queued).subquery("pair")
    here = (_q.dag_id == pair.c.dag_id, _q.asset_id == pair.c.asset_id, _q.satisfies == pair.c.satisfies)
    first = select(_q.created_at).where(*here).order_by(_q.event_id).limit(1).correlate(pair).scalar_subquery()
    some = select(_q.event_id).where(*here).limit(MOST_COUNTED + 1).correlate(pair).subquery()
    counted = select(func.count()).select_from(some).scalar_subquery()
    columns = (pair.c.dag_id, pair.c.asset_id, asset.c.name.label("asset"), counted.label("queued"))
    query = select(*columns, first.label("oldest"), pair.c.satisfies)
    query = query.join_from(pair, asset, asset.c.id == pair.c.asset_id)
    query = query.order_by(pair.c.dag_id, asset.c.name, pair.c.satisfies)
    queues = await all_of(connection, query, QueueOfAsset)
    filled = {(queue.dag_id, queue.asset_id) for queue in queues if queue.queued}
    return [queue for queue in queues if queue.queued or (queue.dag_id, queue.asset_id) not in filled]


def _scheduled(dag_ids: Collection[str]) -> Any:
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    direct = select(s.dag_id, s.asset_id).where(s.dag_id.in_(dag_ids))
    through: Select[Any] = select(a.dag_id, r.asset_id).join(asset_alias_asset, r.alias_id == a.alias_id)
    return union(direct, through.where(a.dag_id.in_(dag_ids)))


async def jobs_scheduled_on(connection: AsyncConnection, asset_id: int) -> Sequence[JobRow]:
    """Return the configured jobs that wait for an asset's events, by its name or through an alias; by name."""
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    direct = select(s.dag_id).where(s.asset_id == asset_id)
    through = select(a.dag_id).join(asset_alias_asset, r.alias_id == a.alias_id).where(r.asset_id == asset_id)
    query = select(*JOB_COLUMNS).where(job.c.active, job.c.dag_id.in_(direct.union(through)))
    return await all_of(connection, query.order_by(job.c.dag_id), JobRow)


async def ids_by_watcher(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Return, by watcher, the configured jobs that wait for events of its assets, as `jobs_scheduled_on` does for one asset."""
    w = watcher_assets.configured().subquery("watched").c
    s, a, r = job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    mine = w.name.in_(watchers)
    direct = select(w.name, s.dag_id).join(job_schedule_asset, s.asset_id == w.asset_id).where(mine)
    associated = select(w.name, a.dag_id).join(asset_alias_asset, r.asset_id == w.asset_id).where(mine)
    both = union(direct, associated.join(job_schedule_alias, a.alias_id == r.alias_id)).subquery()
    query = select(both.c.name, both.c.dag_id).join(job, job.c.dag_id == both.c.dag_id).where(job.c.active)
    jobs: dict[str, list[str]] = defaultdict(list)
    for row in await connection.execute(query.order_by(both.c.dag_id)):
        jobs[row.name].append(row.dag_id)
    return jobs


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
