"""Queued events that a job's schedule does not wait for, since it changed: a person runs them or takes them off the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, dropped_events, open_steps
from store.database.paging import all_of, now_of
from store.database.schema import asset, job, job_schedule_alias, job_schedule_asset, queued_event
from store.errors import Conflict
from store.keys import JobDefinition
from store.references import is_awaited, keys
from store.runs import jobs
from store.runs.queue import queues
from store.runs.queue.queues import KeyedEvent, keyed_events
from store.runs.queue.waiting import MOST_COUNTED

_q, _j = queued_event.c, job.c
_DAG_ID: Final = bindparam("b_dag_id", type_=_q.dag_id.type)
_LOCK: Final = select(_j.dag_id).where(_j.dag_id == _DAG_ID).with_for_update(key_share=True)


@dataclass(frozen=True, kw_only=True)
class KeptQueue:
    """The kept events of one job, read under the job's lock; `now` is the database's clock."""

    dag_id: str
    task_id: str
    definition: JobDefinition
    events: int
    newest: int
    now: datetime


async def count(connection: AsyncConnection, dag_id: str) -> int:
    """Return how many queued events the job's schedule does not wait for."""
    kept = await _kept(connection, dag_id)
    events: int = (await connection.execute(select(func.count()).select_from(queued_event).where(kept))).scalar_one()
    return events


def all_of_job(dag_id: str) -> Select[Any]:
    """Select the ids of all queued events of a job."""
    return select(_q.event_id).where(_q.dag_id == dag_id)


async def _kept(connection: AsyncConnection, dag_id: str) -> ColumnElement[bool]:
    """Return the condition that a queued event is one of these: of which assets they are, and what they satisfied."""
    each = queues.first_of_each(_j.dag_id == dag_id)
    this = and_(_q.dag_id == each.c.dag_id, _q.event_id == each.c.event_id)
    groups = select(_q.asset_id, _q.satisfies, asset.c.name, _j.definition).join_from(each, queued_event, this)
    groups = groups.join(asset, asset.c.id == _q.asset_id).join(job, _j.dag_id == _q.dag_id)
    resolved = await aliases.resolved_names(connection, dag_id)
    kept = (
        and_(_q.asset_id == row.asset_id, _q.satisfies == row.satisfies)
        for row in await connection.execute(groups)
        if not is_awaited(row.definition.schedule, keys(row.name, row.satisfies), resolved)
    )
    return and_(_q.dag_id == dag_id, or_(false(), *kept))


async def lock(connection: AsyncConnection, dag_id: str) -> KeptQueue:
    """Lock a job's queue against the scheduler. Raises `NotFound`, and `Conflict` while a step that a person asked for is open."""
    declared = await jobs.get(connection, dag_id)
    await connection.execute(_LOCK, {"b_dag_id": dag_id})
    for feature, while_paused in (await open_steps.of_job(connection, dag_id)).items():
        if while_paused:
            raise Conflict(f"a {feature} of {dag_id} goes on; ask again when it has queued its events")
    newest = (
        await connection.execute(select(func.max(_q.event_id)).where(await _kept(connection, dag_id)))
    ).scalar_one()
    return KeptQueue(
        dag_id=dag_id,
        task_id=declared.task_id,
        definition=declared.definition,
        events=await count(connection, dag_id),
        newest=newest or 0,
        now=await now_of(connection),
    )


async def oldest(connection: AsyncConnection, dag_id: str, *, limit: int, to: int) -> Sequence[KeyedEvent]:
    """Return the first of these events up to the event `to`, in order."""
    kept = await _kept(connection, dag_id)
    first = keyed_events().where(kept, _q.event_id <= to).order_by(_q.event_id).limit(limit)
    return [KeyedEvent.of(row) for row in await connection.execute(first)]


async def take_off(connection: AsyncConnection, dag_id: str, *, actor: str) -> int:
    """Take these events off the locked queue, so that no run will consume them; return how many."""
    return await dropped_events.take_off(
        connection, await _kept(connection, dag_id), reason=dropped_events.DELETED, actor=actor
    )


@dataclass(frozen=True, kw_only=True)
class StrandedQueue:
    """A configured job that nothing starts, and its queued events, of which at most `MOST_COUNTED` + 1 are counted."""

    dag_id: str
    events: int
    oldest: datetime


async def stranded(connection: AsyncConnection) -> Sequence[StrandedQueue]:
    """Return the configured jobs without a schedule that have queued events, by name."""
    return await all_of(connection, _STRANDED, StrandedQueue)


def _stranded() -> Select[Any]:
    edges = (job_schedule_asset.c.dag_id, job_schedule_alias.c.dag_id)
    is_scheduled = or_(_j.cron.is_not(None), *(select(edge).where(edge == _j.dag_id).exists() for edge in edges))
    mine = select(_q.created_at).where(_q.dag_id == _j.dag_id).correlate(job)
    oldest = mine.order_by(_q.event_id).limit(1).scalar_subquery()
    some = mine.limit(MOST_COUNTED + 1).subquery()
    counted = select(func.count()).select_from(some).scalar_subquery()
    query = select(_j.dag_id, counted.label("events"), oldest.label("oldest"))
    return query.where(_j.active, ~is_scheduled, oldest.is_not(None)).order_by(_j.dag_id)


_STRANDED: Final = _stranded()
