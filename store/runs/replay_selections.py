"""Which events and runs a replay is about: parts of statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, and_, case, or_, select, true

from store.catalog import edges_of_jobs
from store.database.paging import equal
from store.database.schema import (
    asset_alias_asset,
    asset_event,
    dropped_event,
    job,
    job_outlet,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
    run,
    run_asset_event,
)
from store.runs.queues import ACTIVE
from store.runs.runs import DELETED, OVER

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


def assets_of(which: ReplayRange) -> Any:
    """Return the assets that a replay is about."""
    return edges_of_jobs.awaited_assets(which.dag_id) if which.asset_id is None else [which.asset_id]


def in_range(which: ReplayRange) -> ColumnElement[bool]:
    """The condition that an event is in the range."""
    times = and_(_e.timestamp >= which.since, _e.timestamp < which.until)
    return and_(_e.asset_id.in_(assets_of(which)), times, equal(_e.partition_key, which.partition))


def kinds(which: ReplayRange) -> Select[Any]:
    """Select the events of the range, each with what became of it in the job.

    Each table is probed by the event alone: the planner, while its statistics are from before the events, takes an index
    that begins with the job instead, and reads all events of the job for each event.
    """

    def of_event(table: Table) -> ColumnElement[bool]:
        return and_(table.c.event_id == _e.id, table.c.dag_id.concat("") == which.dag_id)

    queued, dropped = (
        select(table.c.event_id).where(of_event(table)).correlate(asset_event).exists()
        for table in (queued_event, dropped_event)
    )
    run_id = select(_r.run_id).where(of_event(run_asset_event)).correlate(asset_event).scalar_subquery()
    state_of_run = select(run.c.state).where(run.c.dag_id == which.dag_id, run.c.run_id == run_id).scalar_subquery()
    kind = case(
        (queued, "waiting"),
        (or_(dropped, state_of_run == DELETED), "dropped"),
        (state_of_run.in_(ACTIVE), "running"),
        (state_of_run.is_not(None), "over"),
        else_="new",
    )
    return select(_e.id, _e.asset_id, _e.partition_key, kind.label("kind")).where(in_range(which))


def cleared(which: ReplayRange, after: int, last: int | None) -> ColumnElement[bool]:
    """The condition that a run of the job is over and consumed an event of the range."""
    has_event = select(_e.id).join(run_asset_event, _r.event_id == _e.id).where(RUN_OF, in_range(which))
    upper = true() if last is None else run.c.id <= last
    here = and_(run.c.dag_id == which.dag_id, run.c.state.in_(OVER), run.c.id > after, upper)
    return and_(here, has_event.correlate(run).exists())


def behind(dag_id: str) -> Select[Any]:
    """Select the jobs that wait for what a job writes."""
    o, s, a, r = job_outlet.c, job_schedule_asset.c, job_schedule_alias.c, asset_alias_asset.c
    written = select(o.asset_id).where(o.dag_id == dag_id)
    through_alias = select(a.dag_id).join(asset_alias_asset, r.alias_id == a.alias_id).where(r.asset_id.in_(written))
    direct = select(s.dag_id).where(s.asset_id.in_(written))
    return (
        select(_j.dag_id).where(_j.active, or_(_j.dag_id.in_(direct), _j.dag_id.in_(through_alias))).order_by(_j.dag_id)
    )
