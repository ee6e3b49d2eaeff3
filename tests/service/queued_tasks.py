"""Finds the task instance of one queued run, whatever other runs its job has."""

from __future__ import annotations

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import job, run, task_instance
from store.keys import TaskInstanceKey, TryKey
from store.runs.tries.startable import Startable, may_start


async def queued_task_of(connection: AsyncConnection, run_id: str) -> Startable | None:
    """Return what may start of the run; None if there is nothing."""
    t = task_instance.c
    query = (
        select(t.id, t.dag_id, t.run_id, t.task_id, t.map_index, t.try_number)
        .add_columns(run.c.id.label("number"), run.c.state, run.c.trace_id, job.c.definition)
        .join(run, and_(run.c.dag_id == t.dag_id, run.c.run_id == t.run_id))
        .join(job, job.c.dag_id == t.dag_id)
        .where(t.run_id == run_id, may_start())
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    key = TryKey(instance=TaskInstanceKey.of(row), task_instance_id=row.id, try_number=row.try_number + 1)
    return Startable(number=row.number, key=key, run_state=row.state, trace_id=row.trace_id, definition=row.definition)
