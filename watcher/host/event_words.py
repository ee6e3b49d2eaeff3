"""What an event brings and what a run is, in a few words each, for commands and pages (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TypeGuard

_KILO: Final = 1000
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_OWN: Final = frozenset({"watcher", "event_id", "count", "watermark"})
"""Members that say where an event is from, not what it brings."""
_NAMES: Final = ("key", "path", "name")
"""Members of an item that name it."""
_NO_FILE: Final = 10**21
"""A number of bytes that no file has."""
_SHOWN: Final = 3
"""Members of an event that no watcher made which are named."""
_ASSETS: Final = 2
"""The assets of a run's events that are named."""
_WHY: Final[Mapping[str, str]] = {
    "asset_triggered": "by events",
    "scheduled": "by its times",
    "manual": "by hand",
    "operator_triggered": "by Airflow",
    "asset_materialization": "by hand, for its asset",
    "backfill": "by a backfill",
}


def event_in_words(extra: Mapping[str, Any], longest: int | None = None) -> str:
    """Return what an event brings: `8 files, 7 kB: orders/049.json and 7 more`. Text of other people is as it stands.

    Of the name of a file that has more than `longest` characters only the end is shown.
    """
    count = extra.get("count")
    if files := _list(extra, "files"):
        sizes = [file.get("size") for file in files if isinstance(file, Mapping)]
        known = [size for size in sizes if is_size(size)]
        weight = f", {size_in_words(sum(known))}" if len(known) == len(files) else ""
        last = "the last of its kind, " if extra.get("last") is True else ""
        return f"{last}{_counted(len(files), 'file')}{weight}: {_first(files, longest)}"
    if ranges := _list(extra, "ranges"):
        return f"{_counted(_rows(ranges) if count is None else count, 'row')}: {_range(ranges)}"
    if "changes" in extra or "keys" in extra or "deleted" in extra:
        changes, keys, deleted = _list(extra, "changes"), _list(extra, "keys"), _list(extra, "deleted")
        what = _counted(len(changes), "change") if changes else _counted(len(keys) + len(deleted), "row")
        gone = f", {len(deleted):,} deleted" if deleted else ""
        named = [*keys, *deleted]
        return f"{what}{gone}: {_first(named)}" if named else what
    return _members({name: value for name, value in extra.items() if name not in _OWN}) or _nothing(count)


def item_in_words(member: str, item: Any) -> str:
    """Return what one item of an event's list is: a file's name, `ids 5 to 16`, `update of 7`, `eu, 5` for a key of two columns."""
    if member == "ranges" and _is_range(item):
        return _ids(item)
    if isinstance(item, Mapping) and item:
        named = next((item[name] for name in _NAMES if item.get(name) is not None), None)
        done = item.get("op")
        words = _members(item) if named is None else _key(named)
        return words if not isinstance(done, str) else done if named is None else f"{done} of {words}"
    return _key(item)


def is_size(value: object) -> TypeGuard[int]:
    """Whether a member of an event can be the size of a file in bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _NO_FILE


def size_in_words(size: int) -> str:
    """Return a number of bytes with two digits at most behind the unit that fits: `7 kB`, `1.2 GB`."""
    amount, unit = float(size), 0
    while round(amount) >= _KILO and unit + 1 < len(_UNITS):
        amount, unit = amount / _KILO, unit + 1
    if unit == 0:
        return "1 byte" if size == 1 else f"{size} bytes"
    return f"{amount:.1f} {_UNITS[unit]}" if amount < 10 and round(amount, 1) % 1 else f"{amount:.0f} {_UNITS[unit]}"  # noqa: PLR2004  one digit


def run_in_words(
    run_type: str,
    at: datetime,
    now: datetime,
    partition: str | None = None,
    events: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """Return when and why a run was made: `today 18:09:31 UTC, by events`, with the key of its partition."""
    return f"{day_and_time(at, now)}, {why_in_words(run_type, partition, events)}"


def why_in_words(run_type: str, partition: str | None = None, events: Mapping[str, int] = MappingProxyType({})) -> str:
    """Return why a run was made. `events`: the numbers of its events by asset, where they are known: `3 events of orders`."""
    why = _events_of(events) if events else _WHY.get(run_type, run_type.replace("_", " "))
    return why + ("" if partition is None else f", partition {partition}")


def _events_of(events: Mapping[str, int]) -> str:
    count = _counted(sum(events.values()), "event")
    return f"{count} of {' and '.join(sorted(events)) if len(events) <= _ASSETS else f'{len(events):,} assets'}"


def day_and_time(at: datetime, now: datetime) -> str:
    """Return a time in UTC, the day as a word where it is today or yesterday."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    ago = (now.date() - at.date()).days
    day = {0: "today", 1: "yesterday"}.get(ago, f"{at:%Y-%m-%d}")
    return f"{day} {at:%H:%M:%S} UTC"


def _list(extra: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = extra.get(name)
    return value if isinstance(value, list) else []


def _counted(count: object, noun: str) -> str:
    number = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def _first(items: Sequence[Any], longest: int | None = None) -> str:
    more = f" and {len(items) - 1:,} more" if len(items) > 1 else ""
    name = _name(items[0])
    is_long = longest is not None and len(name) > longest
    return f"{'…' + name[-longest:] if is_long and longest else name}{more}"


def _key(item: Any) -> str:
    return ", ".join(_name(part) for part in item) if isinstance(item, list) and item else _name(item)


def _name(item: Any) -> str:
    if isinstance(item, Mapping):
        item = item.get("key") or item.get("path") or item.get("name") or dict(item)
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _rows(ranges: Sequence[Any]) -> int:
    return sum(limits[1] - limits[0] + 1 for limits in ranges if _is_range(limits))


def _range(ranges: Sequence[Any]) -> str:
    first, more = ranges[0], len(ranges) - 1
    ids = _ids(first) if _is_range(first) else _name(first)
    return ids + (f" and {_counted(more, 'more range')}" if more else "")


def _ids(limits: Sequence[int]) -> str:
    return f"id {limits[0]}" if limits[0] == limits[1] else f"ids {limits[0]} to {limits[1]}"


def _is_range(limits: Any) -> bool:
    return isinstance(limits, list) and len(limits) == 2 and all(type(end) is int for end in limits)  # noqa: PLR2004  a range has two ends


def _members(members: Mapping[str, Any]) -> str:
    shown = [f"{name} {_name(value)}" for name, value in list(members.items())[:_SHOWN]]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _nothing(count: object) -> str:
    return "no details" if count is None else _counted(count, "item")
