"""Find and remove what is past its retention, a batch at a time.

A batch is one short transaction: nobody waits for a clean-up for longer than a batch takes. On PostgreSQL the rows of a
batch are locked first, and locked rows are left for the next time; a lock that belongs to the transaction keeps two
clean-ups from working at the same time, however either ends.
"""

# ruff: noqa: ARG001, ARG002  sweeps differ in what they need

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    and_,
    delete,
    exists,
    func,
    literal,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets, dropped_events, watcher_assets
from store.catalog.watcher_states import KEPT_DAYS
from store.database import Database, configuration_lock
from store.database.lifecycle import Horizon, Swept, delete_whole, retained
from store.database.paging import now_of
from store.database.schema import (
    UNDO_SUFFIX,
    asset,
    asset_event,
    asset_store,
    asset_store_history,
    execution_answer,
    kernel_tables,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_store,
    task_try,
    watcher,
    watcher_position,
    watcher_position_row,
    watcher_state,
)
from store.runs.runs import DELETED
from store.runs.tries.answers import KEPT_HOURS
from store.runs.tries.foreign_tasks import FOREIGN
from store.state.attributed import AttributedEntries
from store.values import WATERMARK_SUFFIX

SQLITE_BATCH: Final = 1_000
POSTGRESQL_BATCH: Final = 5_000
_LOCK: Final = 7_305_811_464_228_961_111  # an arbitrary number that nothing else uses
_ROWS_OF_A_RUN: Final = 100
"""The rows that a run counts for, because its tries and consumed events are removed with it."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How many days things are kept; `task_days` 0 keeps for ever."""

    task_days: int
    history_days: int
    event_days: int
    run_days: int
    orphan_days: int

    def before(self, horizon: Horizon, now: datetime) -> datetime | None:
        """Return the moment before which rows with this horizon are removed; None: they are kept for ever."""
        if horizon is Horizon.TASK_ENTRY and not self.task_days:
            return None
        ages = {
            Horizon.TASK_ENTRY: timedelta(days=self.task_days),
            Horizon.HISTORY: timedelta(days=self.history_days),
            Horizon.EVENT: timedelta(days=self.event_days),
            Horizon.RUN: timedelta(days=self.run_days),
            Horizon.ORPHAN: timedelta(days=self.orphan_days),
            Horizon.NIGHTS: timedelta(days=KEPT_DAYS),
            Horizon.REQUEST_REPEATED: timedelta(hours=KEPT_HOURS),
        }
        return now - ages.get(horizon, timedelta(0))


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What a batch removed; the next batch continues from `after`.

    `references` lead to values that only a job can remove.
    """

    rows: int
    references: int = 0
    after: Any = None


def batch_size(configured: int, dialect: str) -> int:
    """Return the rows of one transaction; always few on SQLite, where everybody waits for the one writer."""
    return SQLITE_BATCH if dialect == "sqlite" else configured or POSTGRESQL_BATCH


KeptEvents: TypeAlias = Sequence[Select[Any]]
"""Ids of events that stay however old they are, each a SELECT of one column that a feature needs."""


@dataclass(frozen=True, kw_only=True)
class Chore:
    """What the clean-up does for a feature besides removing rows: `some` does a part of it and returns how much, 0 at its end.

    One clean-up does at most about `most`. `event` is the log's word for what was done.
    """

    event: str
    some: Callable[[AsyncConnection], Awaitable[int]]
    most: int


async def sweeps(database: Database, retention: Retention, kept: KeptEvents) -> Sequence[Sweep]:
    """Return all sweeps that tables declare, by the database's clock; runs come before the events that they keep.

    The `kept` events stay besides those that queues and runs refer to.
    """
    async with database.reading() as connection:
        now = await now_of(connection)
    declared = {rule.sweep: (table, rule.horizon) for table, rule in retained(kernel_tables(), Swept)}
    prepared: list[Sweep] = []
    for name, prepare in _SWEEPS.items():
        table, horizon = declared[name]
        if (before := retention.before(horizon, now)) is not None:
            prepared.append(prepare(name, table, before))
    return [_without(sweep, kept) if sweep.table is asset_event else sweep for sweep in prepared]


def _without(sweep: Sweep, kept: KeptEvents) -> Sweep:
    """Leave events alone. Each of the selections is asked about one event at a time, so that its index answers."""
    named = [selection.subquery(f"kept_{number}") for number, selection in enumerate(kept)]
    is_kept = [exists().where(events.c[0] == asset_event.c.id) for events in named]
    return replace(sweep, condition=and_(sweep.condition, *(~condition for condition in is_kept)))


async def acquire(connection: AsyncConnection, dialect: str) -> bool:
    """Return whether this transaction is the one clean-up; on SQLite each is. A job that is applied says what it is to get."""
    if dialect != "postgresql":
        return True
    await configuration_lock.share(connection)
    return bool((await connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK)))).scalar_one())


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One kind of rows past their retention: those that fulfil a condition, by an indexed column if there may be many.

    Each batch begins where the one before ended, so that none reads again through what others have removed.
    """

    name: str
    table: Table
    condition: ColumnElement[bool]
    order: Column[Any] | None = None

    async def count(self, connection: AsyncConnection) -> int:
        """Return how many there are now."""
        counted = select(func.count()).select_from(self.table).where(self.condition)
        return (await connection.execute(counted)).scalar_one()

    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        """Remove at most about `limit` rows in the caller's transaction."""
        gone = delete(self.table).where(_at(self._some(limit, after, dialect), dialect), self.condition)
        order = literal(0) if self.order is None else self.order
        is_ref = self.table.c.is_ref if "is_ref" in self.table.c else literal(0)
        rows = (await connection.execute(gone.returning(order, is_ref))).all()
        last = max((row[0] for row in rows), default=after) if self.order is not None else None
        return Removed(rows=len(rows), references=sum(bool(row[1]) for row in rows), after=last)

    def _some(self, limit: int, after: Any, dialect: str) -> Select[Any]:
        some = select(_place(dialect)).select_from(self.table).where(self.condition).limit(limit)
        if self.order is not None:
            some = some.order_by(self.order)
            if after is not None:
                some = some.where(self.order >= after)
        return some.with_for_update(skip_locked=True).correlate(None)


