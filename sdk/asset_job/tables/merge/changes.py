"""What the changes of a run leave of each row that they touch. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from asset_job.errors import NoRetry
from asset_job.events import is_shared

Mark: TypeAlias = "tuple[int, int]"
"""The place of a change in the order of commits: the id of its event, and its LSN, or 0 for a row that was read.

LSNs of different keys are not in that order, because transactions overlap. Those of one key are.
"""
Key: TypeAlias = "tuple[Any, ...]"
"""The values of a row's key, as the events have them."""


@dataclass(frozen=True, kw_only=True)
class NetChange:
    """What the changes of a run leave of one key."""

    key: Key
    mark: Mark
    """The place of the last of these changes."""
    row: Mapping[str, Any] | None
    """The columns that the run knows; None: the row is deleted."""
    base: Key | None = None
    """The key under which the table has had the row, whose other columns are kept. None: the row is new."""
    inherited: frozenset[str] = frozenset()
    """The columns that the source did not send, because they did not change: the row needs those of the table."""
    shared: int | None = None
    """The LSN of the change that gave the row its key, if an event of another partition key has that change, too."""


@dataclass(frozen=True, kw_only=True)
class NetChanges:
    """What the changes of a run leave of a table. Rows that are not in `of_keys` were not touched since the table was emptied."""

    of_keys: Mapping[str, NetChange] = field(default_factory=dict)
    """The text of a key, from `key_text` -> what is left of it."""
    emptied: Mark | None = None
    """The place of the last TRUNCATE; None: there is none."""


def key_text(key: Key) -> str:
    """The text by which a key is known."""
    return json.dumps(list(key), ensure_ascii=False)


def net_changes(
    changes: Iterable[Mapping[str, Any]], merge_on: Sequence[str], event_ids: Mapping[str, int]
) -> NetChanges:
    """Fold changes, which are in the order of their commits, by key. `merge_on` names the columns of the key in their order.

    `event_ids`: LSN -> the id of the event that has the change. Raises `NoRetry` for a change that no event has, that has no
    row, or whose key is not that of its row.
    """
    of_keys: dict[str, NetChange] = {}
    emptied: Mark | None = None
    for change in changes:
        if (event_id := event_ids.get(str(change["lsn"]))) is None:
            raise NoRetry(
                f"no event of this run has a change with the LSN {change['lsn']}: pass r.triggering_asset_events.changes()"
            )
        mark = (event_id, lsn_of(change))
        if change["op"] == "truncate":
            of_keys, emptied = {}, mark
            continue
        key = _key(change["key"], merge_on)
        if change["op"] == "delete":
            of_keys[key_text(key)] = NetChange(key=key, mark=mark, row=None)
            continue
        before = key if change.get("old_key") is None else _key(change["old_key"], merge_on)
        row = _row(change, key, merge_on)
        of_keys[key_text(key)] = _written(change, row, before, NetChange(key=key, mark=mark, row=row), of_keys)
        if before != key:
            of_keys[key_text(before)] = NetChange(key=before, mark=mark, row=None)
    return NetChanges(of_keys=of_keys, emptied=emptied)


def _written(
    change: Mapping[str, Any], row: Mapping[str, Any], before: Key, new: NetChange, of_keys: Mapping[str, NetChange]
) -> NetChange:
    """What an insert or an update of the row that had the key `before` leaves; `new` is that without anything kept."""
    if change["op"] == "insert":
        return new
    earlier, unchanged = of_keys.get(key_text(before)), frozenset(change.get("unchanged") or ())
    if earlier is None:
        shared = lsn_of(change) if is_shared(change) else None
        return replace(new, base=before, inherited=unchanged, shared=shared)
    known = {**(earlier.row or {}), **row}
    inherited = (earlier.inherited | unchanged) - known.keys()
    return replace(new, row=known, base=earlier.base, inherited=inherited, shared=earlier.shared)


def _row(change: Mapping[str, Any], key: Key, merge_on: Sequence[str]) -> dict[str, Any]:
    """The row of an insert or update, with the columns of its key. Raises `NoRetry`."""
    if change["op"] not in {"insert", "update"}:
        raise NoRetry(f"a change has the op {change['op']!r}, and a merge knows insert, update, delete and truncate")
    if (row := change.get("row")) is None:
        raise NoRetry(
            f"the change of the key {key_text(key)} has no row: name the table's columns by the watcher's `columns`"
        )
    own = dict(zip(merge_on, key, strict=True))
    if other := [name for name, value in own.items() if row.get(name, value) != value]:
        raise NoRetry(
            f"merge_on names {', '.join(merge_on)}, and the row with the key {key_text(key)} has another {other[0]}: "
            "name the columns of the source's key, in their order"
        )
    return {**row, **own}


def _key(value: Any, merge_on: Sequence[str]) -> Key:
    """The values of a key. Raises `NoRetry` if there are more or less of them than `merge_on` names."""
    key = tuple(value) if isinstance(value, list) else (value,)
    if len(key) != len(merge_on):
        raise NoRetry(
            f"merge_on names {', '.join(merge_on)}, and the events' keys have {len(key)} columns: correct merge_on"
        )
    return key


def lsn_of(change: Mapping[str, Any]) -> int:
    """The LSN of a change, which PostgreSQL writes as two hexadecimal numbers, such as `0/16B3740`."""
    high, _, low = str(change["lsn"]).partition("/")
    return (int(high, 16) << 32) + int(low, 16)
