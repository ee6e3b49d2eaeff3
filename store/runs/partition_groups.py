"""What is queued for a job by asset and partition key, and the groups of which it has had runs.

The scheduler reads and writes them under the job's lock, for jobs with `batch: per_partition`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, Self

from sqlalchemy import BindParameter, Executable, Select, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, upsert
from store.database.schema import asset, asset_event, partition_group, queued_event, run
from store.partition_keys import QueuedKey
from store.references import keys
from store.runs.queues import ACTIVE

_q, _g = queued_event.c, partition_group.c
WITHOUT_KEY = ""
"""What the table has for runs without a key: no key is blank."""


@dataclass(frozen=True, kw_only=True)
class GroupRest:
    """The part of a large group, up to the event `to`, that is already decided. `completed_by` completed the condition."""

    to: int
    completed_by: int | None


async def queued_keys(connection: AsyncConnection, dag_ids: Collection[str]) -> Mapping[str, Sequence[QueuedKey]]:
    """Return what is queued for jobs, by asset and partition key. It reads their queues in the database."""
    queued: defaultdict[str, list[QueuedKey]] = defaultdict(list)
    for row in await connection.execute(_QUEUED_KEYS, {"b_dag_ids": list(dag_ids)}):
        queued[row.dag_id].append(
            QueuedKey(
                asset=row.name,
                references=keys(row.name, row.satisfies),
                parts=_names(row.partition_parts),
                key=row.partition_key,
                events=row.events,
                first_event=row.first,
                last_event=row.last,
                oldest=row.oldest,
                newest=row.newest,
            )
        )
    return queued


@dataclass(frozen=True, kw_only=True)
class KeyedEvent:
    """A queued event with the references that it satisfies, its asset's parts, its partition key, and when it came."""

    event_id: int
    references: AbstractSet[str]
    parts: Sequence[str]
    key: str | None
    came: datetime

    @classmethod
    def of(cls, row: Any) -> Self:
        """Return the event of a row of `keyed_events`."""
        parts = _names(row.partition_parts)
        references = keys(row.name, row.satisfies)
        return cls(
            event_id=row.event_id, references=references, parts=parts, key=row.partition_key, came=row.created_at
        )


def keyed_events() -> Select[Any]:
    """Select the columns that `KeyedEvent.of` needs, of queued events."""
    columns = (_q.event_id, asset.c.name, asset.c.partition_parts, _q.satisfies, _q.partition_key, _q.created_at)
    return select(*columns).join(asset, asset.c.id == _q.asset_id)


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


def _names(parts: str | None) -> Sequence[str]:
    return () if parts is None else tuple(json.loads(parts))


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


@cache
def _keep(dialect: str) -> Executable:
    new = upsert(partition_group, dialect)
    changed = {name: new.excluded[name] for name in ("rest_to", "rest_completed_by")}
    return new.on_conflict_do_update(index_elements=["dag_id", "key"], set_=changed)


def _queued_keys() -> Select[Any]:
    times = (func.min(_q.created_at, type_=_q.created_at.type), func.max(_q.created_at, type_=_q.created_at.type))
    columns = (func.min(_q.event_id).label("first"), func.max(_q.event_id).label("last"), func.count().label("events"))
    by = (_q.dag_id, asset.c.name, asset.c.partition_parts, _q.satisfies, _q.partition_key)
    query = select(*by, *columns, times[0].label("oldest"), times[1].label("newest"))
    return query.join(asset, asset.c.id == _q.asset_id).where(_q.dag_id.in_(_DAG_IDS)).group_by(*by)


_DAG_IDS: Final[BindParameter[Any]] = bindparam("b_dag_ids", expanding=True)
_KEYS: Final[BindParameter[Any]] = bindparam("b_keys", expanding=True)
_UP_TO: Final = keyed_events().where(_q.dag_id == bindparam("b_dag_id"), _q.event_id <= bindparam("b_to"))
_QUEUED_KEYS: Final = _queued_keys()
_WITH_KEYS: Final = _UP_TO.where(_q.partition_key.in_(_KEYS))
_WITHOUT_KEYS: Final = _UP_TO.where(_q.partition_key.is_(None))
_UNFINISHED: Final = (
    select(run.c.dag_id, run.c.partition_key).where(run.c.dag_id.in_(_DAG_IDS), run.c.state.in_(ACTIVE)).distinct()
)
_OF_THE_JOB: Final = _g.dag_id == bindparam("b_dag_id")
_RESTS: Final = select(_g.key, _g.rest_to, _g.rest_completed_by).where(_OF_THE_JOB, _g.rest_to.is_not(None))
_CLOSED: Final = select(_g.key).where(_OF_THE_JOB, _g.key.in_(_KEYS))
_EXTRAS: Final = select(asset_event.c.id, asset_event.c.extra).where(
    asset_event.c.id.in_(bindparam("b_events", expanding=True))
)
