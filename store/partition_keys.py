"""Partition keys and their parts: pure functions of texts.

A key with several parts is their values joined by `|`. In a value, a backslash stands before each `|` and each backslash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """When a partition is complete: an asset has events with all `values` of a `part`, or with `at_least` so many of them.

    Or, with `items`, so many different files or rows have come; with `marker`, a file whose name ends as this glob says; with
    `manifest`, such a file and all files that it names. With `again` what comes after that is the next delivery of the partition,
    which is complete as the first one was.
    """

    part: str = ""
    values: tuple[str, ...] = ()
    at_least: int | None = None
    items: int | None = None
    marker: str | None = None
    manifest: str | None = None
    again: bool = False

    @property
    def needed_items(self) -> int:
        """How many of the files or rows that count must have come. A marker counts as one, and so do manifests with all files."""
        return (self.items or 0) if self.marker is None and self.manifest is None else 1

    @property
    def needed(self) -> int:
        """How many of the values are needed."""
        return len(self.values) if self.at_least is None else self.at_least

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Completeness:
        """Return what is stored as this JSON object."""
        return cls(
            part=stored.get("part", ""),
            values=tuple(stored.get("values", ())),
            at_least=stored.get("at_least"),
            items=stored.get("items"),
            marker=stored.get("marker"),
            manifest=stored.get("manifest"),
            again=stored.get("again", False),
        )


@dataclass(frozen=True, kw_only=True)
class QueuedKey:
    """The queued events of one job, asset and partition key that satisfy the same `references`, which are keys.

    `parts` are the names of the asset's parts; (): it has none.
    """

    asset: str
    references: AbstractSet[str]
    parts: Sequence[str]
    key: str | None
    events: int
    first_event: int
    last_event: int
    oldest: datetime
    newest: datetime


def divided(key: str) -> Sequence[str]:
    """Return the values that a key joins."""
    values, escaped = [""], False
    for character in key:
        if escaped or character not in "\\|":
            values[-1] += character
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            values.append("")
    return values


def joined(values: Sequence[str]) -> str:
    """Return the key of these values."""
    return "|".join(value.replace("\\", "\\\\").replace("|", "\\|") for value in values)


def group_of(key: str | None, parts: Sequence[str], by: Sequence[str] | None) -> str | None:
    """Return the key of the group that an event belongs to: the values of the parts `by`, all of them by default.

    An event whose key lacks one of them has no key. Without named parts, a key is taken as it is.
    """
    if key is None or (not parts and by is None):
        return key
    values = divided(key)
    named = dict(zip(parts, values, strict=True)) if len(parts) == len(values) else {}
    chosen = [named.get(name, "") for name in (parts if by is None else by)]
    return joined(chosen) if all(each.strip() for each in chosen) else None
