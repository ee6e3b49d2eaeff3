"""Several entries of an asset changed together by a job: all of it or nothing, and its increments once.

Versions that were read are checked and sums computed while all the keys are locked, so increments lose nothing however many
write at once. The ledger row of (task instance, asset, ordinal) stays: whoever repeats the transaction, a later try or
a cleared run, finds its increments applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Row, Select, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from store.base import Writer
from store.database.dialects import upsert
from store.database.schema import asset_store, asset_store_increment
from store.errors import InvalidValue, VersionConflict
from store.state.statements import Statements, key_lock, remove_entries, write_entry
from store.values import check_json, check_key, to_json

MOST_KEYS: Final = 1_000
"""Each is locked until the end."""
Entries = Mapping[str, Row[tuple[str, str, bool, int]]]


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """What is read and changed of one asset's entries. Raises `InvalidValue` when a key is changed in two ways.

    `ordinal` tells a task instance's transactions on the asset apart; `reads` are versions, 0 for no entry; `sets` are
    JSON texts, those of `references` made by a worker-side backend.
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
class Outcome:
    """Of each changed key its version now, 0 for no entry; of each incremented one its JSON text, None for no entry."""

    versions: Mapping[str, int]
    values: Mapping[str, str | None]


def transact(
    asset_id: int, transaction: Transaction, *, task_instance_id: str, writer: Writer, dialect: str
) -> Statements[Outcome]:
    """Apply it in the caller's transaction, which has fenced the try. Raises `VersionConflict`, `InvalidValue`."""
    entries = yield from _locked(asset_id, transaction.keys, dialect)
    for key, expected in transaction.reads.items():
        _check(key, entries, expected)
    sums = yield from _sums(asset_id, transaction, entries, task_instance_id, dialect)
    versions = {key: entries[key].version if key in entries else 0 for key in transaction.increments}
    for key, text in sorted({**transaction.sets, **sums}.items()):
        is_ref = key in transaction.references
        versions[key] = yield from write_entry(asset_id, key, text, dialect=dialect, writer=writer, is_ref=is_ref)
    if transaction.deletes:
        yield from remove_entries(asset_id, sorted(transaction.deletes), writer)
    present = {key: entries[key].value if key in entries else None for key in transaction.increments}
    return Outcome(versions={**versions, **dict.fromkeys(transaction.deletes, 0)}, values={**present, **sums})


def _sums(
    asset_id: int, transaction: Transaction, entries: Entries, task_instance_id: str, dialect: str
) -> Statements[Mapping[str, str]]:
    """What the incremented keys become; nothing when they were incremented before."""
    if not transaction.increments:
        return {}
    place = {"task_instance_id": task_instance_id, "asset_id": asset_id, "ordinal": transaction.ordinal}
    first = upsert(asset_store_increment, dialect).values(place).on_conflict_do_nothing()
    if not (yield first.returning(asset_store_increment.c.ordinal)).all():
        return {}
    return {key: _sum(key, entries.get(key), by) for key, by in transaction.increments.items()}


def _sum(key: str, entry: Row[tuple[str, str, bool, int]] | None, by: float) -> str:
    if entry is None:
        return to_json(by)
    now = None if entry.is_ref else json.loads(entry.value)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise InvalidValue(
            f"the entry {key!r} is no number, so nothing can be added to it; set it to one, or use another key"
        )
    try:
        return to_json(now + by)
    except OverflowError:
        raise InvalidValue(f"the entry {key!r} is too large to add to it; use another key") from None


def _check(key: str, entries: Entries, expected: int) -> None:
    found = entries[key].version if key in entries else 0
    if found != expected:
        has = f"has version {found}" if found else "does not exist"
        raise VersionConflict(f"the entry {key!r} {has}, expected was {expected}; read it again and decide anew")


def _locked(asset_id: int, keys: frozenset[str], dialect: str) -> Statements[Entries]:
    """The entries there are, which nobody changes until the transaction ends."""
    if not keys:
        return {}
    if dialect == "postgresql":
        yield _key_locks(), {"b_asset_id": asset_id, "b_keys": list(keys)}
    e = asset_store.c
    here = select(e.key, e.value, e.is_ref, e.version).where(e.asset_id == asset_id, e.key.in_(keys))
    found = yield here
    return {row.key: row for row in found}


@cache
def _key_locks() -> Select[Any]:
    """In the database's order of keys, as a clear takes them too, so that two never wait in a circle."""
    key = func.unnest(bindparam("b_keys", type_=ARRAY(Text))).column_valued("key")
    in_order = select(key).order_by(key).subquery()
    return select(key_lock(bindparam("b_asset_id", type_=BigInteger()), in_order.c.key))
