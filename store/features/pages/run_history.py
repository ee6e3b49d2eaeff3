"""The newest runs of many jobs, a few columns of each, for drawings; and of each partition of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import Integer, Select, String, Subquery, bindparam, func, literal, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import job, run
from store.runs.runs import IS_THERE, RunRow, shown

MOST_RUNS: Final = 30
"""The newest runs of a job that are returned."""
_STATES: Final = ("queued", "running", "success", "failed")


async def newest_of_partitions(connection: AsyncConnection, dag_id: str, *, limit: int) -> Sequence[RunRow]:
    """Return the newest run of each of the job's partitions, of those that had one last. It reads all runs of the job."""
    return await all_of(connection, _of_partitions(), RunRow, {"b_dag_id": dag_id, "most": limit})


@cache
def _of_partitions() -> Select[Any]:
    newest = func.max(run.c.id).label("id")
    has_key = run.c.partition_key.is_not(None)
    ids = select(newest).where(run.c.dag_id == bindparam("b_dag_id"), has_key, IS_THERE).group_by(run.c.partition_key)
    some = ids.order_by(newest.desc()).limit(bindparam("most", type_=Integer())).subquery("newest")
    return shown().where(run.c.id.in_(select(some.c.id))).order_by(run.c.id.desc())


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """A run, as far as a drawing shows it."""

    dag_id: str
    run_id: str
    state: str
    queued_at: datetime
    start_date: datetime | None
    end_date: datetime | None


async def newest_of_jobs(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, Sequence[PastRun]]:
    """Return the last runs of each job, the oldest first. Jobs without runs are not in the result."""
    of_job: dict[str, list[PastRun]] = defaultdict(list)
    if dag_ids:
        newest = _newest() if connection.dialect.name == "postgresql" else _newest_by_sqlite()
        for each in await all_of(connection, newest, PastRun, {"dag_ids": sorted(dag_ids)}):
            of_job[each.dag_id].append(each)
    return of_job


_NAMES: Final = tuple(field.name for field in fields(PastRun))


def _kinds() -> Subquery:
    return union_all(*(select(literal(name, String).label("state")) for name in _STATES)).subquery("kind")


@cache
def _newest() -> Select[Any]:
    """Read the newest runs of each job and state by the index over both, and keep the newest of each job."""
    r, kinds = run.c, _kinds()
    of_state = (
        select(r.id, *(r[name] for name in _NAMES))
        .where(r.dag_id == job.c.dag_id, r.state == kinds.c.state)
        .order_by(r.id.desc())
        .limit(MOST_RUNS)
        .correlate(job, kinds)
        .lateral("of_state")
    )
    last = (
        select(of_state).select_from(kinds).join(of_state, true()).order_by(of_state.c.id.desc()).limit(MOST_RUNS)
    ).lateral("last")
    return (
        select(*(last.c[name] for name in _NAMES))
        .select_from(job)
        .join(last, true())
        .where(job.c.dag_id.in_(bindparam("dag_ids", expanding=True)))
        .order_by(last.c.dag_id, last.c.id)
    )


@cache
def _newest_by_sqlite() -> Select[Any]:
    """The same for SQLite, which has no LATERAL: all runs of a state from its thirtieth newest on."""
    older, r, kinds = run.alias("older").c, run.c, _kinds()
    first = (
        select(older.id)
        .where(older.state == kinds.c.state, older.dag_id == job.c.dag_id)
        .order_by(older.id.desc())
        .offset(MOST_RUNS - 1)
        .limit(1)
        .scalar_subquery()
    )
    place = func.row_number().over(partition_by=r.dag_id, order_by=r.id.desc()).label("place")
    some = (
        select(r.id, *(r[name] for name in _NAMES), place)
        .select_from(job)
        .join(kinds, true())
        .join(run, (r.dag_id == job.c.dag_id) & (r.state == kinds.c.state) & (r.id >= func.coalesce(first, 0)))
        .where(job.c.dag_id.in_(bindparam("dag_ids", expanding=True)))
        .subquery("some")
    )
    return (
        select(*(some.c[name] for name in _NAMES)).where(some.c.place <= MOST_RUNS).order_by(some.c.dag_id, some.c.id)
    )
