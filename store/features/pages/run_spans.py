"""The runs of a span of time, joined where a drawing cannot tell them apart: its size is bounded, whatever the span holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import Float, Integer, Select, and_, bindparam, case, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import UtcDateTime, asset_event, run, seconds_between, task_instance, task_try
from store.runs.runs import IS_THERE

_r = run.c


@dataclass(frozen=True, kw_only=True)
class JobInSpan:
    """A job that had runs in the span, and how many."""

    dag_id: str
    runs: int
    failures: int
    total: int
    """How many jobs there are."""


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs of one job and state that began so close together that they are drawn as one. A single one is `run_id`."""

    dag_id: str
    state: str
    runs: int
    run_id: str
    began: datetime
    ended: datetime
    """The end of the span if one of them is not over."""


async def jobs_in(connection: AsyncConnection, since: datetime, until: datetime, *, limit: int) -> Sequence[JobInSpan]:
    """Return the jobs with runs between the times, those with failures first, by id."""
    return await all_of(connection, _jobs(), JobInSpan, {"since": since, "until": until, "most": limit})


async def groups_in(
    connection: AsyncConnection, dag_ids: Collection[str], since: datetime, until: datetime, *, apart: float
) -> Sequence[RunGroup]:
    """Return the runs of these jobs between the times; those that began within the same `apart` seconds are one group."""
    if not dag_ids:
        return []
    span = {"since": since, "until": until, "apart": apart, "dag_ids": sorted(dag_ids)}
    return await all_of(connection, _groups(), RunGroup, span)


@dataclass(frozen=True, kw_only=True)
class RecoveredJob:
    """A job of which runs succeeded after they had failed, and how many."""

    dag_id: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class FailedTries:
    """Tries of one job that failed before their runs succeeded, and began so close together that they are drawn as one."""

    dag_id: str
    tries: int
    run_id: str
    began: datetime
    ended: datetime


async def recovered_in(connection: AsyncConnection, since: datetime, until: datetime) -> Sequence[RecoveredJob]:
    """Return the jobs with tries between the times that failed before their runs succeeded."""
    return await all_of(connection, _recovered(), RecoveredJob, {"since": since, "until": until})


async def failed_tries_in(
    connection: AsyncConnection, dag_ids: Collection[str], since: datetime, until: datetime, *, apart: float
) -> Sequence[FailedTries]:
    """Return these jobs' tries that failed before their runs succeeded; those within the same `apart` seconds are one group."""
    if not dag_ids:
        return []
    span = {"since": since, "until": until, "apart": apart, "dag_ids": sorted(dag_ids)}
    return await all_of(connection, _failed_tries(), FailedTries, span)


async def is_anything_before(connection: AsyncConnection, moment: datetime) -> bool:
    """Return whether there are events or runs from before the moment."""
    return bool((await connection.execute(_is_anything_before(), {"since": moment})).scalar_one())


_SINCE: Final = bindparam("since", type_=UtcDateTime())
_UNTIL: Final = bindparam("until", type_=UtcDateTime())
_BEGAN: Final = func.coalesce(_r.start_date, _r.queued_at, type_=UtcDateTime())
_ENDS_LATER: Final = or_(_r.end_date >= _SINCE, _r.end_date.is_(None))
"""The condition that a run is over after the begin of the span, or not at all: both are found by the index of ends."""
_IN_SPAN: Final = and_(IS_THERE, _BEGAN < _UNTIL, _ENDS_LATER)


@cache
def _is_anything_before() -> Select[Any]:
    events = select(asset_event.c.id).where(asset_event.c.timestamp < _SINCE)
    ended = select(_r.id).where(IS_THERE, _r.end_date < _SINCE)
    began = select(_r.id).where(IS_THERE, _BEGAN < _SINCE, _ENDS_LATER)
    return select(or_(events.exists(), ended.exists(), began.exists()))


@cache
def _jobs() -> Select[Any]:
    # As two statements, because with one SQLite reads the whole table in the order of its groups.
    ended, running = (
        select(_r.dag_id, _r.state).where(IS_THERE, _BEGAN < _UNTIL, ends)
        for ends in (_r.end_date >= _SINCE, _r.end_date.is_(None))
    )
    c = ended.union_all(running).subquery("of_span").c
    failures = func.sum(case((c.state == "failed", 1), else_=0))
    query = select(c.dag_id, func.count().label("runs"), failures.label("failures"))
    query = query.add_columns(func.count().over().label("total"))
    ordered = query.group_by(c.dag_id).order_by(case((failures > 0, 0), else_=1), c.dag_id)
    return ordered.limit(bindparam("most", type_=Integer()))


@cache
def _groups() -> Select[Any]:
    place = cast(seconds_between(_SINCE, _BEGAN) / bindparam("apart", type_=Float()), Integer).label("place")
    ended = func.coalesce(_r.end_date, _UNTIL, type_=UtcDateTime()).label("ended")
    of_jobs = _r.dag_id.in_(bindparam("dag_ids", expanding=True))
    some = select(_r.dag_id, _r.run_id, _r.state, _BEGAN.label("began"), ended, place).where(_IN_SPAN, of_jobs)
    c = some.subquery("some").c
    columns = (c.dag_id, c.state, func.count().label("runs"), func.max(c.run_id).label("run_id"))
    times = (func.min(c.began).label("began"), func.max(c.ended).label("ended"))
    return select(*columns, *times).group_by(c.dag_id, c.state, c.place).order_by(c.dag_id, func.min(c.began))


def _failed_before_success() -> Select[Any]:
    """Select the tries. Those that people cancelled, that used no retry, or that only ended without a word do not count."""
    t, a = task_instance.c, task_try.c
    by_itself = and_(a.finish_state.is_(None), a.exit_code.is_distinct_from(0))
    failed = and_(a.counted, a.cancelled_at.is_(None), or_(a.finish_state == "failed", by_itself))
    of_run = and_(t.dag_id == _r.dag_id, t.run_id == _r.run_id)
    columns = (_r.dag_id, _r.run_id, a.intent_at.label("began"), a.ended_at.label("ended"))
    query = select(*columns).join_from(run, task_instance, of_run).join(task_try, a.task_instance_id == t.id)
    in_span = and_(a.intent_at < _UNTIL, a.ended_at >= _SINCE)
    return query.where(
        _r.state == "success", _r.end_date >= _SINCE, t.try_number > 1, a.try_number < t.try_number, failed, in_span
    )


@cache
def _recovered() -> Select[Any]:
    c = _failed_before_success().subquery("tries").c
    return select(c.dag_id, func.count(c.run_id.distinct()).label("runs")).group_by(c.dag_id).order_by(c.dag_id)


@cache
def _failed_tries() -> Select[Any]:
    tries = _failed_before_success().subquery("tries").c
    place = cast(seconds_between(_SINCE, tries.began) / bindparam("apart", type_=Float()), Integer).label("place")
    c = select(*tries, place).where(tries.dag_id.in_(bindparam("dag_ids", expanding=True))).subquery("some").c
    columns = (c.dag_id, func.count().label("tries"), func.max(c.run_id).label("run_id"))
    times = (func.min(c.began).label("began"), func.max(c.ended).label("ended"))
    return select(*columns, *times).group_by(c.dag_id, c.place).order_by(c.dag_id, func.min(c.began))
