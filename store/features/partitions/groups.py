"""What is queued for a job by asset and partition key, and the groups of which it has had runs.

The scheduler reads and writes them under the job's lock, for jobs with `batch: per_partition`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Executable,
    Select,
    bindparam,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NullType

from store.catalog.dropped_events import OF_RUNS
from store.database.column_types import moment_of
from store.database.dialects import chunks, upsert
from store.database.schema import asset, asset_event, dropped_event, queued_event, run
from store.features.partitions.tables import partition_event, partition_group
from store.partition_keys import QueuedKey
from store.references import keys
from store.runs.queue.queues import ACTIVE, KeyedEvent, StoredAsset, keyed_events, names_of_parts

_q, _g = queued_event.c, partition_group.c
MOST_EVENT_ID: Final = 2**63 - 1
WITHOUT_KEY = ""
"""What the table has for runs without a key: no key is blank."""


@dataclass(frozen=True, kw_only=True)
class GroupRest:
    """The part of a large group, up to the event `to`, that is already decided. `completed_by` completed the condition."""

    to: int
    completed_by: int | None


@dataclass(frozen=True, kw_only=True)
class QueueMark:
    """Tells whether the queued events of a job up to the event `newest` are still the same ones.

    With `gone` they are that only without this event: if it is there, those that were taken with it are as well.
    """

    newest: int
    events: int
    digest: int
    """The sum of hashes of the events' ids; 0 on SQLite, where ids are committed in order, so that their number is enough."""
    gone: int = 0

    def without(self, taken: QueueMark) -> QueueMark:
        """Return the mark of the queue once these events, of which `newest` is one, are taken off it."""
        events, digest = self.events - taken.events, self.digest - taken.digest
        return QueueMark(newest=self.newest, events=events, digest=digest, gone=taken.newest)


NO_MARK: Final = QueueMark(newest=0, events=0, digest=0)


async def mark(connection: AsyncConnection, dag_id: str, before: QueueMark) -> tuple[QueueMark, bool]:
    """Return the mark of a locked queue, and whether what it had at the mark `before` is still all that it has up to there.

    It reads an index of the job's queue in the database. On PostgreSQL an event may be committed after later ones.
    """
    these = {"b_dag_id": dag_id, "b_newest": before.newest, "b_gone": before.gone}
    row = (await connection.execute(_mark(connection.dialect.name), these)).one()
    digest, digest_after = int(row.digest or 0), int(row.digest_after or 0)
    now = QueueMark(
        newest=row.newest or before.newest, events=row.events + row.events_after, digest=digest + digest_after
    )
    return now, (row.events, digest, row.is_there) == (before.events, before.digest, None)


async def mark_of(connection: AsyncConnection, dag_id: str, event_ids: Sequence[int]) -> QueueMark:
    """Return the mark of these events of a locked queue; they are at least one."""
    digest = 0
    if connection.dialect.name == "postgresql":
        for some in chunks(event_ids):
            these = {"b_dag_id": dag_id, "b_events": list(some)}
            digest += int((await connection.execute(_DIGEST, these)).scalar_one() or 0)
    return QueueMark(newest=max(event_ids), events=len(event_ids), digest=digest)


QueuedIdentity: TypeAlias = tuple[int, StoredAsset, str, str | None]
"""An asset's id and what it is, what events satisfy, and their partition key, as they are stored."""
QueuedSpan: TypeAlias = tuple[int, int, int, Any, Any]
"""The first event, the last one, their number, and the times of the oldest and the newest one, as the driver returns them."""


async def queued_spans(
    connection: AsyncConnection, dag_ids: Collection[str], *, after: int = 0, to: int | None = None
) -> Mapping[str, Mapping[QueuedIdentity, QueuedSpan]]:
    """Return what is queued for jobs of the events after `after` up to `to`. It reads their queues in the database."""
    queued: defaultdict[str, dict[QueuedIdentity, QueuedSpan]] = defaultdict(dict)
    these = {"b_dag_ids": list(dag_ids), "b_after": after, "b_to": MOST_EVENT_ID if to is None else to}
    for row in await connection.execute(_QUEUED_SPANS, these):
        identity, span = _span_of(row)
        queued[row[0]][identity] = span
    return queued


def _span_of(row: Any) -> tuple[QueuedIdentity, QueuedSpan]:
    _, asset_id, name, parts, satisfies, key, *span = row
    first, last, events, oldest, newest = span
    return (asset_id, (name, parts), satisfies, key), (first, last, events, oldest, newest)


async def queued_spans_of(
    connection: AsyncConnection, dag_id: str, partition_keys: Collection[str | None], *, to: int
) -> Mapping[QueuedIdentity, QueuedSpan]:
    """Return what is queued for a job with these partition keys, of the events up to `to`."""
    queued: dict[QueuedIdentity, QueuedSpan] = {}
    these = {"b_dag_ids": [dag_id], "b_after": 0, "b_to": to}
    statements = [
        (_QUEUED_SPANS_OF, {**these, "b_keys": list(some)})
        for some in chunks(sorted(key for key in partition_keys if key is not None))
    ]
    if None in partition_keys:
        statements.append((_QUEUED_SPANS_WITHOUT_KEY, these))
    for statement, parameters in statements:
        for row in await connection.execute(statement, parameters):
            queued |= dict([_span_of(row)])
    return queued


