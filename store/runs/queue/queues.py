"""Queued events: what the scheduler decides on under a job's lock, and what people see and delete, as in Airflow."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self, TypeAlias

from sqlalchemy import CTE, ColumnElement, ScalarSelect, Select, and_, bindparam, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import dropped_events
from store.database.paging import all_of, equal
from store.database.schema import asset, database_now, job, open_step, queued_event, run
from store.keys import JobDefinition
from store.references import ONLY_PLAIN, keys

ACTIVE = ("queued", "running")
StoredAsset: TypeAlias = tuple[str, str | None]
"""An asset's name, and the names of the parts of its partition keys, as they are stored."""


@dataclass(frozen=True, kw_only=True)
class Rest:
    """The part of a long queue, up to the event `to`, that is already decided: its runs follow whatever is queued now.

    `completed_by` completed the condition; None: a tick alone decided.
    """

    to: int
    completed_by: int | None


@dataclass(frozen=True, kw_only=True)
class JobQueue:
    """A job's queue as the scheduler decides on it, read under the job's lock; `now` is the database's clock."""

    dag_id: str
    task_id: str
    definition: JobDefinition
    cron: str | None
    clock: str | None
    """The cron by which `next_tick` was computed."""
    next_tick: datetime | None
    paused: bool
    steps: AbstractSet[str]
    """The features that have something to do before runs are made of the queue. A paused job has those that go on."""
    rest: Rest | None
    active_runs: int
    first_events: Mapping[str, int]
    """The lowest queued event that satisfies each reference, by the reference's key: an asset's name without `where`."""
    assets: Mapping[int, StoredAsset]
    """The assets with queued events, by their ids."""
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The tick of a job that is next, by the cron that the job has now; None: it has none."""

    dag_id: str
    cron: str | None
    next_tick: datetime | None


async def set_clocks(connection: AsyncConnection, clocks: Sequence[Clock]) -> None:
    """Keep which ticks are next, in the transaction that read the queues."""
    if clocks:
        rows = [{"b_dag_id": each.dag_id, "b_clock": each.cron, "b_next_tick": each.next_tick} for each in clocks]
        await connection.execute(_SET_CLOCK, rows)


async def lock_queues(connection: AsyncConnection, dag_ids: Collection[str]) -> Sequence[JobQueue]:
    """Lock jobs' queues against other schedulers and read them, without jobs that were removed.

    A paused job is among them while it has a step that goes on.

    Reading costs a few index probes for each queued asset and `where`, however many events are queued. The locks leave the jobs'
    keys alone, so whoever adds events to a queue does not wait.
    """
    jobs = (await connection.execute(_LOCK_JOBS, {"b_dag_ids": list(dag_ids)})).all()
    if not jobs:
        return []
    first_events: defaultdict[str, dict[str, int]] = defaultdict(dict)
    assets: defaultdict[str, dict[int, StoredAsset]] = defaultdict(dict)
    active: dict[str, int] = {}
    steps: dict[str, AbstractSet[str]] = {}
    paused = [row.dag_id for row in jobs if row.paused]
    rows = (await connection.execute(_LOOK, {"b_dag_ids": [row.dag_id for row in jobs], "b_paused": paused})).all()
    for row in rows:
        active[row.dag_id] = row.runs
        steps[row.dag_id] = frozenset((row.steps or "").split(",")) - {""}
        if row.name is not None:
            assets[row.dag_id][row.asset_id] = (row.name, row.partition_parts)
            first = first_events[row.dag_id]
            first.update(
                {each: min(row.event_id, first.get(each, row.event_id)) for each in keys(row.name, row.satisfies)}
            )
    return [
        JobQueue(
            dag_id=row.dag_id,
            task_id=row.task_id,
            definition=row.definition,
            cron=row.cron,
            clock=row.clock,
            next_tick=row.next_tick,
            paused=row.paused,
            steps=steps[row.dag_id],
            rest=None if row.rest_to is None else Rest(to=row.rest_to, completed_by=row.rest_completed_by),
            active_runs=active[row.dag_id],
            first_events=first_events[row.dag_id],
            assets=assets[row.dag_id],
            now=rows[0].now,
        )
        for row in jobs
        if not row.paused or steps[row.dag_id]  # another process may have taken the last step meanwhile
    ]


_q, _j, _s = queued_event.c, job.c, open_step.c
_DAG_IDS: Final = bindparam("b_dag_ids", type_=_j.dag_id.type, expanding=True)
_SET_CLOCK: Final = (
    update(job)
    .where(_j.dag_id == bindparam("b_dag_id"))
    .values(clock=bindparam("b_clock"), next_tick=bindparam("b_next_tick"))
)
# A scalar, because the planner would read the whole table for an EXISTS beside OR.
_goes_on: Final = select(_s.feature).where(_s.dag_id == _j.dag_id, _s.while_paused).limit(1).scalar_subquery()
_LOCK_JOBS: Final = (
    select(_j.dag_id, _j.task_id, _j.definition, _j.cron, _j.clock, _j.next_tick, _j.rest_to, _j.rest_completed_by)
    .add_columns(_j.paused)
    .where(_j.dag_id.in_(_DAG_IDS), _j.active, or_(~_j.paused, _goes_on.is_not(None)))
    .order_by(_j.dag_id)
    .with_for_update(key_share=True)
)


def first_of_each(dag_ids: ColumnElement[bool]) -> CTE:
    """Select jobs with the first queued event of each asset and of what its events satisfy, one probe behind the previous one.

    Each job's last row has no event. The requested order is that of one index alone: by another index, a probe without a
    match would read the whole queue.
    """
    previous = queued_event.alias("previous")
    p = previous.c

    def lowest(*where: ColumnElement[bool]) -> ScalarSelect[int]:
        first = select(_q.event_id).where(*where).order_by(_q.asset_id, _q.satisfies, _q.event_id).limit(1)
        return first.correlate(job, previous).scalar_subquery()

    first = select(_j.dag_id, lowest(_q.dag_id == _j.dag_id).label("event_id")).where(dag_ids)
    each = first.cte("queued_first", recursive=True)
    # A comparison of both columns at once would read all that equals, on SQLite.
    same_asset = lowest(_q.dag_id == p.dag_id, _q.asset_id == p.asset_id, _q.satisfies > p.satisfies)
    following = func.coalesce(same_asset, lowest(_q.dag_id == p.dag_id, _q.asset_id > p.asset_id))
    this = and_(p.dag_id == each.c.dag_id, p.event_id == each.c.event_id)
    return each.union_all(select(each.c.dag_id, following).join_from(each, previous, this))


def _look() -> Select[Any]:
    each = first_of_each(_j.dag_id.in_(_DAG_IDS))
    mine = (run.c.dag_id == each.c.dag_id, run.c.state.in_(ACTIVE))
    active = select(func.count(run.c.id)).where(*mine).scalar_subquery()
    look = select(each.c.dag_id, each.c.event_id, asset.c.name, asset.c.partition_parts, _q.satisfies)
    goes_on = or_(_s.while_paused, each.c.dag_id.not_in(bindparam("b_paused", type_=_j.dag_id.type, expanding=True)))
    steps = select(func.aggregate_strings(_s.feature, ",")).where(_s.dag_id == each.c.dag_id, goes_on)
    look = look.add_columns(_q.asset_id, active.label("runs"), steps.scalar_subquery().label("steps"))
    look = look.add_columns(database_now().label("now"))
    this = and_(_q.dag_id == each.c.dag_id, _q.event_id == each.c.event_id)
    return look.select_from(each).outerjoin(queued_event, this).outerjoin(asset, asset.c.id == _q.asset_id)


_LOOK: Final = _look()


@dataclass(frozen=True, kw_only=True)
class Span:
    """When the oldest and the newest of a job's queued events came; `now` is the database's clock after that."""

    oldest: datetime
    newest: datetime
    now: datetime


async def span(connection: AsyncConnection, dag_id: str) -> Span:
    """Return the span of a job's queue that is locked and not empty.

    It reads the whole queue in the database, so it is for queues whose condition is met.
    """
    times = {
        name: of(_q.created_at, type_=_q.created_at.type) for name, of in (("oldest", func.min), ("newest", func.max))
    }
    query = select(*(time.label(name) for name, time in times.items()), database_now().label("now"))
    row = (await connection.execute(query.where(_q.dag_id == dag_id))).one()
    return Span(oldest=row.oldest, newest=row.newest, now=row.now)


async def oldest(connection: AsyncConnection, dag_id: str, limit: int, to: int | None) -> Mapping[int, str | None]:
    """Return the first events of a locked queue, in order, up to the event `to` (None: all), each with its partition key."""
    upper = true() if to is None else _q.event_id <= to
    first = select(_q.event_id, _q.partition_key).where(_q.dag_id == dag_id, upper).order_by(_q.event_id).limit(limit)
    return {row.event_id: row.partition_key for row in await connection.execute(first)}


@dataclass(frozen=True, kw_only=True)
class KeyedEvent:
    """A queued event with the references that it satisfies, its asset's parts, its partition key, and when it came."""

    event_id: int
    references: AbstractSet[str]
    parts: Sequence[str]
    key: str | None
    came: datetime

    @classmethod
    def of(cls, row: Any) -> Self:
        """Return the event of a row of `keyed_events`."""
        parts = names_of_parts(row.partition_parts)
        references = keys(row.name, row.satisfies)
        return cls(
            event_id=row.event_id, references=references, parts=parts, key=row.partition_key, came=row.created_at
        )


