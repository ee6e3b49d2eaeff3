"""Changes by asset and partition key: which events a change stands in, and where a batch ends (pure).

A batch has an event for each asset and key, in their order, null last. Changes of one row may stand in several events, so a
batch ends where its events would not be in the order of a row's changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from triggers.base import JsonObject
from triggers.changes.codec import DecodedChange
from triggers.changes.options import ChangesOptions
from triggers.event_assets import OWN, EventTarget
from triggers.partition_keys import valid_key

Place: TypeAlias = tuple[int, bool, str]
"""The place of an event among those of a batch: by asset, and by key."""
Copy: TypeAlias = tuple[JsonObject, int]
"""A change as it stands in one event, and its bytes there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedChange:
    """A change as it stands in an event, and its bytes there."""

    member: JsonObject
    size: int
    targets: Sequence[EventTarget] = (OWN,)
    """The target of its row; before it that of the row before, if the change moved the row and the server says so.

    A TRUNCATE has one for each asset.
    """

    def places(self, assets: Sequence[str]) -> frozenset[Place]:
        """Return the places of the events that it stands in, by the assets in order, without the watcher's own."""
        order = {asset: number for number, asset in enumerate((*assets, None))}
        return frozenset((order[asset], key is None, key or "") for asset, key in self.targets)

    @property
    def rows(self) -> Sequence[str]:
        """The keys of the rows that it touches, as text."""
        return [json.dumps(self.member[name]) for name in ("old_key", "key") if name in self.member]

    def copies(self) -> Iterator[tuple[EventTarget, Copy]]:
        """Yield each target with the change as it stands in the event there."""
        if len(self.targets) == 1 or self.member["op"] == "truncate":
            yield from ((target, (self.member, self.size)) for target in self.targets)
            return
        before, now = self.targets
        yield before, self._with("moved_to", now, before)
        yield now, self._with("moved_from", before, now)

    def _with(self, name: str, other: EventTarget, here: EventTarget) -> Copy:
        """Return the change with the target that its row moved to or from, as far as that differs."""
        further: dict[str, Any] = {} if other.key == here.key else {name: other.key}
        if other.asset != here.asset:
            further[f"{name}_asset"] = other.asset
        return {**self.member, **further}, self.size + len(json.dumps(further))


def targets_of_change(op: str, decoded: DecodedChange, options: ChangesOptions) -> Sequence[EventTarget]:
    """Return the `targets` of a change."""
    if op == "truncate":
        return [EventTarget(asset) for asset in (*options.further_assets, None)]
    now = _valid(options.target_of(decoded.parts))
    before = now if decoded.old_parts is None else _valid(options.target_of(decoded.old_parts))
    return (now,) if before == now else (before, now)


def _valid(target: EventTarget) -> EventTarget:
    return target._replace(key=valid_key(target.key))


def parts_in_order(changes: Sequence[KeyedChange], assets: Sequence[str]) -> Iterator[slice]:
    """Yield the parts of some changes that are batches, each as large as possible; `assets` as in `KeyedChange.places`.

    An event may come before that of an earlier change of the same row only if both have the later change.
    """
    begin, emptied = 0, set[Place]()
    earlier: dict[str, set[Place]] = {}
    for at, change in enumerate(changes):
        places = change.places(assets)
        first = min(places)
        before = emptied.union(*(earlier.get(row, ()) for row in change.rows))
        if any(place > first for place in before - places):
            yield slice(begin, at)
            begin, emptied, earlier = at, set(), {}
        for row in change.rows:
            earlier.setdefault(row, set()).update(places)
        if change.member["op"] == "truncate":
            emptied = set(places)
    yield slice(begin, len(changes))
