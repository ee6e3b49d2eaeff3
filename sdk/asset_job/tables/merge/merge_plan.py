"""Decide what a merge does to a table, from what the table remembers of earlier merges. Pure.

Runs may be applied in any order and any number of times. What counts for a key is the change with the largest mark.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from asset_job.errors import TargetFailed
from asset_job.tables.merge.changes import Mark, NetChange, NetChanges, key_text

MOST_KEYS: Final = 100_000
"""The keys that a table remembers, those that changed last."""
_REMEDY: Final = "load a new table, and let a run that failed succeed before the next one is started"


@dataclass(frozen=True, kw_only=True)
class MergeMemory:
    """What a table remembers of the changes that were merged into it."""

    keys: Mapping[str, Mark] = field(default_factory=dict)
    """The newest change of each key that changed lately, also of deleted ones."""
    floor: Mark | None = None
    """The largest mark of a key that is forgotten; None: no key is forgotten."""
    emptied: Mark | None = None
    """The last TRUNCATE."""
    inheriting: Mark | None = None
    """The last change that took values from the table: no older change may come after it."""

    def to_bytes(self) -> bytes:
        marks = {"floor": self.floor, "emptied": self.emptied, "inheriting": self.inheriting}
        return gzip.compress(json.dumps({**marks, "keys": self.keys}, ensure_ascii=False).encode(), mtime=0)

    @classmethod
    def from_bytes(cls, content: bytes) -> MergeMemory:
        stored = json.loads(gzip.decompress(content))
        return cls(
            keys={text: (event, lsn) for text, (event, lsn) in stored["keys"].items()},
            floor=_mark(stored["floor"]),
            emptied=_mark(stored["emptied"]),
            inheriting=_mark(stored["inheriting"]),
        )

    def is_forgotten(self, mark: Mark) -> bool:
        """Whether a key that is not among `keys` may have a newer change."""
        return self.floor is not None and mark[0] <= self.floor[0]

    def after_truncate(self, mark: Mark | None) -> MergeMemory:
        """The memory after a TRUNCATE, if there is one that is newer than the last."""
        if mark is None or (self.emptied is not None and mark <= self.emptied):
            return self
        return replace(self, keys={text: known for text, known in self.keys.items() if known > mark}, emptied=mark)

    def has_newer(self, text: str, mark: Mark) -> bool:
        """Whether the table has a newer change of a key than this one, or may have had one."""
        known = self.keys.get(text)
        is_gone = self.emptied is not None and mark < self.emptied
        return is_gone or (self.is_forgotten(mark) if known is None else mark < known)

    def bounded(self, most: int) -> MergeMemory:
        """The memory with at most so many keys."""
        if len(self.keys) <= most:
            return self
        ordered = sorted(self.keys.items(), key=lambda item: item[1], reverse=True)
        return replace(self, keys=dict(ordered[:most]), floor=_latest(self.floor, ordered[most][1]))


def _mark(stored: Any) -> Mark | None:
    return None if stored is None else (stored[0], stored[1])


def _latest(*marks: Mark | None) -> Mark | None:
    return max((mark for mark in marks if mark is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """What a merge does, and what the table remembers afterwards."""

    writes: Mapping[str, NetChange]
    """The changes that count, by key: rows to write, and rows to delete."""
    empties: bool
    """Whether all rows go, but those in `newer`."""
    newer: frozenset[str]
    """The keys whose rows are newer than the TRUNCATE."""
    memory: MergeMemory


def plan_merge(changes: NetChanges, memory: MergeMemory, *, recorded: bool, target: str) -> MergePlan:
    """Decide what a merge does. `recorded`: the table has the changes of this task instance already, from an earlier try.

    Raises `TargetFailed` for changes that come so late that the table does not tell which values are newer.
    """
    if not recorded:
        _check_order(changes, memory, target)
    rest = memory.after_truncate(changes.emptied)
    writes: dict[str, NetChange] = {}
    for text, change in changes.of_keys.items():
        known = rest.keys.get(text)
        if rest.has_newer(text, change.mark):
            continue
        is_repeated = change.row is not None and (change.mark == known or _has_its_key(change, known))
        writes[text] = replace(change, base=change.key) if is_repeated else change  # a row given this key has it by now
    inherited = (change.mark for change in writes.values() if change.inherited)
    after = replace(
        rest,
        keys={**rest.keys, **{text: change.mark for text, change in writes.items()}},
        inheriting=_latest(rest.inheriting, *inherited),
    )
    empties = rest is not memory
    return MergePlan(
        writes=writes,
        empties=empties,
        newer=frozenset(rest.keys) if empties else frozenset(),
        memory=after.bounded(MOST_KEYS),
    )


def _check_order(changes: NetChanges, memory: MergeMemory, target: str) -> None:
    """Raise `TargetFailed` if newer changes were merged before, and it is not known that these did not need the ones of this run."""
    marks = [change.mark for change in changes.of_keys.values()]
    marks += [changes.emptied] if changes.emptied else []
    if memory.inheriting is not None and any(mark[0] < memory.inheriting[0] for mark in marks):
        raise TargetFailed(
            f"{target} has newer changes already, and one of them has kept a large value (TOAST) that the changes of this run may have "
            f"set: {_REMEDY}"
        )
    if changes.emptied is not None and memory.is_forgotten(changes.emptied):
        raise TargetFailed(
            f"{target} has more than {MOST_KEYS} changes already that are newer than the TRUNCATE in this run: {_REMEDY}"
        )
    for text, change in changes.of_keys.items():
        _check_key(text, change, memory, target)


def _check_key(text: str, change: NetChange, memory: MergeMemory, target: str) -> None:
    known = memory.keys.get(text)
    if (known is None and memory.is_forgotten(change.mark)) or _lacks_base(change, memory):
        raise TargetFailed(
            f"{target} has newer changes already, and it does not tell how the row with the key {text} was before them: {_REMEDY}"
        )
    if known is not None and _contradict(change.mark, known):
        raise TargetFailed(
            f"{target} has a change of the key {text} that is newer by its LSN or by its event, and older by the other: the source or "
            "the metadata database was restored, so load a new table"
        )


def _contradict(mark: Mark, known: Mark) -> bool:
    """Whether two changes of one key come in one order by their events, and in the other by their LSNs."""
    by_event, by_lsn = mark[0] - known[0], mark[1] - known[1]
    return 0 not in (mark[1], known[1]) and by_event * by_lsn < 0


def _has_its_key(change: NetChange, known: Mark | None) -> bool:
    """Whether the table has the change that gave a row its key already, from an event of another partition key."""
    return change.shared is not None and known is not None and known[1] >= change.shared


def _lacks_base(change: NetChange, memory: MergeMemory) -> bool:
    """Whether a change needs values of a row that may have been replaced by a newer one."""
    if not change.inherited or change.base is None or change.base == change.key:
        return False
    if _has_its_key(change, memory.keys.get(key_text(change.key))):
        return False
    known = memory.keys.get(key_text(change.base))
    return memory.is_forgotten(change.mark) if known is None else known > change.mark
