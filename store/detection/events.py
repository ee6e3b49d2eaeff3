"""Asset events, and the queue rows that are made with them in the same transaction.

Every job scheduled on an event's asset gets it, and every job scheduled on an alias that had resolved to the asset
before: see `store.catalog.aliases` for what "before" means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Row,
    Select,
    TableValuedAlias,
    bindparam,
    case,
    func,
    insert,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.types import TypeEngine

from store.database import configuration_lock
from store.database.asset_events import NewEvent
from store.database.dialects import chunks, rows_of
from store.database.schema import (
    asset_alias_asset,
    asset_event,
    database_now,
    job_schedule_alias,
    job_schedule_asset,
    queued_event,
)
from store.detection import filters, interest
from store.detection.interest import EventHooks, EventOrigin, Interest
from store.keys import Wake
from store.references import ONLY_PLAIN, UNDECIDED

_e = asset_event.c


@dataclass(frozen=True, kw_only=True)
class EventNumbers:
    """The highest id that an event has, and the highest that was ever given to one in this database."""

    committed: int
    given: int


_COMMITTED: Final = select(func.max(_e.id))
_GIVEN: Final = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = 'asset_event'"),
    "postgresql": text("SELECT pg_sequence_last_value(pg_get_serial_sequence('asset_event', 'id')::regclass)"),
}


async def numbers(connection: AsyncConnection, dialect: str) -> EventNumbers:
    """Return the highest ids. `given` never falls while a database lives, whatever is cleaned up."""
    committed = await connection.scalar(_COMMITTED)
    given = await connection.scalar(_GIVEN[dialect])
    return EventNumbers(committed=committed or 0, given=given or 0)


@dataclass(frozen=True, kw_only=True)
class AppendedEvents:
    """New events, and who has work now.

    `rows` has ids and times in the order given, `dag_ids` the jobs that got queue rows; `wakes`: whom to wake besides.
    """

    rows: Sequence[tuple[int, datetime]]
    dag_ids: frozenset[str]
    wakes: frozenset[Wake] = interest.NOBODY


class EventRow(NamedTuple):
    """The place of a stored event."""

    id: int
    timestamp: datetime
    asset_id: int


async def append(
    connection: AsyncConnection, events: Sequence[NewEvent], *, origin: EventOrigin, hooks: EventHooks
) -> AppendedEvents:
    """Store events in the order given, with a queue row for every job, and let the features do their part.

    A caller that locked an asset has taken `configuration_lock.share` before that. The queue rows are made by a later
    statement than the events: an event goes to associations that were committed before it.
    """
    if not events:
        return AppendedEvents(rows=(), dag_ids=frozenset())
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        inserted = (await connection.execute(_INSERT_ARRAYS, parameters(events))).all()
    else:
        inserted = (await connection.execute(_INSERT_ROWS, [vars(event) for event in events])).all()
    rows = sorted(EventRow(row.id, row.timestamp, row.asset_id) for row in inserted)
    texts = {} if is_postgresql else {row.asset_id: row.features for row in inserted}
    known = {asset_id: features for asset_id, text in texts.items() if (features := json.loads(text))}
    return await queue_all(connection, rows, known, origin=origin, hooks=hooks)


async def queue_all(
    connection: AsyncConnection, rows: Sequence[EventRow], known: Interest, *, origin: EventOrigin, hooks: EventHooks
) -> AppendedEvents:
    """Make the queue rows of events that an earlier statement of this transaction stored, and let the features do their part.

    `known` is the interest in their assets on SQLite; PostgreSQL reads it beside the queue rows.
    """
    new = sorted(rows)
    dag_ids: set[str] = set()
    interested = dict(known)
    for some in chunks(new):
        ids = [row.id for row in some]
        due, of_these = await _queue(connection, some, ids)
        interested |= of_these
        dag_ids.update(row.dag_id for row in due if row.dag_id is not None and row.satisfies != UNDECIDED)
        if any(row.satisfies == UNDECIDED for row in due):
            dag_ids.update(dag_id for dag_id, _ in await filters.decide(connection, ids))
    places = [(row.id, row.timestamp) for row in new]
    if not interested:
        return AppendedEvents(rows=places, dag_ids=frozenset(dag_ids))
    wakes = await hooks.run(connection, origin, ((row.id, row.asset_id) for row in new), interested)
    return AppendedEvents(rows=places, dag_ids=frozenset(dag_ids), wakes=wakes)


async def _queue(
    connection: AsyncConnection, events: Sequence[EventRow], ids: Sequence[int]
) -> tuple[Sequence[Row[*tuple[Any, ...]]], Interest]:
    if connection.dialect.name == "sqlite":
        return (await connection.execute(queue("sqlite"), {"b_ids": ids})).all(), {}
    assets = {row.asset_id for row in events}
    due = (await connection.execute(_queueing(), {"b_ids": ids, "b_assets": list(assets)})).all()
    return due, interest.interest_of(due[0].pairs)


_NAMES: Final = [field.name for field in fields(NewEvent)]
_INSERT_ROWS: Final = (
    insert(asset_event)
    .values(timestamp=database_now())
    .returning(
        _e.id,
        _e.timestamp,
        _e.asset_id,
        # SQLite has one writer: nobody begins or ends to be interested before this transaction ends.
        interest.OF_EACH_EVENT.label("features"),
        sort_by_parameter_order=True,
    )
)


def parameters(events: Sequence[NewEvent]) -> Mapping[str, Sequence[Any]]:
    """Return the parameters of `given`: an array for each field."""
    values = [vars(event) for event in events]
    return {f"new_{name}": [value[name] for value in values] for name in _NAMES}


def given(**more: TypeEngine[Any]) -> TableValuedAlias:
    """Return PostgreSQL's table of the events in `parameters`, and of `more` arrays beside them."""
    return rows_of("new", {**{name: _e[name].type for name in _NAMES}, **more})