def _place(dialect: str) -> ColumnElement[Any]:
    """Return where a row lies: the quickest way back to it within one statement."""
    return literal_column("ctid" if dialect == "postgresql" else "rowid")


def _at(some: Select[Any], dialect: str) -> ColumnElement[bool]:
    if dialect == "postgresql":  # an array, because then every planner goes straight to the rows
        return _place(dialect) == func.any(func.array(some.scalar_subquery()))
    return _place(dialect).in_(some)


def _expired_task_entries(name: str, table: Table, now: datetime) -> Sweep:
    t = task_store.c
    return Sweep(name=name, table=table, condition=t.expires_at < now, order=t.expires_at)


def _undated_task_entries(name: str, table: Table, before: datetime) -> Sweep:
    """Remove task entries whose writers left the expiry to the default."""
    t = task_store.c
    old = and_(t.expires_at.is_(None), ~t.never_expire, t.updated_at < before)
    return Sweep(name=name, table=table, condition=old)


def _old_history(name: str, table: Table, before: datetime) -> Sweep:
    """Remove old history, except the newest row of a key.

    Versions continue from it, and it says who wrote the entry.
    """
    h, newer = asset_store_history.c, asset_store_history.alias("newer").c
    superseded = exists().where(newer.asset_id == h.asset_id, newer.key == h.key, newer.version > h.version)
    old = and_(h.written_at < before, superseded)
    return Sweep(name=name, table=table, condition=old, order=h.written_at)


def _old_events(name: str, table: Table, before: datetime) -> Sweep:
    """Remove old events, except those that a queue or a kept run still refers to."""
    e = asset_event.c
    waits = exists().where(queued_event.c.event_id == e.id)
    consumed = exists().where(run_asset_event.c.event_id == e.id)
    old = and_(e.timestamp < before, ~waits, ~consumed)
    return Sweep(name=name, table=table, condition=old, order=e.timestamp)


def _events_of_deleted_runs(name: str, table: Table, before: datetime) -> Sweep:
    """Remove what deleted runs consumed of old events, which kept these; that they are not to be consumed again stays with them."""
    r, e = run_asset_event.c, asset_event.c
    deleted = exists().where(run.c.dag_id == r.dag_id, run.c.run_id == r.run_id, run.c.state == DELETED)
    old = exists().where(e.id == r.event_id, e.timestamp < before)
    return _EventsOfDeletedRuns(name=name, table=table, condition=and_(deleted, old))


class _EventsOfDeletedRuns(Sweep):
    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        r = run_asset_event.c
        gone = delete(self.table).where(_at(self._some(limit, after, dialect), dialect), self.condition)
        rows = (await connection.execute(gone.returning(r.dag_id, r.event_id, r.run_id))).all()
        await dropped_events.record_of_deleted_runs(connection, rows)
        return Removed(rows=len(rows))


