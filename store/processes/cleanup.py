"""What is past its time, found and removed a batch at a time.

A batch is one short transaction: nobody waits for a clean-up for longer than a batch takes. On PostgreSQL the rows of a
batch are locked first and locked ones are left for the next time; a lock that belongs to the transaction keeps two
clean-ups from working at the same time, however either ends.
"""

# ruff: noqa: ARG002  sweeps differ in what they need

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

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
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database import Database
from store.database.paging import now_of
from store.database.schema import (
    asset,
    asset_event,
    asset_store,
    asset_store_history,
    execution_answer,
    outbox,
    queued_event,
    run,
    run_asset_event,
    task_instance,
    task_store,
    task_try,
    watcher,
    watcher_position,
    watcher_position_row,
)
from store.detection.positions import KEPT
from store.runs.answers import KEPT_HOURS
from store.runs.foreign_tasks import FOREIGN
from store.runs.runs import DELETED
from store.state.attributed import AttributedEntries
from store.values import WATERMARK_SUFFIX

SQLITE_BATCH: Final = 1_000
POSTGRESQL_BATCH: Final = 5_000
_LOCK: Final = 7_305_811_464_228_961_111  # any number nobody else takes
_ROWS_OF_A_RUN: Final = 100
"""A run counts for so many: it takes its tries and the events it consumed along."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How many days things are kept; `task_days` 0 keeps for ever."""

    task_days: int
    history_days: int
    event_days: int
    run_days: int
    orphan_days: int


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What a batch removed; `after` is where the next one goes on. References lead to values that only a job can remove."""

    rows: int
    references: int = 0
    after: Any = None


def batch_size(configured: int, dialect: str) -> int:
    """Rows of one transaction; SQLite, where everybody waits for the one writer, always takes small ones."""
    return SQLITE_BATCH if dialect == "sqlite" else configured or POSTGRESQL_BATCH


async def sweeps(database: Database, retention: Retention) -> Sequence[Sweep]:
    """All of them, by the database's clock; runs before events, which runs hold."""
    async with database.reading() as connection:
        now = await now_of(connection)

    def ago(days: int) -> datetime:
        return now - timedelta(days=days)

    return [
        _expired_task_entries(now),
        *([_undated_task_entries(ago(retention.task_days))] if retention.task_days else []),
        _orphaned_entries(ago(retention.orphan_days)),
        _old_history(ago(retention.history_days)),
        _old_runs(ago(retention.run_days)),
        _old_foreign_tasks(ago(retention.run_days)),
        _events_of_deleted_runs(ago(retention.event_days)),
        _old_events(ago(retention.event_days)),
        _leftovers_of_rewinds(),
        _old_answers(now - timedelta(hours=KEPT_HOURS)),
    ]


