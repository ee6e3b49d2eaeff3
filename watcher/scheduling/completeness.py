"""When a partition is complete, and what it lacks until then: pure functions of what is queued."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from store.partition_keys import Completeness, QueuedKey, divided


def complete_references(rows: Sequence[QueuedKey], complete: Completeness | None) -> Mapping[str, int]:
    """Return the keys of the references of which a group has all events, each with the event that completed it.

    One to an asset that has not the part of which values are listed needs one event.
    """
    events: dict[str, int] = {}
    for reference in sorted({each for row in rows for each in row.references}):
        mine = [row for row in rows if reference in row.references]
        if complete is None or complete.part not in mine[0].parts:
            events[reference] = min(row.first_event for row in mine)
        elif len(came := sorted(_first_events(mine, complete).values())) >= complete.needed:
            events[reference] = came[complete.needed - 1]
    return events


def _first_events(rows: Sequence[QueuedKey], complete: Completeness) -> Mapping[str, int]:
    """Return the listed values of the part that have come, each with its first event. The rows are those of one asset."""
    first: dict[str, int] = {}
    for row in rows:
        values = [] if row.key is None else divided(row.key)
        value = values[row.parts.index(complete.part)] if len(values) == len(row.parts) else ""
        if value in complete.values:
            first[value] = min(row.first_event, first.get(value, row.first_event))
    return first


def missing_values(reference: str, rows: Sequence[QueuedKey], complete: Completeness | None) -> str:
    """Return which values a reference lacks, to follow its name; '' if none of its events has come."""
    mine = [row for row in rows if reference in row.references]
    if complete is None or not complete.values or not mine:
        return ""
    came = _first_events(mine, complete)
    number = "" if complete.at_least is None else f"{complete.needed - len(came)} of "
    return f" with {complete.part} {number}{', '.join(value for value in complete.values if value not in came)}"


@dataclass
class DistinctItems:
    """Counts different files and rows of events, each once whatever its versions. An event that names none is one item.

    With `is_marker` only files count whose name it accepts.
    """

    is_marker: Callable[[str], bool] | None = None
    names: set[str] = field(default_factory=set)
    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, asset: str, event_id: int, extra: str) -> None:
        """Add the items that an event of the asset names in `extra`, the text of a JSON object."""
        content = json.loads(extra)
        if self.is_marker is not None:
            names = [_file_name(file) for file in _list(content.get("files"))]
            self.names.update(name for name in names if self.is_marker(name))
            return
        files, keys, ranges = (_list(content.get(name)) for name in ("files", "keys", "ranges"))
        if not any(name in content for name in ("files", "keys", "ranges")):
            self.names.add(json.dumps([asset, "event", event_id]))
        named = [_name_of(file) for file in files]
        self.names.update(
            json.dumps([asset, kind, name]) for kind, some in (("file", named), ("key", keys)) for name in some
        )
        self.ranges.setdefault(asset, []).extend(
            (each[0], each[1]) for each in ranges if isinstance(each, list) and _are_limits(each)
        )

    @property
    def count(self) -> int:
        return len(self.names) + sum(_covered(ranges) for ranges in self.ranges.values())


def _file_name(file: object) -> str:
    """Return the key or the path of a file in an event; '' if it has neither."""
    name = (file.get("key") or file.get("path")) if isinstance(file, dict) else file
    return name if isinstance(name, str) else ""


def _name_of(file: object) -> object:
    if not isinstance(file, dict):
        return file
    return [file.get(name) for name in ("bucket", "key")] if "key" in file else file


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _are_limits(limits: list[object]) -> bool:
    return len(limits) == len(("low", "high")) and all(type(each) is int for each in limits)


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """The number of integers in any of the ranges."""
    count, above = 0, None
    for low, high in sorted(ranges):
        first = low if above is None else max(low, above)
        count += max(0, high - first + 1)
        above = max(high + 1, first)
    return count
