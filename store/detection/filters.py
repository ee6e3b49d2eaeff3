"""Decides which jobs get an event, where schedules have a `where`: in the transaction that queues it, and never again.

A statement inserts queue rows that are undecided. `decide` reads them in the same transaction, stores what each satisfies, and
removes those that satisfy nothing. Python compares, so that both databases decide alike.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.schema import asset, asset_alias, asset_alias_asset, asset_event, job, queued_event
from store.keys import Condition
from store.references import UNDECIDED, ScheduleReference, references, satisfied

_q = queued_event.c
_THIS: Final = (_q.dag_id == bindparam("b_dag_id"), _q.event_id == bindparam("b_event_id"))
_REMOVE: Final = delete(queued_event).where(*_THIS)
_STORE: Final = update(queued_event).where(*_THIS).values(satisfies=bindparam("b_satisfies"))
_UNDECIDED_ROWS: Final = (
    select(_q.dag_id, _q.event_id, _q.asset_id, _q.partition_key, asset.c.name, job.c.definition, asset_event.c.extra)
    .join_from(queued_event, asset_event, asset_event.c.id == _q.event_id)
    .join(job, job.c.dag_id == _q.dag_id)
    .join(asset, asset.c.id == _q.asset_id)
    .where(_q.event_id.in_(bindparam("b_events", expanding=True)), _q.satisfies == UNDECIDED)
    .order_by(_q.event_id)
)
_ALIASES: Final = (
    select(asset_alias_asset.c.asset_id, asset_alias.c.name)
    .join(asset_alias, asset_alias.c.id == asset_alias_asset.c.alias_id)
    .where(asset_alias_asset.c.asset_id.in_(bindparam("b_assets", expanding=True)))
)


async def decide(connection: AsyncConnection, event_ids: Sequence[int]) -> Sequence[tuple[str, int]]:
    """Decide on the undecided queue rows of these events; return job and event of each that stays."""
    stay: list[tuple[str, int]] = []
    for some in chunks(event_ids):
        rows = (await connection.execute(_UNDECIDED_ROWS, {"b_events": list(some)})).all()
        aliases = await aliases_of(connection, {row.asset_id for row in rows})
        removed: list[Mapping[str, Any]] = []
        kept: list[Mapping[str, Any]] = []
        for row, satisfies in zip(rows, _decided(rows, aliases), strict=True):
            this = {"b_dag_id": row.dag_id, "b_event_id": row.event_id}
            if satisfies is None:
                removed.append(this)
            else:
                kept.append({**this, "b_satisfies": satisfies})
                stay.append((row.dag_id, row.event_id))
        for statement, parameters in ((_REMOVE, removed), (_STORE, kept)):
            if parameters:
                await connection.execute(statement, parameters)
    return stay


async def aliases_of(connection: AsyncConnection, asset_ids: AbstractSet[int]) -> Mapping[int, AbstractSet[str]]:
    """Return the names of the aliases that have resolved to each of these assets."""
    names: defaultdict[int, set[str]] = defaultdict(set)
    for row in await connection.execute(_ALIASES, {"b_assets": list(asset_ids)}):
        names[row.asset_id].add(row.name)
    return names


def referring(condition: Condition | None, asset: str, aliases: AbstractSet[str]) -> Sequence[ScheduleReference]:
    """Return the references of a condition to an asset, by its name or through one of `aliases`."""
    return [each for each in references(condition) if (each.name in aliases if each.is_alias else each.name == asset)]


def _decided(rows: Sequence[Row[*tuple[Any, ...]]], aliases: Mapping[int, AbstractSet[str]]) -> Sequence[str | None]:
    of_asset: dict[tuple[str, int], Sequence[ScheduleReference]] = {}
    extras: dict[int, Any] = {}
    decided = []
    for row in rows:
        pair = (row.dag_id, row.asset_id)
        if pair not in of_asset:
            of_asset[pair] = referring(row.definition.schedule, row.name, aliases.get(row.asset_id, frozenset()))
        if row.event_id not in extras:
            extras[row.event_id] = json.loads(row.extra)
        decided.append(satisfied(of_asset[pair], extras[row.event_id], row.partition_key))
    return decided
