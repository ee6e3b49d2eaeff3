"""What has changed since an earlier poll: reads only, for pages that show it live.

Numbered rows are committed in any order. So numbers below the highest that were missing are polled again for a while; a
number that is missing for longer was rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final, TypeAlias

from sqlalchemy import Column, ColumnElement, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of, now_of
from store.database.schema import asset_event, run, task_instance, task_try, watcher
from store.detection.event_lists import StoredEvent, with_assets
from store.runs.queue.queues import ACTIVE
from store.runs.runs import RunRow, shown
from store.runs.tries.task_instances import TaskInstance, of_ids
from store.state import history
from store.state.history import HistoryEntry

MOST: Final = 1_000
"""The most rows of a kind that one poll reads; the next one continues."""
MISSED_FOR: Final = 60.0
"""Seconds for which a number that is missing may still come."""
OVERLAP: Final = timedelta(seconds=5)
"""How far two polls overlap for rows that are known by their time alone."""
_Mark: TypeAlias = tuple[Any, ...]


@dataclass(kw_only=True, eq=False)
class Numbers:
    """The numbers of one table's rows: the highest seen, and those below it that were missing, with when."""

    highest: int
    missing: dict[int, float] = field(default_factory=dict)

    def unseen(self, column: Column[Any]) -> ColumnElement[bool]:
        return or_(column > self.highest, column.in_([*self.missing]))

    def take(self, numbers: Collection[int], now: float) -> None:
        """Record numbers that were seen: all that there are up to the highest of them."""
        self.missing = {each: since for each, since in self.missing.items() if now - since < MISSED_FOR}
        highest = max(numbers, default=self.highest)
        first = max(self.highest + 1, highest - MOST)
        self.missing |= dict.fromkeys(range(first, highest + 1), now)
        for number in numbers:
            self.missing.pop(number, None)
        self.highest = max(self.highest, highest)


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """What one poll has shown, each kind in its order; `watchers` are names."""

    events: Sequence[StoredEvent]
    runs: Sequence[RunRow]
    tries: Sequence[TaskInstance]
    watchers: Sequence[str]
    writes: Sequence[HistoryEntry]


@dataclass(kw_only=True, eq=False)
class ChangeFeed:
    """Polls again and again; what was there at the first poll is no change."""

    _events: Numbers
    _runs: Numbers
    _written_at: datetime
    _writes: set[_Mark] = field(default_factory=set)
    _marks: dict[str, dict[Any, _Mark]] = field(default_factory=dict)
    """The last state of each unfinished run and try, and of each watcher, by kind."""

    @classmethod
    async def begin(cls, connection: AsyncConnection) -> ChangeFeed:
        """Start to report changes from now on."""
        highest = [(await connection.execute(_HIGHEST[table])).scalar_one_or_none() or 0 for table in ("event", "run")]
        events, runs = (Numbers(highest=number) for number in highest)
        changes = cls(_events=events, _runs=runs, _written_at=await now_of(connection))
        await changes.poll(connection)
        return changes

    async def poll(self, connection: AsyncConnection) -> ChangeSet:
        """Return what has changed since the poll before."""
        now = monotonic()
        runs = await self._changed_runs(connection, now)
        return ChangeSet(
            events=await self._new_events(connection, now),
            runs=runs,
            tries=await self._changed_tries(connection, [run.id for run in runs]),
            watchers=await self._changed_watchers(connection),
            writes=await self._new_writes(connection),
        )

    async def _new_events(self, connection: AsyncConnection, now: float) -> Sequence[StoredEvent]:
        number = asset_event.c.id
        query = with_assets().where(self._events.unseen(number)).order_by(number).limit(MOST)
        events = await all_of(connection, query, StoredEvent.stored)
        self._events.take([event.id for event in events], now)
        return events

    async def _changed_runs(self, connection: AsyncConnection, now: float) -> Sequence[RunRow]:
        """Return the runs that changed, also one that began and ended since.

        A finished run is reported only if it is queued again.
        """
        r = run.c
        of_interest = or_(r.state.in_(ACTIVE), self._runs.unseen(r.id), r.id.in_([*self._marks.get("run", {})]))
        columns = (r.id, r.state, r.reason, r.warning, r.note, r.start_date, r.end_date)
        rows = (await connection.execute(select(*columns).where(of_interest).order_by(r.id).limit(10 * MOST))).all()
        self._runs.take([row.id for row in rows], now)
        changed = self._compare("run", {row.id: tuple(row) for row in rows}, {r.id for r in rows if r.state in ACTIVE})
        if not changed:
            return []
        return await all_of(connection, shown().where(r.id.in_(changed[:MOST])).order_by(r.id), RunRow)

    async def _changed_tries(self, connection: AsyncConnection, run_ids: Sequence[int]) -> Sequence[TaskInstance]:
        """Return the tries that changed, of runs that are under way or were at the last poll."""
        t, r = task_instance.c, run.c
        of_run = and_(r.dag_id == t.dag_id, r.run_id == t.run_id)
        this_try = and_(task_try.c.task_instance_id == t.id, task_try.c.try_number == t.try_number)
        columns = (t.id, t.try_number, t.state, t.detail, task_try.c.progress, r.state.label("of_run"))
        query = select(*columns).join(run, of_run).outerjoin(task_try, this_try)
        of_interest = or_(r.state.in_(ACTIVE), r.id.in_(run_ids), t.id.in_([*self._marks.get("try", {})]))
        rows = (await connection.execute(query.where(of_interest).limit(10 * MOST))).all()
        marks: dict[Any, _Mark] = {row.id: tuple(row) for row in rows}
        changed = self._compare("try", marks, {row.id for row in rows if row.of_run in ACTIVE})
        return await of_ids(connection, changed[:MOST]) if changed else []

    async def _changed_watchers(self, connection: AsyncConnection) -> Sequence[str]:
        w = watcher.c
        columns = (w.name, w.state, w.paused, w.error, w.error_count, w.findings, w.last_event_at, w.active)
        rows = (await connection.execute(select(*columns).where(w.active))).all()
        return self._compare("watcher", {row.name: tuple(row) for row in rows}, {row.name for row in rows})

    async def _new_writes(self, connection: AsyncConnection) -> Sequence[HistoryEntry]:
        """Return new writes. They are known by their time, which is that of the statement and not of the commit."""
        since = self._written_at - OVERLAP
        rows = await history.since(connection, since, limit=10 * MOST)
        marks = {(row.asset_id, row.key, row.version): row for row in rows}
        new = [row for mark, row in marks.items() if mark not in self._writes]
        self._writes = set(marks)
        self._written_at = max((row.written_at for row in rows), default=self._written_at)
        return new

    def _compare(self, kind: str, marks: dict[Any, _Mark], kept: Collection[Any]) -> list[Any]:
        """Return the rows whose marks differ from before; nothing at the first poll."""
        before = self._marks.get(kind)
        self._marks[kind] = {each: mark for each, mark in marks.items() if each in kept}
        return [] if before is None else [each for each, mark in marks.items() if before.get(each) != mark]


_HIGHEST: Final = {
    "event": select(asset_event.c.id).order_by(asset_event.c.id.desc()).limit(1),
    "run": select(run.c.id).order_by(run.c.id.desc()).limit(1),
}