async def acquire(connection: AsyncConnection, dialect: str) -> bool:
    """Whether this transaction is the one clean-up; until it ends no other may be. SQLite has one writer anyway."""
    if dialect != "postgresql":
        return True
    return bool((await connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK)))).scalar_one())


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One kind of things past their time: rows that fulfil a condition, by an indexed column where they may be many.

    Each batch begins where the one before ended, so that none reads again through what others have removed.
    """

    name: str
    table: Table
    condition: ColumnElement[bool]
    order: Column[Any] | None = None

    async def count(self, connection: AsyncConnection) -> int:
        """How many there are now."""
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
    """Where a row lies: the quickest way back to it within one statement."""
    return literal_column("ctid" if dialect == "postgresql" else "rowid")


def _at(some: Select[Any], dialect: str) -> ColumnElement[bool]:
    if dialect == "postgresql":  # an array, because only then is every planner sure to go straight to the rows
        return _place(dialect) == func.any(func.array(some.scalar_subquery()))
    return _place(dialect).in_(some)


def _expired_task_entries(now: datetime) -> Sweep:
    t = task_store.c
    return Sweep(name="expired task entries", table=task_store, condition=t.expires_at < now, order=t.expires_at)


def _undated_task_entries(before: datetime) -> Sweep:
    """Of callers that left the expiry to us."""
    t = task_store.c
    old = and_(t.expires_at.is_(None), ~t.never_expire, t.updated_at < before)
    return Sweep(name="task entries past the default", table=task_store, condition=old)


def _old_history(before: datetime) -> Sweep:
    """But never the newest row of a key: versions go on from it, and it tells who wrote the entry."""
    h, newer = asset_store_history.c, asset_store_history.alias("newer").c
    superseded = exists().where(newer.asset_id == h.asset_id, newer.key == h.key, newer.version > h.version)
    old = and_(h.written_at < before, superseded)
    return Sweep(name="history", table=asset_store_history, condition=old, order=h.written_at)


def _old_events(before: datetime) -> Sweep:
    """Never one that waits in a queue, that a run which is kept has consumed, or that another system is owed."""
    e = asset_event.c
    waits = exists().where(queued_event.c.event_id == e.id)
    consumed = exists().where(run_asset_event.c.event_id == e.id)
    owed = exists().where(outbox.c.asset_event_id == e.id)
    old = and_(e.timestamp < before, ~waits, ~consumed, ~owed)
    return Sweep(name="events", table=asset_event, condition=old, order=e.timestamp)


def _events_of_deleted_runs(before: datetime) -> Sweep:
    """That they were consumed, which kept them from being consumed again."""
    r, e = run_asset_event.c, asset_event.c
    deleted = exists().where(run.c.dag_id == r.dag_id, run.c.run_id == r.run_id, run.c.state == DELETED)
    old = exists().where(e.id == r.event_id, e.timestamp < before)
    return Sweep(name="events of deleted runs", table=run_asset_event, condition=and_(deleted, old))


def _leftovers_of_rewinds() -> Sweep:
    """Rows kept for an undo that a commit since then has made impossible."""
    p, r = watcher_position.c, watcher_position_row.c
    over = select(p.watcher.concat(KEPT)).where(p.previous.is_(None))
    return Sweep(name="rows of past rewinds", table=watcher_position_row, condition=r.watcher.in_(over))


def _old_answers(before: datetime) -> Sweep:
    """By then no client repeats its request any more."""
    old = execution_answer.c.created_at < before
    return Sweep(name="kept answers", table=execution_answer, condition=old, order=execution_answer.c.created_at)


def _orphaned_entries(before: datetime) -> Sweep:
    """Store entries of assets that are configured no more; watermarks of configured watchers are no orphans."""
    e, w = asset_store.c, watcher.c
    own = exists().where(w.active, w.asset_id == e.asset_id, w.name.concat(WATERMARK_SUFFIX) == e.key)
    gone = and_(~asset.c.active, asset.c.updated_at < before)
    orphaned = and_(exists().where(asset.c.id == e.asset_id, gone), ~own)
    return _OrphanedEntries(name="orphaned asset entries", table=asset_store, condition=orphaned, gone=gone)


@dataclass(frozen=True, kw_only=True)
class _OrphanedEntries(Sweep):
    gone: ColumnElement[bool]
    """Of an asset: it is configured no more."""

    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        """Of one asset, whose row is locked: nobody makes it active until the batch ends."""
        orphan = select(asset_store.c.asset_id).where(self.condition).limit(1)
        asset_id = (await connection.execute(orphan)).scalar_one_or_none()
        if asset_id is None:
            return Removed(rows=0)
        locked = select(asset.c.id).where(asset.c.id == asset_id, self.gone).with_for_update()
        if (await connection.execute(locked)).scalar_one_or_none() is None:
            return Removed(rows=0)
        refs = select(func.count()).select_from(asset_store).where(asset_store.c.asset_id == asset_id)
        references = (await connection.execute(refs.where(asset_store.c.is_ref))).scalar_one()
        kept = await assets.watermark_keys(connection, asset_id)
        orphaned = await assets.ref_of(connection, asset_id)
        rows = await AttributedEntries(dialect).clear(connection, orphaned, writer=None, protected=kept, limit=limit)
        return Removed(rows=rows, references=min(references, rows))


def _old_runs(before: datetime) -> Sweep:
    """Finished runs with their task instances and tries, once every process of theirs is known to be gone."""
    r, t, a = run.c, task_instance.c, task_try.c
    of_run = and_(t.dag_id == r.dag_id, t.run_id == r.run_id)
    open_try = exists().where(of_run, a.task_instance_id == t.id, a.ended_at.is_(None))
    over = and_(r.state.in_(("success", "failed")), r.end_date < before, ~open_try)
    return _OldRuns(name="runs", table=run, condition=over)


def _old_foreign_tasks(before: datetime) -> Sweep:
    """Task instances of another scheduler, whose tokens ended long ago; what they wrote stays, with their ids."""
    t = task_instance.c
    return Sweep(name="foreign tasks", table=task_instance, condition=and_(t.origin == FOREIGN, t.end_date < before))


class _OldRuns(Sweep):
    async def remove(self, connection: AsyncConnection, limit: int, after: Any, dialect: str) -> Removed:
        some = select(run.c.id).where(self.condition).order_by(run.c.id).limit(max(limit // _ROWS_OF_A_RUN, 1))
        ids = (await connection.execute(some.with_for_update(skip_locked=True))).scalars().all()
        runs = select(run.c.dag_id, run.c.run_id).where(run.c.id.in_(ids))

        def of_runs(table: Table) -> ColumnElement[bool]:
            return tuple_(table.c.dag_id, table.c.run_id).in_(runs)

        tasks = select(task_instance.c.id).where(of_runs(task_instance))
        await connection.execute(delete(run_asset_event).where(of_runs(run_asset_event)))
        await connection.execute(delete(task_try).where(task_try.c.task_instance_id.in_(tasks)))
        await connection.execute(delete(task_instance).where(of_runs(task_instance)))
        await connection.execute(delete(run).where(run.c.id.in_(ids)))
        return Removed(rows=len(ids))