def _leftovers_of_rewinds(name: str, table: Table, before: datetime) -> Sweep:
    """Remove rows that were kept for an undo, once a commit has made it impossible."""
    p, r = watcher_position.c, watcher_position_row.c
    over = select(p.watcher.concat(UNDO_SUFFIX)).where(p.previous.is_(None))
    return Sweep(name=name, table=table, condition=r.watcher.in_(over))


def _old_answers(name: str, table: Table, before: datetime) -> Sweep:
    """Remove kept responses that no client will ask for again."""
    old = execution_answer.c.created_at < before
    return Sweep(name=name, table=table, condition=old, order=execution_answer.c.created_at)


def _old_states(name: str, table: Table, before: datetime) -> Sweep:
    """Remove old states of watchers, except the one that each had at the begin of what is kept."""
    s, newer = watcher_state.c, watcher_state.alias("newer").c
    superseded = exists().where(newer.watcher == s.watcher, newer.id > s.id, newer.at < before)
    return Sweep(name=name, table=table, condition=and_(s.at < before, superseded), order=s.at)


def _orphaned_entries(name: str, table: Table, before: datetime) -> Sweep:
    """Remove entries of assets that are no longer configured, but no watermarks of configured watchers."""
    e, w = asset_store.c, watcher.c
    own = exists().where(w.active, w.asset_id == e.asset_id, w.name.concat(WATERMARK_SUFFIX) == e.key)
    gone = and_(~asset.c.active, asset.c.updated_at < before)
    orphaned = and_(exists().where(asset.c.id == e.asset_id, gone), ~own)
    return _OrphanedEntries(name=name, table=table, condition=orphaned, gone=gone)


@dataclass(frozen=True, kw_only=True)
class _OrphanedEntries(Sweep):
    gone: ColumnElement[bool]
    """The condition that the asset is no longer configured."""

    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        """Remove entries of one asset, whose row is locked: nobody activates it until the batch ends."""
        orphan = select(asset_store.c.asset_id).where(self.condition).limit(1)
        asset_id = (await connection.execute(orphan)).scalar_one_or_none()
        if asset_id is None:
            return Removed(rows=0)
        locked = select(asset.c.id).where(asset.c.id == asset_id, self.gone).with_for_update()
        if (await connection.execute(locked)).scalar_one_or_none() is None:
            return Removed(rows=0)
        refs = select(func.count()).select_from(asset_store).where(asset_store.c.asset_id == asset_id)
        references = (await connection.execute(refs.where(asset_store.c.is_ref))).scalar_one()
        kept = await watcher_assets.watermark_keys(connection, asset_id)
        orphaned = await assets.ref_of(connection, asset_id)
        rows = await AttributedEntries(dialect).clear(connection, orphaned, writer=None, protected=kept, limit=limit)
        return Removed(rows=rows, references=min(references, rows))


def _old_runs(name: str, table: Table, before: datetime) -> Sweep:
    """Remove finished runs with their task instances and tries, once all their processes are known to be gone."""
    r, t, a = run.c, task_instance.c, task_try.c
    of_run = and_(t.dag_id == r.dag_id, t.run_id == r.run_id)
    open_try = exists().where(of_run, a.task_instance_id == t.id, a.ended_at.is_(None))
    over = and_(r.state.in_(("success", "failed")), r.end_date < before, ~open_try)
    return _OldRuns(name=name, table=table, condition=over)


def _old_foreign_tasks(name: str, table: Table, before: datetime) -> Sweep:
    """Remove task instances of another scheduler whose tokens ended long ago; what they wrote stays, with their ids."""
    t = task_instance.c
    return Sweep(name=name, table=table, condition=and_(t.origin == FOREIGN, t.end_date < before))


class _OldRuns(Sweep):
    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        some = select(run.c.id).where(self.condition).order_by(run.c.id).limit(max(limit // _ROWS_OF_A_RUN, 1))
        ids = (await connection.execute(some.with_for_update(skip_locked=True))).scalars().all()
        await dropped_events.record_of_runs(connection, ids)
        await delete_whole(connection, run, run.c.id.in_(ids))
        return Removed(rows=len(ids))


_SWEEPS: Final[Mapping[str, Callable[[str, Table, datetime], Sweep]]] = {
    "expired task entries": _expired_task_entries,
    "task entries past the default": _undated_task_entries,
    "orphaned asset entries": _orphaned_entries,
    "history": _old_history,
    "runs": _old_runs,
    "foreign tasks": _old_foreign_tasks,
    "events of deleted runs": _events_of_deleted_runs,
    "events": _old_events,
    "rows of past rewinds": _leftovers_of_rewinds,
    "kept answers": _old_answers,
    "states of watchers": _old_states,
}
"""How each declared sweep is prepared, in the order in which they run."""
