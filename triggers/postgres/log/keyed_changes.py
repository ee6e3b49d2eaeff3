"""Changes by their partition keys: which events a change stands in, and where a batch ends (pure).

A batch has an event for each key, in the order of the keys, null last. Changes of one row may have several keys, so a batch
ends where its events would not be in the order of a row's changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from triggers.base import JsonObject
from triggers.partition_keys import key_of_parts, valid_key
from triggers.postgres.log.codec import DecodedChange

Place: TypeAlias = tuple[bool, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedChange:
    """A change as it stands in an event, and its bytes there."""

    member: JsonObject
    size: int
    keys: Sequence[str | None] = (None,)
    """The key of its row; before it the one that the row had, if the change moved the row and the server says so."""

    @property
    def places(self) -> frozenset[Place]:
        """The places of the events that it stands in, among those of a batch."""
        return frozenset((key is None, key or "") for key in self.keys)

    @property
    def rows(self) -> Sequence[str]:
        """The keys of the rows that it touches, as text."""
        return [json.dumps(self.member[name]) for name in ("old_key", "key") if name in self.member]

    def copies(self) -> Iterator[tuple[str | None, JsonObject, int]]:
        """Yield each key with the change as it stands in that key's event, and its bytes there."""
        *left, key = self.keys
        if not left:
            yield key, self.member, self.size
        for before in left:
            yield before, *self._with("moved_to", key)
            yield key, *self._with("moved_from", before)

    def _with(self, name: str, key: str | None) -> tuple[JsonObject, int]:
        return {**self.member, name: key}, self.size + len(json.dumps({name: key}))


def keys_of_change(decoded: DecodedChange) -> Sequence[str | None]:
    """Return the `keys` of a change."""
    key = valid_key(key_of_parts(decoded.parts))
    left = key if decoded.old_parts is None else valid_key(key_of_parts(decoded.old_parts))
    return (key,) if left == key else (left, key)


def parts_in_order(changes: Sequence[KeyedChange]) -> Iterator[slice]:
    """Yield the parts of some changes that are batches, each as large as possible.

    An event may come before that of an earlier change of the same row only if both have the later change.
    """
    begin, emptied = 0, set[Place]()
    earlier: dict[str, set[Place]] = {}
    for at, change in enumerate(changes):
        places, first = change.places, min(change.places)
        before = emptied.union(*(earlier.get(row, ()) for row in change.rows))
        if any(place > first for place in before - places):
            yield slice(begin, at)
            begin, emptied, earlier = at, set(), {}
        for row in change.rows:
            earlier.setdefault(row, set()).update(places)
        if change.member["op"] == "truncate":
            emptied = set(places)
    yield slice(begin, len(changes))
