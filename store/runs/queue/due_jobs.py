"""Which jobs the scheduler has to check, and until when it may rest. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, job, open_step, queued_event

_j = job.c


def _to_check() -> Select[Any]:
    q = queued_event.c
    oldest = select(func.min(q.event_id)).where(q.dag_id == _j.dag_id).scalar_subquery()
    ticks = and_(_j.cron.is_not(None), or_(_j.clock.is_distinct_from(_j.cron), _j.next_tick <= database_now()))
    step = select(open_step.c.dag_id).where(open_step.c.dag_id == _j.dag_id, or_(~_j.paused, open_step.c.while_paused))
    waiting = and_(~_j.paused, or_(oldest.is_not(None), ticks))
    due = select(_j.dag_id).where(_j.active, or_(waiting, step.exists()))
    return due.order_by(oldest.nulls_last(), _j.dag_id)


_TO_CHECK: Final = _to_check()
_NEXT_TICK: Final = (
    select(func.min(_j.next_tick), database_now())
    .where(_j.active, ~_j.paused, _j.cron.is_not(None))
    .where(or_(~_j.joint, _j.next_tick > database_now()))
)


async def jobs_to_check(connection: AsyncConnection) -> Sequence[str]:
    """Return the jobs to check, oldest queue first.

    They are configured, not paused, and have queued events, a tick that is due or an open step; or they have a step that goes on
    while they are paused.
    """
    dag_ids: Sequence[str] = (await connection.execute(_TO_CHECK)).scalars().all()
    return dag_ids


async def next_tick_in(connection: AsyncConnection) -> timedelta | None:
    """Return how long until the next tick of any job that is not paused; None if none has any.

    A due tick of a joint schedule waits for events, and not for the clock.
    """
    tick, now = (await connection.execute(_NEXT_TICK)).one()
    return None if tick is None else max(tick - now, timedelta(0))
