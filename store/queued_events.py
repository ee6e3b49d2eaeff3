"""Queued events as people see and delete them: one line for each job and asset, as in Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from store.filters import Rows, rows_of
from store.schema import job, queued_event

_q = queued_event.c


@dataclass(frozen=True, kw_only=True)
class QueueFilter:
    """Which queued events; None means all. `before` is exclusive."""

    dag_id: str | None = None
    asset_id: int | None = None
    before: datetime | None = None

    @property
    def condition(self) -> ColumnElement[bool]:
        wanted = [
            _q.dag_id == self.dag_id if self.dag_id is not None else true(),
            _q.asset_id == self.asset_id if self.asset_id is not None else true(),
            _q.created_at < self.before if self.before is not None else true(),
        ]
        return and_(*wanted)


async def listed(session: AsyncSession, which: QueueFilter) -> Rows:
    """`dag_id`, `asset_id` and the oldest event's `created_at`, for each job and asset that have any."""
    oldest = func.min(_q.created_at, type_=_q.created_at.type).label("created_at")
    wanted = select(_q.dag_id, _q.asset_id, oldest).where(which.condition).group_by(_q.dag_id, _q.asset_id)
    return await rows_of(session, wanted.order_by(_q.dag_id, _q.asset_id))


async def remove(session: AsyncSession, which: QueueFilter) -> int:
    """Take events off the queue, so that no run will consume them; returns how many.

    The jobs are locked like a scheduler locks them: what it is deciding on now is not taken from under it.
    """
    waiting = select(_q.dag_id).where(which.condition)
    jobs = select(job.c.dag_id).where(job.c.dag_id.in_(waiting)).order_by(job.c.dag_id)
    await session.execute(jobs.with_for_update(key_share=True))
    gone = await session.execute(delete(queued_event).where(which.condition).returning(_q.event_id))
    return len(gone.all())