def keyed_events() -> Select[Any]:
    """Select the columns that `KeyedEvent.of` needs, of queued events."""
    columns = (_q.event_id, asset.c.name, asset.c.partition_parts, _q.satisfies, _q.partition_key, _q.created_at)
    return select(*columns).join(asset, asset.c.id == _q.asset_id)


def names_of_parts(parts: str | None) -> Sequence[str]:
    """Return the names of the parts of an asset's keys, as they are stored."""
    return () if parts is None else tuple(json.loads(parts))


async def newest(connection: AsyncConnection, dag_id: str) -> int:
    """Return the last event of a queue that is not empty."""
    last: int = (await connection.execute(select(func.max(_q.event_id)).where(_q.dag_id == dag_id))).scalar_one()
    return last


async def set_rest(connection: AsyncConnection, dag_id: str, rest: Rest | None) -> None:
    """Keep which part of a locked queue is decided and has no runs yet."""
    to, completed_by = (None, None) if rest is None else (rest.to, rest.completed_by)
    this = update(job).where(job.c.dag_id == dag_id)
    await connection.execute(this.values(rest_to=to, rest_completed_by=completed_by))


@dataclass(frozen=True, kw_only=True)
class CountedQueue:
    """A job, an asset, and how many of its events that satisfy the same references are in the job's queue."""

    dag_id: str
    asset_id: int
    name: str
    uri: str
    events: int
    satisfies: str = ONLY_PLAIN


