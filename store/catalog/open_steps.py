"""Open steps: what features have to do for a job before runs are made of its queue.

Whoever opens or closes a step has locked the job, as the scheduler does. What the step has to do stands in the feature's own
table.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import open_step

_s = open_step.c


async def open_(connection: AsyncConnection, dag_id: str, feature: str, *, while_paused: bool = False) -> None:
    """Let the feature's steps come before the job's queue, from now on.

    With `while_paused` they also come while the job is paused, because a person asked for them. What people decide about the queue
    waits for their end.
    """
    row = {"dag_id": dag_id, "feature": feature, "while_paused": while_paused}
    await connection.execute(insert(open_step).values(row))


async def close(connection: AsyncConnection, dag_id: str, feature: str) -> None:
    """Record that the feature has nothing more to do for the job."""
    await connection.execute(delete(open_step).where(_s.dag_id == dag_id, _s.feature == feature))


async def close_all(connection: AsyncConnection, which: ColumnElement[bool]) -> None:
    """Close the steps of several jobs, because they are not configured any more."""
    await connection.execute(delete(open_step).where(which))


async def of_job(connection: AsyncConnection, dag_id: str) -> Mapping[str, bool]:
    """Return the features with an open step of a locked job, and for each whether it goes on while the job is paused."""
    rows = await connection.execute(select(_s.feature, _s.while_paused).where(_s.dag_id == dag_id).order_by(_s.feature))
    return {row.feature: row.while_paused for row in rows}
