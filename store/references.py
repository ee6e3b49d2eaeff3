"""References of schedules, and which of them an event satisfies: pure functions.

A reference without `where` takes every event of its asset; one with `where` takes those that say what it asks for. Which
references a queued event satisfies is decided once, when it is queued, and stored beside it: a changed `where` counts for
later events only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from store.keys import Condition

PLAIN: Final = ""
"""The id of no `where`."""
ONLY_PLAIN: Final = ""
"""What is stored with an event that satisfies references without `where`, and no others."""
UNDECIDED: Final = "?"
"""What is stored, within a transaction, until it is decided what an event satisfies."""
MOST_FILTERED: Final = 100
"""The most references with `where` that a schedule may have: what an event satisfies is part of an index."""
_PLAIN_AMONG_OTHERS: Final = "*"
_PARTS: Final = re.compile(r"(?:[^\\.]|\\.)+")
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True)
class ScheduleReference:
    """An asset or an alias in a condition. `where_id` is `PLAIN` without `where`."""

    name: str
    is_alias: bool = False
    where: Mapping[str, Any] | None = None

    @property
    def where_id(self) -> str:
        return where_id(self.where)


def where_id(where: Mapping[str, Any] | None) -> str:
    """Return a short name for the text of a `where`."""
    return PLAIN if where is None else hashlib.sha256(json.dumps(where, sort_keys=True).encode()).hexdigest()[:16]


def references(condition: Condition | None) -> Iterator[ScheduleReference]:
    """Yield the references in a condition, in the order written."""
    match condition:
        case str(name):
            yield ScheduleReference(name=name)
        case {"all": parts} | {"any": parts}:
            for part in parts:
                yield from references(part)
        case Mapping():
            kind = "alias" if "alias" in condition else "asset"
            yield ScheduleReference(name=condition[kind], is_alias=kind == "alias", where=condition.get("where"))


def has_where(condition: Condition | None) -> bool:
    """Whether an event of an asset that a condition waits for may satisfy nothing in it."""
    return any(reference.where is not None for reference in references(condition))


def is_awaited(
    condition: Condition | None, satisfied: AbstractSet[str], resolved: Mapping[str, AbstractSet[str]]
) -> bool:
    """Whether a condition has a reference among `satisfied`, which are keys. `resolved` has the assets of each alias."""
    return any(
        key(asset, each.where_id) in satisfied
        for each in references(condition)
        for asset in (resolved.get(each.name, ()) if each.is_alias else (each.name,))
    )


def key(asset: str, where_id: str) -> str:
    """Return the key of all references to an asset with the same `where`: the asset's name, if there is none."""
    return f"{asset}\0{where_id}" if where_id else asset


def keys(asset: str, satisfies: str) -> frozenset[str]:
    """Return the keys of what a queued event of an asset satisfies, given the text that is stored with it."""
    return frozenset(key(asset, where_id) for where_id in decode(satisfies))


def decode(satisfies: str) -> AbstractSet[str]:
    """Return the ids of the `where`s, `PLAIN` among them, that a stored text stands for."""
    if satisfies == ONLY_PLAIN:
        return {PLAIN}
    return {PLAIN if each == _PLAIN_AMONG_OTHERS else each for each in satisfies.split(" ")}


def satisfied(of_asset: Sequence[ScheduleReference], extra: Any, partition_key: str | None) -> str | None:
    """Return what an event satisfies, as it is stored; None: nothing, so the event is not for this schedule.

    `of_asset` are the references to the event's asset, by its name or through an alias.
    """
    ids = {each.where_id for each in of_asset if each.where is None or matches(each.where, extra, partition_key)}
    if ids == {PLAIN}:
        return ONLY_PLAIN
    return " ".join(sorted(each or _PLAIN_AMONG_OTHERS for each in ids)) or None


def matches(where: Mapping[str, Any], extra: Any, partition_key: str | None) -> bool:
    """Whether an event says everything that a `where` asks for. A list means one of its members."""
    event = {"extra": extra, "partition_key": partition_key}
    return all(
        any(is_same(_value_at(event, path), each) for each in (value if isinstance(value, list) else [value]))
        for path, value in where.items()
    )


def parts_of(path: str) -> Sequence[str]:
    """Return the names in a path. Dots separate them; a dot or a backslash in a name has a backslash before it."""
    return [re.sub(r"\\(.)", r"\1", part) for part in _PARTS.findall(path)]


def _value_at(value: Any, path: str) -> Any:
    for part in parts_of(path):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: 1 is 1.0, and neither `true` nor `"1"`."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)
