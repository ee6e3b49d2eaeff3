"""Lists of runs: what they may be filtered and ordered by. The names are those of Airflow's parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, false, func, literal, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.cursors import CursorPage, cursor_page
from store.database.paging import PageRequest, Range, among, begins, contains, equal, like, newest, within
from store.database.schema import asset, asset_event, job, run, run_asset_event, seconds_between
from store.runs.runs import IS_THERE, OVER, RunRow, shown

_r = run.c
UPDATED_AT: Final = func.coalesce(_r.end_date, _r.start_date, _r.queued_at, type_=_r.queued_at.type)
"""When a run's state changed last."""
_TIMES: Final = {name: _r[name] for name in ("logical_date", "run_after", "start_date", "end_date")}
RUN_RANGES: Final[Mapping[str, ColumnElement[Any]]] = {
    **_TIMES,
    "updated_at": UPDATED_AT,
    "duration": seconds_between(_r.start_date, _r.end_date),
}
"""What a filter may bound."""
RUN_ORDERS: Final[Mapping[str, ColumnElement[Any]]] = {
    **{name: _r[name] for name in ("id", "dag_id", "run_id", "state", "run_type", "queued_at", "conf")},
    **RUN_RANGES,
    "dag_run_id": _r.run_id,
    "partition_date": literal(None, _r.logical_date.type),
}


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Conditions on runs; None and an empty collection mean all. `ranges` have the names of `RUN_RANGES`."""

    dag_id: str | None = None
    dag_ids: Collection[str] | None = None
    run_ids: Collection[str] | None = None
    logical_dates: Collection[datetime] | None = None
    states: Collection[str] | None = None
    types: Collection[str] | None = None
    id_pattern: str | None = None
    id_prefix: str | None = None
    dag_id_pattern: str | None = None
    dag_id_prefix: str | None = None
    trace_id: str | None = None
    conf_contains: str | None = None
    text: str | None = None
    """A literal part of the run's id, of its job's or of its reason, whatever the case."""
    consuming_asset: str | None = None
    partition_key_pattern: str | None = None
    partition_key_prefix: str | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)
    is_impossible: bool = False
    """No run has what was asked for."""

    @property
    def condition(self) -> ColumnElement[bool]:
        names = like(_r.run_id, self.id_pattern), begins(_r.run_id, self.id_prefix)
        jobs = equal(_r.dag_id, self.dag_id), among(_r.dag_id, self.dag_ids)
        exactly = among(_r.run_id, self.run_ids), among(_r.logical_date, self.logical_dates)
        patterns = like(_r.dag_id, self.dag_id_pattern), begins(_r.dag_id, self.dag_id_prefix)
        kinds = among(_r.state, self.states), among(_r.run_type, self.types), equal(_r.trace_id, self.trace_id)
        keys = (
            like(_r.partition_key, self.partition_key_pattern, pipe_is_or=False),
            begins(_r.partition_key, self.partition_key_prefix, pipe_is_or=False),
        )
        conf = contains(_r.conf, self.conf_contains)
        text = or_(*(contains(column, self.text) for column in (_r.run_id, _r.dag_id, _r.reason)))
        bounds = (within(RUN_RANGES[name], bounds) for name, bounds in self.ranges.items())
        impossible = false() if self.is_impossible else true()
        return and_(
            IS_THERE,
            *names,
            *jobs,
            *exactly,
            *patterns,
            *kinds,
            *keys,
            conf,
            text,
            _consumed(self.consuming_asset),
            *bounds,
            impossible,
        )


def _consumed(asset_text: str | None) -> ColumnElement[bool]:
    """Return the condition that the run consumed an event of an asset whose name or uri contains the text."""
    if asset_text is None:
        return true()
    c = run_asset_event.c
    consumed = (
        select(c.event_id)
        .select_from(run_asset_event)
        .join(asset_event, asset_event.c.id == c.event_id)
        .join(asset, asset.c.id == asset_event.c.asset_id)
        .where(c.dag_id == _r.dag_id, c.run_id == _r.run_id)
    )
    return consumed.where(or_(contains(asset.c.name, asset_text), contains(asset.c.uri, asset_text))).exists()


async def latest(
    connection: AsyncConnection, which: RunFilter, *, limit: int, before: int | None = None
) -> Sequence[RunRow]:
    """Return the newest matching runs with ids below `before`; None means all."""
    return await newest(connection, shown().where(which.condition), _r.id, RunRow, limit=limit, before=before)


async def count(connection: AsyncConnection, which: RunFilter) -> int:
    """Return how many runs match."""
    return (await connection.execute(select(func.count()).select_from(run).where(which.condition))).scalar_one()


async def clearable(connection: AsyncConnection, which: RunFilter, *, limit: int) -> Sequence[int]:
    """Return the ids of the matching runs that are over and whose job is configured, the oldest first."""
    query = select(_r.id).join(job, job.c.dag_id == _r.dag_id).where(which.condition, _r.state.in_(OVER), job.c.active)
    return (await connection.execute(query.order_by(_r.id).limit(limit))).scalars().all()


async def failed_of(connection: AsyncConnection, names: Collection[tuple[str, str]]) -> Sequence[int]:
    """Return the ids of those of these runs, by job and id, that are failed and whose job is configured, the oldest first."""
    these = tuple_(_r.dag_id, _r.run_id).in_(sorted(names))
    query = select(_r.id).join(job, job.c.dag_id == _r.dag_id).where(these, _r.state == "failed", job.c.active)
    return (await connection.execute(query.order_by(_r.id))).scalars().all()


async def listed(connection: AsyncConnection, which: RunFilter, window: PageRequest) -> CursorPage[RunRow]:
    """Return a part of the runs. Raises `InvalidCursor`."""
    return await cursor_page(connection, shown().where(which.condition), window, RUN_ORDERS, RunRow)
