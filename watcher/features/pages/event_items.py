"""The items that an event's `extra` lists: files, rows, keys and ranges of ids, in parts and by a text in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from watcher.features.pages.words import json_text, visible

ITEMS: Final = 100
"""Items of a part."""
_ENDS: Final = 2
_DIGITS: Final = 30


@dataclass(frozen=True, kw_only=True)
class EventItem:
    """An item, its list's name, and its place in the list from 1 on."""

    member: str
    place: int
    value: Any


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
    return any(part in shown.casefold() for shown in _texts(item.value))


def _is_within(limits: Any, text: str) -> bool:
    if not (isinstance(limits, list) and len(limits) == _ENDS and all(type(end) is int for end in limits)):
        return False
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS):
        return False
    return bool(limits[0] <= int(text) <= limits[1])


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