def queued_key(identity: QueuedIdentity, span: QueuedSpan) -> QueuedKey:
    """Return what is stored as these."""
    _, (name, parts), satisfies, key = identity
    first, last, events, oldest, newest = span
    return QueuedKey(
        asset=name,
        references=keys(name, satisfies),
        parts=names_of_parts(parts),
        key=key,
        events=events,
        first_event=first,
        last_event=last,
        oldest=moment_of(oldest),
        newest=moment_of(newest),
    )


async def queued_keys(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, Sequence[QueuedKey]]:
    """Return what is queued for jobs, by asset and partition key."""
    queued = await queued_spans(connection, dag_ids)
    return {dag_id: [queued_key(*each) for each in spans.items()] for dag_id, spans in queued.items()}


async def events_of(
    connection: AsyncConnection, dag_id: str, partition_keys: Collection[str | None], *, to: int
) -> Sequence[KeyedEvent]:
    """Return the queued events with these partition keys, in order, up to the event `to`."""
    these = {"b_dag_id": dag_id, "b_to": to}
    events: list[KeyedEvent] = []
    for some in chunks(sorted(key for key in partition_keys if key is not None)):
        events += map(KeyedEvent.of, await connection.execute(_WITH_KEYS, {**these, "b_keys": list(some)}))
    if None in partition_keys:
        events += map(KeyedEvent.of, await connection.execute(_WITHOUT_KEYS, these))
    return sorted(events, key=lambda event: event.event_id)


async def unfinished(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, AbstractSet[str | None]]:
    """Return, by job, the partition keys of its runs that are queued or running."""
    unfinished: dict[str, set[str | None]] = {dag_id: set() for dag_id in dag_ids}
    for row in await connection.execute(_UNFINISHED, {"b_dag_ids": list(dag_ids)}):
        unfinished[row.dag_id].add(row.partition_key)
    return unfinished


async def rests(connection: AsyncConnection, dag_id: str) -> Mapping[str | None, GroupRest]:
    """Return the groups of which a part is decided and has no runs yet, by their keys."""
    return {
        row.key or None: GroupRest(to=row.rest_to, completed_by=row.rest_completed_by)
        for row in await connection.execute(_RESTS, {"b_dag_id": dag_id})
    }


async def closed(connection: AsyncConnection, dag_id: str, keys: Collection[str | None]) -> AbstractSet[str | None]:
    """Return those of these keys whose groups have had a run."""
    closed: set[str | None] = set()
    for some in chunks(sorted(key or WITHOUT_KEY for key in keys)):
        rows = await connection.execute(_CLOSED, {"b_dag_id": dag_id, "b_keys": list(some)})
        closed.update(key or None for key in rows.scalars())
    return closed


async def extras_of(connection: AsyncConnection, event_ids: Collection[int]) -> Mapping[int, str]:
    """Return the `extra` of each of these events, as JSON text."""
    extras: dict[int, str] = {}
    for some in chunks(sorted(event_ids)):
        rows = await connection.execute(_EXTRAS, {"b_events": list(some)})
        extras |= {row.id: row.extra for row in rows}
    return extras


async def keep(connection: AsyncConnection, dag_id: str, groups: Mapping[str | None, GroupRest | None]) -> None:
    """Record that these groups have had runs, and what is left of each."""
    rows = [
        {
            "dag_id": dag_id,
            "key": key or WITHOUT_KEY,
            "rest_to": rest and rest.to,
            "rest_completed_by": rest and rest.completed_by,
        }
        for key, rest in groups.items()
    ]
    if rows:
        await connection.execute(_keep(connection.dialect.name), rows)


async def remember(connection: AsyncConnection, dag_id: str, events: Mapping[int, str | None]) -> None:
    """Remember events that runs of groups consume, each with the key of its group. A replay may let a run have one again."""
    rows = [{"dag_id": dag_id, "key": key or WITHOUT_KEY, "event_id": event_id} for event_id, key in events.items()]
    if rows:
        await connection.execute(_remember(connection.dialect.name), rows)


@dataclass(frozen=True, kw_only=True)
class EarlierEvent:
    """An event that was queued of a group before; `extra` is JSON text. `is_consumed` false: a person took it off the queue."""

    event_id: int
    extra: str
    is_consumed: bool


async def earlier_events(connection: AsyncConnection, dag_id: str, key: str | None) -> Sequence[EarlierEvent]:
    """Return what a job has had of a group, and what persons dropped of the job since its first event, in order."""
    these = {"b_dag_id": dag_id, "b_key": key or WITHOUT_KEY}
    consumed = {row.event_id: row.extra for row in await connection.execute(_EARLIER, these)}
    if not consumed:
        return []
    dropped = (await connection.execute(_DROPPED, {**these, "b_first": min(consumed)})).all()
    gone = {row.event_id: row.extra for row in dropped}
    return [
        EarlierEvent(event_id=event_id, extra=extra, is_consumed=event_id not in gone)
        for event_id, extra in sorted({**consumed, **gone}.items())
    ]


