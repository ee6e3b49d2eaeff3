"""Task instances of another scheduler, which writes stores here under its own ids.

They have no run and no try of ours.
"""

from __future__ import annotations

import uuid
from typing import Final

from sqlalchemy import case, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import database_now, database_time_in, job, task_instance
from store.errors import Conflict
from store.keys import TaskInstanceId, TaskInstanceKey, TryRef

FOREIGN: Final = "foreign"
NO_TRY: Final = 0
"""The number in place of a try's."""
_t = task_instance.c


async def register(connection: AsyncConnection, key: TaskInstanceKey, lives_for: int, dialect: str) -> TryRef:
    """Return the task instance, which runs for this many seconds from now, or longer if it was to.

    Raises `Conflict` for a job of ours, configured or not: its instances are the dispatcher's alone.
    """
    ours = select(job.c.dag_id).where(job.c.dag_id == key.dag_id)
    if (await connection.execute(ours)).one_or_none() is not None:
        raise Conflict(
            f"{key.dag_id!r} is a job of ours, whose tries get tokens of their own; name another scheduler's task"
        )
    new = upsert(task_instance, dialect).values(
        id=str(uuid.uuid4()),
        **key.columns,
        origin=FOREIGN,
        try_number=NO_TRY,
        state="running",
        start_date=database_now(),
        end_date=database_time_in(float(lives_for)),
    )
    later = case((_t.end_date > new.excluded.end_date, _t.end_date), else_=new.excluded.end_date)
    there = [_t.dag_id, _t.run_id, _t.task_id, _t.map_index]
    registered = new.on_conflict_do_update(index_elements=there, set_={"end_date": later, "state": "running"})
    task_instance_id: TaskInstanceId = (await connection.execute(registered.returning(_t.id))).scalar_one()
    return TryRef(task_instance_id=task_instance_id, try_number=NO_TRY)
