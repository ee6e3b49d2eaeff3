"""What may start now. Reading it costs a few index probes for each job that has queued runs, however many those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import CTE, BigInteger, ColumnElement, Integer, Select, and_, bindparam, case, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, job, number_in, run, task_instance, task_try
from store.keys import JobDefinition, TaskInstanceKey, TryKey

_j, _r, _t, _a = job.c, run.c, task_instance.c, task_try.c
_IS_QUEUED: Final = _r.state == "queued"
_OF_RUN: Final = and_(_t.dag_id == _r.dag_id, _t.run_id == _r.run_id, _t.origin == "own")


@dataclass(frozen=True, kw_only=True)
class Startable:
    """A task instance that waits to be started, as the try of this `key`. `number` is the place of its run in the queue."""

    number: int
    key: TryKey
    run_state: str
    trace_id: str
    definition: JobDefinition


async def next_startable(connection: AsyncConnection, *, after: int = 0, limit: int = 1_000) -> Sequence[Startable]:
    """Return task instances that may start now, oldest run first, of runs with numbers above `after`.

    They are of configured and unpaused jobs: each retry that is due, and the first queued run of each job that has fewer
    running than its `max_active_runs`. The job's next run is returned once the first has been started.
    """
    rows = await connection.execute(_STARTABLE, {"b_after": after, "b_limit": limit})
    return [
        Startable(
            number=row.number,
            key=TryKey(instance=TaskInstanceKey.of(row), task_instance_id=row.id, try_number=row.try_number + 1),
            run_state=row.run_state,
            trace_id=row.trace_id,
            definition=row.definition,
        )
        for row in rows
    ]


def may_start() -> ColumnElement[bool]:
    """Return the condition that a task instance may start.

    It is queued or its retry is due, and nothing of its current try is alive.
    """
    t, a = task_instance.c, task_try.c
    due = or_(t.state == "queued", and_(t.state == "up_for_retry", t.not_before <= database_now()))
    being_tried = exists().where(a.task_instance_id == t.id, a.try_number == t.try_number, a.ended_at.is_(None))
    return and_(due, ~being_tried)


def running_of(dag_id: ColumnElement[str]) -> ColumnElement[int]:
    """Count the running runs of a job, inside a statement that has the job."""
    running = run.alias("running_run")
    mine = (running.c.dag_id == dag_id, running.c.state == "running")
    return select(func.count(running.c.id)).where(*mine).scalar_subquery()


def most_running() -> ColumnElement[int]:
    """The `max_active_runs` of a job."""
    return func.coalesce(number_in(_j.definition, "max_active_runs"), 1)


def _jobs_with_queued_runs() -> CTE:
    """Select each such job by one probe behind the previous one. The last row is null."""
    lowest = select(_r.dag_id).where(_IS_QUEUED).order_by(_r.dag_id).limit(1).scalar_subquery()
    jobs = select(lowest.label("dag_id")).cte("queued_job", recursive=True)
    following = select(_r.dag_id).where(_IS_QUEUED, _r.dag_id > jobs.c.dag_id).order_by(_r.dag_id).limit(1)
    return jobs.union_all(select(following.scalar_subquery()).where(jobs.c.dag_id.is_not(None)))


def _first_queued() -> Select[Any]:
    """Select the first queued run of each job that may have another one, without runs of which a try is alive.

    With `per_partition`, runs of one partition key do not overlap.
    """
    run_of_try = select(_r.id).where(_OF_RUN).correlate(task_instance).scalar_subquery()  # reads the open tries first
    alive = select(func.coalesce(run_of_try, 0)).join_from(task_try, task_instance, _t.id == _a.task_instance_id)
    alive = alive.where(_a.ended_at.is_(None), _a.try_number == _t.try_number)
    jobs = _jobs_with_queued_runs()
    mine = (_IS_QUEUED, _r.dag_id == _j.dag_id, _r.id.not_in(alive))
    other = run.alias("other_run")
    of_same_key = (other.c.dag_id == _r.dag_id, other.c.partition_key.is_not_distinct_from(_r.partition_key))
    overlaps = select(other.c.id).where(*of_same_key, other.c.state == "running").correlate(run).exists()
    queued = select(_r.id).where(*mine, or_(~_j.partitioned, ~overlaps)).order_by(_r.id)
    first = queued.limit(1).correlate(job).scalar_subquery()
    running = running_of(_j.dag_id)
    has_room = or_(running == 0, running < most_running())
    return select(first.label("id")).join_from(jobs, job, _j.dag_id == jobs.c.dag_id).where(_IS_ON, has_room)


_IS_ON: Final = and_(_j.active, ~_j.paused)


def _startable() -> Select[Any]:
    heads = _first_queued().cte("head").prefix_with("MATERIALIZED")
    retries = select(_r.id).join(task_instance, _OF_RUN).join(job, _j.dag_id == _r.dag_id)
    retries = retries.where(_r.state == "running", _IS_ON, may_start())
    ids = select(heads.c.id).union_all(retries).subquery("candidate")
    after, limit = bindparam("b_after", type_=BigInteger()), bindparam("b_limit", type_=Integer())
    page = select(ids.c.id).where(ids.c.id > after).order_by(ids.c.id).limit(limit).subquery("page")
    return (
        select(_r.id.label("number"), _t.id, _t.dag_id, _t.run_id, _t.task_id, _t.map_index, _t.try_number)
        .add_columns(_r.state.label("run_state"), _r.trace_id, _j.definition)
        .join_from(page, run, _r.id == page.c.id)
        .join(task_instance, _OF_RUN)
        .join(job, _j.dag_id == _r.dag_id)
        .where(case((may_start(), 1), else_=0) == 1)  # not by the index of states, which has all that are queued
        .order_by(_r.id)
    )


_STARTABLE: Final = _startable()
