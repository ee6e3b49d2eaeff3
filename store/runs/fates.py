"""What became of events at jobs: in the queue, in a run, or recorded after the run or the queue entry was removed. Reads only.

At each job an event is in one of these three places, or in none: then no reference of the job took it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Select, String, and_, bindparam, case, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.dropped_events import FATE_BY_RUN, MARK, MARKED_PAST_RETENTION, OF_RUNS
from store.database.paging import all_of
from store.database.schema import asset_event, dropped_event, job, queued_event, run, run_asset_event
from store.fates import LEFT_OUT, Fate, of_run

_q, _r, _d, _e = queued_event.c, run_asset_event.c, dropped_event.c, asset_event.c
_OF_RUN: Final = and_(run.c.dag_id == _r.dag_id, run.c.run_id == _r.run_id)
_OUTCOME: Final = func.coalesce(_d.outcome, Fate.UNKNOWN.value)


@dataclass(frozen=True, kw_only=True)
class ConsumedBy:
    """A run among whose events an event is. `id` counts the runs of all jobs; `state` is `deleted` if a person deleted it."""

    id: int
    event_id: int
    dag_id: str
    run_id: str
    state: str
    reason: str | None
    warning: str | None
    bad_records: int | None
    end_date: datetime | None


@dataclass(frozen=True, kw_only=True)
class EventAtJob:
    """What became of an event at one job. `run` is the run that has it, as long as that is kept; None: no run has it."""

    dag_id: str
    fate: Fate
    run: ConsumedBy | None = None
    ended_at: datetime | None = None
    """When its run ended."""
    forgotten_run: str | None = None
    """The run that had it and that the clean-up has removed."""
    forgotten_at: datetime | None = None
    """When the clean-up has removed its run. None: it has not."""
    dropped_at: datetime | None = None
    dropped_by: str | None = None
    """When it was taken off the queue, and by whom. None, with a time: its job was removed."""
    is_marked: bool = False
    """A person decided how its run ended."""
    skipped_for: Fate | None = None
    """Why its run was skipped, of which nothing was left: `cleaned` or `superseded`. None: it was not."""
    left_out: Mapping[int, Fate] = field(default_factory=dict)
    """The fates of its items that the last try of its run did not get, by number. Of a run that is kept its try knows them."""
    is_left_out: bool = False
    """The last try of its run did not get the item that is asked about."""


class _Places(NamedTuple):
    """The statements that read events in each of the three places."""

    queued: Select[Any]
    consumed: Select[Any]
    recorded: Select[Any]


def _places(which: Callable[[ColumnElement[int]], ColumnElement[bool]]) -> _Places:
    """Return the statements for the events whose id fulfils a condition."""
    consumed = select(_r.event_id, _r.dag_id, _r.run_id, run.c.state)
    return _Places(
        queued=select(_q.event_id, _q.dag_id).where(which(_q.event_id)),
        consumed=consumed.join_from(run_asset_event, run, _OF_RUN).where(which(_r.event_id)),
        recorded=select(_d.event_id, _d.dag_id, _OUTCOME.label("outcome")).where(which(_d.event_id)),
    )


_EVENTS: Final = bindparam("b_events", type_=_q.event_id.type, expanding=True)
_LOW, _HIGH = bindparam("b_low", type_=BigInteger), bindparam("b_high", type_=BigInteger)
_OF_RUNS: Final = (run.c.id, run.c.reason, run.c.warning, run.c.bad_records, run.c.end_date)
_OF_RECORDS: Final = (_d.reason, _d.actor, _d.dropped_at, _d.run_id, _d.ended_at, _d.left_out)
_SOME: Final = _places(lambda event_id: event_id.in_(_EVENTS))
_QUEUED: Final = _SOME.queued.order_by(_q.dag_id)
_CONSUMED: Final = _SOME.consumed.add_columns(*_OF_RUNS).order_by(run.c.id)
_RECORDED: Final = _SOME.recorded.add_columns(*_OF_RECORDS).order_by(_d.dag_id)
_BETWEEN: Final = _places(lambda event_id: event_id.between(_LOW, _HIGH))


async def at_jobs(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, Sequence[EventAtJob]]:
    """Return what became of these events at each job that got them; runs first, oldest first."""
    given, fates = {"b_events": [*event_ids]}, defaultdict[int, list[EventAtJob]](list)
    for consumer in await all_of(connection, _CONSUMED, ConsumedBy, given):
        fates[consumer.event_id].append(_in_run(consumer))
    for event_id, dag_id in await connection.execute(_QUEUED, given):
        fates[event_id].append(EventAtJob(dag_id=dag_id, fate=Fate.QUEUED))
    for row in await connection.execute(_RECORDED, given):
        fates[row.event_id].append(_recorded(row))
    return fates


def _in_run(consumer: ConsumedBy) -> EventAtJob:
    is_marked = (consumer.reason or "").startswith(MARK)
    fate = of_run(consumer.state)
    return EventAtJob(
        dag_id=consumer.dag_id,
        fate=fate,
        run=consumer,
        ended_at=consumer.end_date,
        is_marked=is_marked,
        skipped_for=_skipped_for(consumer.reason) if fate is Fate.LOADED else None,
    )


def _skipped_for(reason: Any) -> Fate | None:
    return Fate(reason) if reason in LEFT_OUT else None


def _recorded(row: Any) -> EventAtJob:
    if row.reason not in OF_RUNS:
        return EventAtJob(dag_id=row.dag_id, fate=Fate(row.outcome), dropped_at=row.dropped_at, dropped_by=row.actor)
    left_out = json.loads(row.left_out or "{}")
    is_skipped = isinstance(left_out, str)
    return EventAtJob(
        dag_id=row.dag_id,
        fate=Fate(row.outcome),
        ended_at=row.ended_at,
        forgotten_run=row.run_id,
        forgotten_at=row.dropped_at,
        is_marked=row.reason == MARKED_PAST_RETENTION,
        skipped_for=_skipped_for(left_out) if is_skipped else None,
        left_out={} if is_skipped else {int(number): Fate(fate) for number, fate in left_out.items()},
    )


async def between(connection: AsyncConnection, low: int, high: int) -> Mapping[int, Mapping[str, Fate]]:
    """Return what became of all events from `low` to `high`, by the jobs that got them."""
    limits, fates = {"b_low": low, "b_high": high}, defaultdict[int, dict[str, Fate]](dict)
    for event_id, dag_id, _, state in await connection.execute(_BETWEEN.consumed, limits):
        fates[event_id][dag_id] = of_run(state)
    for event_id, dag_id in await connection.execute(_BETWEEN.queued, limits):
        fates[event_id][dag_id] = Fate.QUEUED
    for event_id, dag_id, outcome in await connection.execute(_BETWEEN.recorded, limits):
        fates[event_id][dag_id] = Fate(outcome)
    return fates


class JobRecord(NamedTuple):
    """A job that waits for events of an asset. What became of events up to `unrecorded_to` may be unrecorded there.

    `deleted_at` is when people last took events of the asset off its queue, as the audit knows. None: never.
    """

    dag_id: str
    unrecorded_to: int
    deleted_at: datetime | None = None

    def fate_of(self, event_id: int, reported_at: datetime, runs_since: datetime) -> Fate:
        """Return the fate of an event that is in none of the places of the job. Runs that ended before `runs_since` are removed.

        Every event since the release that records them has a place, unless no reference took it.
        """
        if event_id > self.unrecorded_to:
            return Fate.NOT_TAKEN
        if self.deleted_at is not None and reported_at <= self.deleted_at:
            return Fate.DROPPED
        return Fate.UNKNOWN if reported_at < runs_since else Fate.NOT_TAKEN


async def unrecorded_to(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, int]:
    """Return up to which event what became of events at these jobs may be unrecorded."""
    rows = await connection.execute(select(job.c.dag_id, job.c.unrecorded_to).where(job.c.dag_id.in_(dag_ids)))
    return {row.dag_id: row.unrecorded_to for row in rows}


class PlaceAtJob(NamedTuple):
    """In which place of a job an event is, and its fate there. `in_place` is `queue`, `run`, `record`, or empty: in none."""

    in_place: str
    fate: Fate

    @property
    def text(self) -> str:
        """Return the place as `place_at_job` selects it."""
        return f"{self.in_place} {self.fate}"

    @classmethod
    def of_text(cls, text: str) -> PlaceAtJob:
        in_place, _, fate = text.partition(" ")
        return cls(in_place, Fate(fate))


def place_at_job(dag_id: str) -> ColumnElement[str]:
    """Return the text of the `PlaceAtJob` of an event at a job, for a statement that selects from `asset_event`.

    Each table is probed by the event alone: the planner, while its statistics are from before the events, takes an index
    that begins with the job instead, and reads all events of the job for each event.
    """

    def of_event(table: Any) -> ColumnElement[bool]:
        return and_(table.c.event_id == _e.id, table.c.dag_id.concat("") == dag_id)

    queued = select(_q.event_id).where(of_event(queued_event)).correlate(asset_event).exists()
    outcome = select(_text("record ", _OUTCOME)).where(of_event(dropped_event)).correlate(asset_event)
    run_id = select(_r.run_id).where(of_event(run_asset_event)).correlate(asset_event).scalar_subquery()
    state = select(_text("run ", FATE_BY_RUN))
    state = state.where(run.c.dag_id == dag_id, run.c.run_id == run_id)
    nowhere = PlaceAtJob("", Fate.NOT_TAKEN).text
    return case(
        (queued, PlaceAtJob("queue", Fate.QUEUED).text),
        else_=func.coalesce(outcome.scalar_subquery(), state.scalar_subquery(), nowhere),
    )


def _text(place: str, fate: ColumnElement[Any]) -> ColumnElement[str]:
    return literal(place).concat(cast(fate, String))
