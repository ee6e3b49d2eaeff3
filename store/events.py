"""Asset events, and the queue rows that come with them in the same transaction.

An event is owed to every job scheduled on its asset, and to every job scheduled on an alias that had resolved to its
asset before: see `store.aliases` for what "before" means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.dialects import chunks
from store.schema import (
    asset_alias_asset,
    asset_event,
    database_now,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
)


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event to be: `extra` is a JSON object's text; the source is a watcher, a task, or an actor of the API."""

    asset_id: int
    extra: str
    trace_id: str
    event_id: str | None = None
    source_watcher: str | None = None
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int = -1
    source_actor: str | None = None


async def append(session: AsyncSession, events: Sequence[NewEvent]) -> Sequence[int]:
    """Store events in the order given, with a queue row for every job they are owed to; returns their ids."""
    if not events:
        return []
    new = insert(asset_event).values(timestamp=database_now()).returning(asset_event.c.id, sort_by_parameter_order=True)
    ids: Sequence[int] = (await session.execute(new, [vars(event) for event in events])).scalars().all()
    for some in chunks(ids):
        owed = _by_asset(some).union(_by_alias(some))
        await session.execute(insert(queued_event).from_select(["dag_id", "event_id", "asset_id", "created_at"], owed))
    return ids


def _by_asset(event_ids: Sequence[int]) -> Select[Any]:
    e, s = asset_event.c, job_schedule_asset.c
    owed = (
        select(s.dag_id, e.id, e.asset_id, e.timestamp)
        .join_from(asset_event, job_schedule_asset, s.asset_id == e.asset_id)
        .where(e.id.in_(event_ids))
        .order_by(s.dag_id, s.asset_id)
        # A reload that takes an edge away waits for us and then finds our rows, or we find the edge gone.
        .with_for_update(read=True, key_share=True, of=job_schedule_asset)
    )
    return select(owed.subquery())  # PostgreSQL locks no rows of a UNION, but those of its subqueries


def _by_alias(event_ids: Sequence[int]) -> Select[Any]:
    e, s, r = asset_event.c, job_schedule_alias.c, asset_alias_asset.c
    owed = (
        select(s.dag_id, e.id, e.asset_id, e.timestamp)
        .join_from(asset_event, asset_alias_asset, r.asset_id == e.asset_id)
        .join(job_schedule_alias, s.alias_id == r.alias_id)
        .where(e.id.in_(event_ids))
        .order_by(s.dag_id, s.alias_id)
        .with_for_update(read=True, key_share=True, of=job_schedule_alias)
    )
    return select(owed.subquery())
