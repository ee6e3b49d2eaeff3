"""The states of all jobs, from indexes alone: as the graph, the overview and the list of jobs show them. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, case, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import job, queued_event, run

STATES: Final = ("running", "failed", "waiting", "active", "paused")


@dataclass(frozen=True, kw_only=True)
class JobInState:
    """A configured job: `paused`, `running`, `failed` if its newest run that is over did, `waiting` if its queue has events, else `active`.

    `newest` is the number of its newest run, or 0.
    """

    dag_id: str
    state: str
    newest: int


def newest_run(state: str) -> ColumnElement[int]:
    """Return the number of the newest run of a row of `job` in this state, or 0."""
    ids = select(run.c.id).where(run.c.state == state, run.c.dag_id == job.c.dag_id)
    return func.coalesce(ids.order_by(run.c.id.desc()).limit(1).scalar_subquery(), 0)


def state_of_job(otherwise: str) -> ColumnElement[str]:
    """Return the state of a row of `job` by its runs and its queue; `otherwise` for one that rests."""
    return case(
        (job.c.paused, "paused"),
        (newest_run("running") > 0, "running"),
        (newest_run("failed") > newest_run("success"), "failed"),
        (exists().where(queued_event.c.dag_id == job.c.dag_id), "waiting"),
        else_=otherwise,
    )


async def states_of_jobs(connection: AsyncConnection) -> Sequence[JobInState]:
    """Return all configured jobs in order of name, in one statement."""
    return await all_of(connection, _states(), JobInState)


@cache
def _states() -> Select[Any]:
    numbers = [newest_run(state) for state in ("queued", "running", "success", "failed")]
    newest = numbers[0]
    for number in numbers[1:]:
        newest = case((number > newest, number), else_=newest)
    shown = (job.c.dag_id, state_of_job("active").label("state"), newest.label("newest"))
    return select(*shown).where(job.c.active).order_by(job.c.dag_id)