async def counted(connection: AsyncConnection) -> Sequence[CountedQueue]:
    """Count everything that is queued, by job, asset and what the events satisfy. It reads all queues."""
    group = (_q.dag_id, _q.asset_id, _q.satisfies)
    groups = select(*group, func.count().label("events")).group_by(*group).subquery()
    query = select(groups, asset.c.name, asset.c.uri).join_from(groups, asset, asset.c.id == groups.c.asset_id)
    return await all_of(connection, query.order_by(groups.c.dag_id, asset.c.name, groups.c.satisfies), CountedQueue)


@dataclass(frozen=True, kw_only=True)
class QueueFilter:
    """Conditions on queued events; None means all. `before` is exclusive."""

    dag_id: str | None = None
    asset_id: int | None = None
    before: datetime | None = None

    @property
    def condition(self) -> ColumnElement[bool]:
        earlier = true() if self.before is None else _q.created_at < self.before
        return and_(equal(_q.dag_id, self.dag_id), equal(_q.asset_id, self.asset_id), earlier)


@dataclass(frozen=True, kw_only=True)
class QueuedAsset:
    """A job and an asset with events in the job's queue; `created_at` is the oldest one's."""

    dag_id: str
    asset_id: int
    created_at: datetime


async def listed(connection: AsyncConnection, which: QueueFilter) -> Sequence[QueuedAsset]:
    """Return what is queued, by job and asset."""
    oldest = func.min(_q.created_at, type_=_q.created_at.type).label("created_at")
    query = select(_q.dag_id, _q.asset_id, oldest).where(which.condition).group_by(_q.dag_id, _q.asset_id)
    return await all_of(connection, query.order_by(_q.dag_id, _q.asset_id), QueuedAsset)


async def remove(connection: AsyncConnection, which: QueueFilter, *, actor: str) -> int:
    """Take events off the queue, so that no run will consume them; return how many.

    The jobs are locked as a scheduler locks them, so events that it is deciding on are not removed meanwhile.
    """
    waiting = select(_q.dag_id).where(which.condition)
    jobs = select(job.c.dag_id).where(job.c.dag_id.in_(waiting)).order_by(job.c.dag_id)
    await connection.execute(jobs.with_for_update(key_share=True))
    return await dropped_events.take_off(connection, which.condition, reason=dropped_events.DELETED, actor=actor)
