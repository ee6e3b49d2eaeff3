"""The items that an event's `extra` lists: files, rows, keys and ranges of ids, in parts and by a text in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from watcher.features.pages.words import json_text, visible
from watcher.host.event_words import is_size, item_in_words, size_in_words

ITEMS: Final = 100
"""Items of a part."""
_ELSEWHERE: Final = frozenset({"watcher", "event_id"})
_ENDS: Final = 2
_DIGITS: Final = 30


@dataclass(frozen=True, kw_only=True)
class EventItem:
    """An item, its list's name, and its place in the list from 1 on."""

    member: str
    place: int
    value: Any

    @property
    def words(self) -> str:
        return item_in_words(self.member, self.value)

    @property
    def size(self) -> str | None:
        """How large it is: a file's bytes, the rows of a range."""
        if self.member == "ranges" and _is_range(self.value):
            rows = self.value[1] - self.value[0] + 1
            return "1 row" if rows == 1 else f"{rows:,} rows"
        size = self.value.get("size") if isinstance(self.value, Mapping) else None
        return size_in_words(size) if is_size(size) else None

    @property
    def written(self) -> datetime | None:
        """When the source last wrote it, in UTC."""
        text = self.value.get("last_modified") if isinstance(self.value, Mapping) else None
        try:
            at = datetime.fromisoformat(text) if isinstance(text, str) else None
            return None if at is None or at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            return None


@dataclass(frozen=True, kw_only=True)
class ItemsPart:
    """A part of the items that match, and the number of items before the next part, or None at the end."""

    rows: Sequence[EventItem]
    total: int
    following: int | None


def items_of(extra: Mapping[str, Any]) -> Sequence[EventItem]:
    """Return the items of all lists, in their order."""
    lists = {name: value for name, value in extra.items() if isinstance(value, list)}
    return [
        EventItem(member=name, place=place, value=value)
        for name, values in lists.items()
        for place, value in enumerate(values, start=1)
    ]


def without_items(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `items_of` omits: all members but lists that have items."""
    return {name: value for name, value in extra.items() if not isinstance(value, list) or not value}


def facts_of(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members that are one value each, without those that the page shows in another place or as an id."""
    return {
        name: value
        for name, value in extra.items()
        if name not in _ELSEWHERE and not isinstance(value, (list, Mapping))
    }


def part_of(items: Sequence[EventItem], text: str, after: int) -> ItemsPart:
    """Return the items that match the text, without the first `after` of them."""
    matching = [item for item in items if matches(item, text)] if text else items
    end = after + ITEMS
    return ItemsPart(rows=matching[after:end], total=len(matching), following=end if end < len(matching) else None)


def matches(item: EventItem, text: str) -> bool:
    """Whether a value in the item contains the text, whatever its case, or the item is a range with this id."""
    if item.member == "ranges" and _is_within(item.value, text.strip()):
        return True
    part = visible(text).casefold()
    key = [visible(item.words)] if isinstance(item.value, list) and item.member != "ranges" else []
    return any(part in shown.casefold() for shown in (*key, *_texts(item.value)))


def _is_within(limits: Any, text: str) -> bool:
    if not _is_range(limits):
        return False
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS):
        return False
    return bool(limits[0] <= int(text) <= limits[1])


def _is_range(limits: Any) -> bool:
    return isinstance(limits, list) and len(limits) == _ENDS and all(type(end) is int for end in limits)


def _texts(value: Any) -> Iterator[str]:
    """Yield the values in an item as pages show them, and lists, such as keys of several columns, as a whole as well."""
    if isinstance(value, list):
        yield json_text(value)
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, Mapping):
            left.extend(inner.values())
        elif isinstance(inner, list):
            left.extend(inner)
        else:
            yield visible(inner) if isinstance(inner, str) else json_text(inner)