def insertion(new: FromClause, only: ColumnElement[bool] | None = None) -> ReturningInsert[Any]:
    """Store the events of `given` in the order of their places, where `only` holds."""
    names = [*_NAMES, "timestamp"]
    source = select(*(new.c[name] for name in _NAMES), database_now()).order_by(new.c.place)
    if only is not None:
        source = source.where(only)
    return insert(asset_event).from_select(names, source).returning(_e.id, _e.timestamp, _e.asset_id)


_INSERT_ARRAYS: Final = insertion(given(), only=configuration_lock.shared())


@cache
def _queueing() -> Select[Any]:
    """Return PostgreSQL's statement that makes queue rows of the events `b_ids`.

    It returns at least one row, with the interest in the assets `b_assets`.
    """
    queued, interested = queue("postgresql").cte("queued"), interest.interested()
    columns = (queued.c.dag_id, queued.c.satisfies, interested.c.pairs)
    return select(*columns).select_from(interested.outerjoin(queued, true()))


@cache
def queue(dialect: str) -> ReturningInsert[Any]:
    """Insert queue rows of the events `b_ids`; return job and asset of each, and whether `filters` has to decide on it."""
    ids = bindparam("b_ids", type_=ARRAY(BigInteger)) if dialect == "postgresql" else bindparam("b_ids", expanding=True)
    here = _e.id == func.any(ids) if dialect == "postgresql" else _e.id.in_(ids)
    due = _by_asset(here).union(_by_alias(here))
    columns = ["dag_id", "event_id", "asset_id", "created_at", "partition_key", "satisfies"]
    q = queued_event.c
    return insert(queued_event).from_select(columns, due).returning(q.dag_id, q.asset_id, q.satisfies)


def _satisfies(filtered: ColumnElement[bool]) -> ColumnElement[str]:
    return case((filtered, literal(UNDECIDED)), else_=literal(ONLY_PLAIN)).label("satisfies")


def _by_asset(here: ColumnElement[bool]) -> Select[Any]:
    s = job_schedule_asset.c
    due = (
        select(s.dag_id, _e.id, _e.asset_id, _e.timestamp, _e.partition_key, _satisfies(s.filtered))
        .join_from(asset_event, job_schedule_asset, s.asset_id == _e.asset_id)
        .where(here)
        .order_by(s.dag_id, s.asset_id)
        # A reload that removes an edge waits for us and then finds our rows, or we find the edge gone.
        .with_for_update(read=True, key_share=True, of=job_schedule_asset)
    )
    return select(due.subquery())  # PostgreSQL does not lock rows of a UNION, but it locks those of its subqueries


def _by_alias(here: ColumnElement[bool]) -> Select[Any]:
    s, r = job_schedule_alias.c, asset_alias_asset.c
    due = (
        select(s.dag_id, _e.id, _e.asset_id, _e.timestamp, _e.partition_key, _satisfies(s.filtered))
        .join_from(asset_event, asset_alias_asset, r.asset_id == _e.asset_id)
        .join(job_schedule_alias, s.alias_id == r.alias_id)
        .where(here)
        .order_by(s.dag_id, s.alias_id)
        .with_for_update(read=True, key_share=True, of=job_schedule_alias)
    )
    return select(due.subquery())
