"""Several entries of an asset that a job changes together: all or nothing, and its increments once.

Versions that were read are checked, and sums computed, while all the keys are locked. So increments lose nothing
however many write at once. The ledger row of (task instance, asset, ordinal) stays: whoever repeats the transaction, a
later try or a cleared run, finds its increments applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import asset_store, asset_store_increment
from store.errors import InvalidValue, VersionConflict
from store.values import check_json, check_key, to_json

MOST_KEYS: Final = 1_000
"""The most keys of a transaction; each is locked until the end."""
_Rows = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EntryTransaction:
    """What is read and changed of one asset's entries. Raises `InvalidValue` if a key is changed in two ways.

    `ordinal` distinguishes a task instance's transactions on the asset; `reads` are versions, 0 for no entry; `sets`
    are JSON texts, those of `references` made by a worker-side backend.
    """

    ordinal: int
    reads: Mapping[str, int]
    sets: Mapping[str, str]
    increments: Mapping[str, int | float]
    deletes: frozenset[str]
    references: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for key in self.keys:
            check_key(key)
            if sum(key in part for part in (self.sets, self.increments, self.deletes)) > 1:
                raise InvalidValue(f"the key {key!r} is in two of set, increment and delete; keep one of them")
        if len(self.keys) > MOST_KEYS:
            raise InvalidValue(f"a transaction has at most {MOST_KEYS} keys, this one {len(self.keys)}; make several")
        if not self.references <= self.sets.keys():
            raise InvalidValue("refs may only name keys of set; correct them")
        for text in self.sets.values():
            check_json(text)

    @property
    def changes(self) -> Sequence[str]:
        """The keys that are written, in order."""
        return sorted({*self.sets, *self.increments, *self.deletes})

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.changes) | self.reads.keys()


@dataclass(frozen=True, kw_only=True)
class TransactionOutcome:
    """The result of a transaction.

    `versions` has the version of each changed key, 0 for no entry. `values` has the JSON text of each incremented key,
    None for no entry.
    """

    versions: Mapping[str, int]
    values: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Present:
    """What a transaction comes to.

    It holds the entries to write as JSON texts, and the present versions and values of the incremented keys.
    """

    writes: Mapping[str, str]
    versions: Mapping[str, int]
    values: Mapping[str, str | None]


async def present(
    connection: AsyncConnection, asset_id: int, transaction: EntryTransaction, task_instance_id: str, dialect: str
) -> Present:
    """Check versions and compute sums while all the keys are locked. Raises `VersionConflict`, `InvalidValue`."""
    rows = await _rows(connection, asset_id, transaction.keys)
    for key, expected in transaction.reads.items():
        version = rows[key].version if key in rows else 0
        if version != expected:
            raise version_conflict(key, version, expected)
    sums: dict[str, str] = {}
    if transaction.increments and await _is_first(connection, asset_id, transaction, task_instance_id, dialect):
        sums = {key: _sum(key, rows.get(key), by) for key, by in transaction.increments.items()}
    values = {key: rows[key].value if key in rows else None for key in transaction.increments}
    return Present(
        writes={**transaction.sets, **sums},
        versions={key: rows[key].version if key in rows else 0 for key in transaction.increments},
        values={**values, **sums},
    )


def version_conflict(key: str, present: int, expected: int | None) -> VersionConflict:
    """Return the error for an entry that has another version by now; `present` 0: it does not exist."""
    has = f"has version {present}" if present else "does not exist"
    return VersionConflict(f"the entry {key!r} {has}, expected was {expected}; read it again and decide again")


async def _is_first(
    connection: AsyncConnection, asset_id: int, transaction: EntryTransaction, task_instance_id: str, dialect: str
) -> bool:
    place = {"task_instance_id": task_instance_id, "asset_id": asset_id, "ordinal": transaction.ordinal}
    first = upsert(asset_store_increment, dialect).values(place).on_conflict_do_nothing()
    return bool((await connection.execute(first.returning(asset_store_increment.c.ordinal))).all())


async def _rows(connection: AsyncConnection, asset_id: int, keys: frozenset[str]) -> _Rows:
    e = asset_store.c
    here = select(e.key, e.value, e.is_ref, e.version).where(e.asset_id == asset_id, e.key.in_(keys))
    rows: Sequence[Any] = (await connection.execute(here)).all() if keys else ()
    return {row.key: row for row in rows}


def _sum(key: str, entry: Row[Any] | None, by: float) -> str:
    if entry is None:
        return to_json(by)
    now = None if entry.is_ref else json.loads(entry.value)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise InvalidValue(
            f"the entry {key!r} is not a number, so nothing can be added to it; set it to one, or use another key"
        )
    try:
        return to_json(now + by)
    except OverflowError:
        raise InvalidValue(f"the entry {key!r} is too large to add to it; use another key") from None