@cache
def _remember(dialect: str) -> Executable:
    return upsert(partition_event, dialect).on_conflict_do_nothing()


@cache
def _keep(dialect: str) -> Executable:
    new = upsert(partition_group, dialect)
    changed = {name: new.excluded[name] for name in ("rest_to", "rest_completed_by")}
    return new.on_conflict_do_update(index_elements=["dag_id", "key"], set_=changed)


def _queued_spans(*which: ColumnElement[bool]) -> Select[Any]:
    """Select a row for each `QueuedKey`. Times stay as the driver returns them: to convert them takes most of the time."""
    times = [
        of(_q.created_at, type_=NullType()).label(name) for name, of in (("oldest", func.min), ("newest", func.max))
    ]
    columns = (func.min(_q.event_id).label("first"), func.max(_q.event_id).label("last"), func.count().label("events"))
    by = (_q.dag_id, _q.asset_id, _q.satisfies, _q.partition_key)
    each = select(*by, *columns, *times).where(
        _q.dag_id.in_(_DAG_IDS), _q.event_id > _AFTER, _q.event_id <= _TO, *which
    )
    e = each.group_by(*by).subquery().c
    query = select(e.dag_id, e.asset_id, asset.c.name, asset.c.partition_parts, e.satisfies, e.partition_key)
    return query.add_columns(e.first, e.last, e.events, e.oldest, e.newest).join(asset, asset.c.id == e.asset_id)


_HASHES: Final = func.sum(func.hashint8extended(_q.event_id, 0))


@cache
def _mark(dialect: str) -> Select[Any]:
    """Select the mark in parts: a count of a range alone reads an index on SQLite, and several filters take eight times as long."""
    mine, newest = _q.dag_id == bindparam("b_dag_id"), bindparam("b_newest", type_=BigInteger())
    digest = _HASHES if dialect == "postgresql" else literal(0)
    old = select(func.count().label("events"), digest.label("digest")).where(mine, _q.event_id <= newest).subquery()
    new = select(
        func.count().label("events_after"), digest.label("digest_after"), func.max(_q.event_id).label("newest")
    )
    after = new.where(mine, _q.event_id > newest).subquery()
    gone = select(_q.event_id).where(mine, _q.event_id == bindparam("b_gone", type_=BigInteger()))
    return select(old, after, gone.scalar_subquery().label("is_there")).join_from(old, after, true())


_DAG_IDS: Final[BindParameter[Any]] = bindparam("b_dag_ids", expanding=True)
_AFTER: Final[BindParameter[Any]] = bindparam("b_after", type_=BigInteger())
_TO: Final[BindParameter[Any]] = bindparam("b_to", type_=BigInteger())
_KEYS: Final[BindParameter[Any]] = bindparam("b_keys", expanding=True)
_UP_TO: Final = keyed_events().where(_q.dag_id == bindparam("b_dag_id"), _q.event_id <= bindparam("b_to"))
_QUEUED_SPANS: Final = _queued_spans()
_QUEUED_SPANS_OF: Final = _queued_spans(_q.partition_key.in_(_KEYS))
_QUEUED_SPANS_WITHOUT_KEY: Final = _queued_spans(_q.partition_key.is_(None))
_DIGEST: Final = select(_HASHES).where(
    _q.dag_id == bindparam("b_dag_id"), _q.event_id.in_(bindparam("b_events", expanding=True))
)
_WITH_KEYS: Final = _UP_TO.where(_q.partition_key.in_(_KEYS))
_WITHOUT_KEYS: Final = _UP_TO.where(_q.partition_key.is_(None))
_UNFINISHED: Final = (
    select(run.c.dag_id, run.c.partition_key).where(run.c.dag_id.in_(_DAG_IDS), run.c.state.in_(ACTIVE)).distinct()
)
_OF_THE_JOB: Final = _g.dag_id == bindparam("b_dag_id")
_RESTS: Final = select(_g.key, _g.rest_to, _g.rest_completed_by).where(_OF_THE_JOB, _g.rest_to.is_not(None))
_CLOSED: Final = select(_g.key).where(_OF_THE_JOB, _g.key.in_(_KEYS))
_p, _d = partition_event.c, dropped_event.c
_EARLIER: Final = (
    select(_p.event_id, asset_event.c.extra)
    .join(asset_event, asset_event.c.id == _p.event_id)
    .where(_p.dag_id == bindparam("b_dag_id"), _p.key == bindparam("b_key"))
)
_DROPPED: Final = (
    select(_d.event_id, asset_event.c.extra)
    .join(asset_event, asset_event.c.id == _d.event_id)
    .where(_d.dag_id == bindparam("b_dag_id"), _d.event_id >= bindparam("b_first", type_=BigInteger()))
    .where(_d.reason.not_in(OF_RUNS))
)
_EXTRAS: Final = select(asset_event.c.id, asset_event.c.extra).where(
    asset_event.c.id.in_(bindparam("b_events", expanding=True))
)
