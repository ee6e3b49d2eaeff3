"""What became of an event at every job that has had it: what decides whether its files may go. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, and_, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.dropped_events import PAST_RETENTION
from store.database.schema import dropped_event, queued_event, run, run_asset_event
from store.runs.queues import ACTIVE
from store.runs.runs import DELETED

FateAtJob: TypeAlias = Literal["queued", "active", "loaded", "marked", "failed", "deleted", "dequeued", "forgotten"]
"""`marked`: a person said that its run succeeded. `deleted`: its run is gone. `dequeued`: somebody took it off the queue, or removed
the job. `forgotten`: its run is past its retention."""

_q, _r, _d = queued_event.c, run_asset_event.c, dropped_event.c
_EVENTS: Final[ColumnElement[int]] = bindparam("b_events", type_=_q.event_id.type, expanding=True)
_RUNS: Final = (
    select(_r.event_id, _r.dag_id, run.c.state, run.c.reason, run.c.end_date)
    .join_from(run_asset_event, run, and_(run.c.dag_id == _r.dag_id, run.c.run_id == _r.run_id))
    .where(_r.event_id.in_(_EVENTS))
)
_QUEUED: Final = select(_q.event_id, _q.dag_id).where(_q.event_id.in_(_EVENTS))
_DROPPED: Final = select(_d.event_id, _d.dag_id, _d.reason).where(_d.event_id.in_(_EVENTS))


@dataclass(frozen=True, kw_only=True)
class EventAtJob:
    """What became of an event at a job, and when its run ended."""

    dag_id: str
    fate: FateAtJob
    ended: datetime | None = None


async def at_jobs(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, Sequence[EventAtJob]]:
    """Return what became of these events, at each job. A job that has none of it got it never, or its run was forgotten."""
    given, fates = {"b_events": [*event_ids]}, defaultdict[int, list[EventAtJob]](list)
    for row in await connection.execute(_RUNS, given):
        fate = EventAtJob(dag_id=row.dag_id, fate=_fate_of_run(row.state, row.reason), ended=row.end_date)
        fates[row.event_id].append(fate)
    for event_id, dag_id in await connection.execute(_QUEUED, given):
        fates[event_id].append(EventAtJob(dag_id=dag_id, fate="queued"))
    for event_id, dag_id, reason in await connection.execute(_DROPPED, given):
        dropped: FateAtJob = "forgotten" if reason == PAST_RETENTION else "dequeued"
        fates[event_id].append(EventAtJob(dag_id=dag_id, fate=dropped))
    return fates


def _fate_of_run(state: str, reason: str | None) -> FateAtJob:
    if state in ACTIVE:
        return "active"
    if state == DELETED:
        return "deleted"
    if state == "success":
        return "marked" if (reason or "").startswith("marked as") else "loaded"
    return "failed"
