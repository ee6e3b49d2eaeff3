"""What is measured about a try: when its Spark began, and what it used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import asset_event, run_asset_event, task_try
from store.keys import TryKey


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a try has used; None is unknown. Rows and bytes are those that Spark itself counts."""

    cpu_seconds: float | None = None
    peak_memory_mb: int | None = None
    """The peak of its largest process."""
    rows_read: int | None = None
    bytes_read: int | None = None
    rows_written: int | None = None
    bytes_written: int | None = None

    @property
    def known(self) -> Mapping[str, float]:
        return {name: number for name, number in vars(self).items() if number is not None}


async def add_cost(connection: AsyncConnection, key: TryKey, cost: Cost) -> Cost:
    """Keep what is known by now, the newer number of each; return all of it. The try's row is locked."""
    row = select(task_try.c.cost).where(_this(key)).with_for_update(key_share=True)
    kept: str | None = (await connection.execute(row)).scalar_one_or_none()
    before: Mapping[str, float] = {} if kept is None else json.loads(kept)
    together: dict[str, Any] = {**before, **cost.known}
    if together != before:
        await connection.execute(update(task_try).where(_this(key)).values(cost=json.dumps(together)))
    return Cost(
        cpu_seconds=together.get("cpu_seconds"),
        peak_memory_mb=together.get("peak_memory_mb"),
        rows_read=together.get("rows_read"),
        bytes_read=together.get("bytes_read"),
        rows_written=together.get("rows_written"),
        bytes_written=together.get("bytes_written"),
    )


@dataclass(frozen=True, kw_only=True)
class FirstAction:
    """How long after the newest consumed event the first Spark job of a run began, and how its driver was started."""

    since_event: timedelta
    start: Literal["cold", "warm"]


async def note_first_action(connection: AsyncConnection, key: TryKey, at: datetime) -> FirstAction | None:
    """Keep when the try's first Spark job began.

    Return None if it is kept already, for a run without events, and for later tries, which waited for other things.
    """
    a, e, r = task_try.c, asset_event.c, run_asset_event.c
    new = update(task_try).where(_this(key), a.first_action_at.is_(None)).values(first_action_at=at)
    row = (await connection.execute(new.returning(a.handle))).one_or_none()
    if row is None or key.try_number > 1:
        return None
    newest = select(func.max(e.timestamp, type_=e.timestamp.type)).join(run_asset_event, r.event_id == e.id)
    of_run = newest.where(r.dag_id == key.dag_id, r.run_id == key.run_id)
    event_at: datetime | None = (await connection.execute(of_run)).scalar_one()
    if event_at is None:
        return None
    is_warm = row.handle is not None and json.loads(row.handle).get("start") == "warm"
    return FirstAction(since_event=max(at - event_at, timedelta(0)), start="warm" if is_warm else "cold")


def _this(key: TryKey) -> ColumnElement[bool]:
    a = task_try.c
    return and_(a.task_instance_id == key.task_instance_id, a.try_number == key.try_number)
