"""What is known of the events that name an item beside their fates at jobs: deletions, outlets, and what was rejected. Reads only."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import asset, asset_event, audit, job, rejected_item
from store.detection.rejections import RejectedRow
from store.runs.fates import JobRecord
from store.values import to_json

_e, _x = asset_event.c, rejected_item.c


@dataclass(frozen=True, kw_only=True)
class QueueDeletion:
    """A person took events of an asset off queues: of all jobs, or of the one in `target`."""

    asset_id: int

    at: datetime
    actor: str
    target: str

    def concerns(self, dag_id: str) -> bool:
        return self.target in {dag_id, f"asset {self.asset_id}"}


async def deletions_after(
    connection: AsyncConnection, asset_id: int, dag_ids: Collection[str], after: datetime
) -> Sequence[QueueDeletion]:
    """Return who took events of an asset off the queues of these jobs, oldest first, at or after a moment."""
    a = audit.c
    targets = or_(a.target == f"asset {asset_id}", a.target.in_(dag_ids))
    query = select(a.at, a.actor, a.target, a.detail).where(a.action == "queued_events.delete", a.at >= after, targets)
    return [
        QueueDeletion(asset_id=asset_id, at=row.at, actor=row.actor, target=row.target)
        for row in await connection.execute(query.order_by(a.id))
        if json.loads(row.detail).get("asset_id") in (None, asset_id)
    ]


def records(unrecorded_to: Mapping[str, int], deletions: Sequence[QueueDeletion]) -> Sequence[JobRecord]:
    """Return what decides about events that are in no place of these jobs, which wait for the asset that the deletions are about."""
    return [
        JobRecord(dag_id, to, max((each.at for each in deletions if each.concerns(dag_id)), default=None))
        for dag_id, to in unrecorded_to.items()
    ]


async def rejections_of(connection: AsyncConnection, watcher: str, name: Any) -> Sequence[RejectedRow]:
    """Return an item among those that a watcher rejects now: each of its contents, newest first. None is no item's name."""
    if name is None:
        return ()
    columns = (_x.key, _x.version, _x.column_name, _x.code, _x.reason, _x.rejected_at, _x.retry_at)
    query = select(*columns).where(_x.watcher == watcher, _x.key == to_json(name)).order_by(_x.rejected_at.desc())
    return await all_of(connection, query, RejectedRow)


@dataclass(frozen=True, kw_only=True)
class OutletOfRun:
    """An event that a run made on one of its outlets: what it says it wrote, and where."""

    dag_id: str
    run_id: str
    uri: str
    extra: Mapping[str, Any]


async def outlets_of(connection: AsyncConnection, runs: Collection[tuple[str, str]]) -> Sequence[OutletOfRun]:
    """Return the outlet events of these runs (job and run id), newest first."""
    a = asset.c
    query = select(_e.source_dag_id, _e.source_run_id, a.uri, _e.extra).join(asset, a.id == _e.asset_id)
    these = tuple_(_e.source_dag_id, _e.source_run_id).in_(runs)
    rows = await connection.execute(query.where(these).order_by(_e.id.desc())) if runs else ()
    return [
        OutletOfRun(dag_id=row.source_dag_id, run_id=row.source_run_id, uri=row.uri, extra=json.loads(row.extra))
        for row in rows
    ]


async def begun_at(connection: AsyncConnection, asset_id: int) -> datetime:
    """Return when an asset was configured first: no watcher of it reported anything earlier."""
    moment: datetime = (await connection.execute(select(asset.c.created_at).where(asset.c.id == asset_id))).scalar_one()
    return moment


async def targets_of(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, str]:
    """Return the option `target` of these jobs as configured now, of those that have one."""
    query = select(job.c.dag_id, job.c.definition).where(job.c.dag_id.in_(dag_ids))
    targets = {row.dag_id: row.definition.options.get("target") for row in await connection.execute(query)}
    return {dag_id: target for dag_id, target in targets.items() if isinstance(target, str)}
