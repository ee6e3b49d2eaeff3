"""Compares what a source lists with what events name, one name at a time (pure). Both come in the order of names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from store.detection.sketches import microseconds
from triggers.inventories import ListedItem

DifferenceKind: TypeAlias = Literal[
    "not_reported",
    "reported_twice",
    "failed",
    "dequeued",
    "rejected",
    "reported_not_loaded",
    "replaced",
    "waiting",
    "gone_from_source",
    "past_retention",
    "before_start",
]
SEVEREST_FIRST: Final[Sequence[DifferenceKind]] = DifferenceKind.__args__  # type: ignore[attr-defined]  # typing has no name for it
FateOfEvent: TypeAlias = Literal["loaded", "failed", "dequeued", "open", "past_retention"]
"""What became of an event. `open`: no run that has ended had it, and people did not take it away."""
SECOND: Final = 1_000_000


class NamedItem(NamedTuple):
    """An item that an event names. `generation` counts the rewinds before the event: after one, items are reported again."""

    name: str
    event: int
    content: str | None
    generation: int
    fate: FateOfEvent


class ComparedItem(NamedTuple):
    """The result for one name. `difference` None: it is in the source, and a run has loaded it."""

    name: str
    difference: DifferenceKind | None
    in_source: bool
    is_reported: bool
    is_loaded: bool


@dataclass(frozen=True, kw_only=True)
class ComparisonRules:
    """The moments, in microseconds since 1970, and numbers that decide what an unnamed item means."""

    began: int
    """When the comparison began, by the source's clock. What was written later is left out."""
    last_event: int
    """The newest event then."""
    passed_before: int | None = None
    """What was written before it, the watcher's start or a rewind passed over. None: nothing."""
    kept_since: int | None = None
    """Events before it may have been removed. None: none was."""
    since: int | None = None
    until: int | None = None
    """Only items written from `since` on, and before `until`, are compared."""
    selects: Callable[[str], bool] = lambda _name: True
    """Whether the watcher selects an item of this name, as far as the name tells."""

    def covers(self, written: int | None) -> bool:
        if written is None:
            return True
        return (self.since is None or written >= self.since) and (self.until is None or written < self.until)


def compare(listed: Iterable[ListedItem], named: Iterable[NamedItem], rules: ComparisonRules) -> Iterator[ComparedItem]:
    """Yield the result for every name that either has, in order. Both are in the order of names."""
    by_name = groupby(named, itemgetter(0))
    name, events = _next(by_name)
    for item in listed:
        while name is not None and name < item.name:
            if (gone := _gone(name, events, rules)) is not None:
                yield gone
            name, events = _next(by_name)
        own: Sequence[NamedItem] = ()
        if name == item.name:
            own = events
            name, events = _next(by_name)
        if (compared := _listed(item, own, rules)) is not None:
            yield compared
    while name is not None:
        if (gone := _gone(name, events, rules)) is not None:
            yield gone
        name, events = _next(by_name)


def _next(by_name: Iterator[tuple[str, Iterator[NamedItem]]]) -> tuple[str | None, Sequence[NamedItem]]:
    for name, events in by_name:
        return name, [*events]
    return None, ()


def _gone(name: str, events: Sequence[NamedItem], rules: ComparisonRules) -> ComparedItem | None:
    """Return the result for an item that only events name; None: it is left out."""
    newest = events[-1]
    in_range = (rules.since is None and rules.until is None) or rules.covers(_written(newest))
    if not in_range or not rules.selects(name):
        return None
    difference: DifferenceKind = "gone_from_source"
    if _is_repeated([event for event in events if event.content == newest.content]):
        difference = "reported_twice"
    elif newest.fate in {"failed", "dequeued"}:
        difference = newest.fate
    return ComparedItem(name, difference, False, True, newest.fate == "loaded")


def _listed(item: ListedItem, events: Sequence[NamedItem], rules: ComparisonRules) -> ComparedItem | None:
    """Return the result for an item of the source; None: it is left out."""
    if not rules.covers(item.written) or (item.written is not None and item.written >= rules.began + SECOND):
        return None
    own = [event for event in events if _names(event, item)] if events else ()
    if own:
        newest = own[-1]
        return ComparedItem(item.name, _fate(own), True, True, newest.fate == "loaded")
    if events and events[-1].event > rules.last_event:
        return None  # it was written again while the comparison ran
    is_loaded = bool(events) and events[-1].fate == "loaded"
    return ComparedItem(item.name, _unnamed(item, bool(events), rules), True, bool(events), is_loaded)


def _names(event: NamedItem, item: ListedItem) -> bool:
    """Whether the event names the content that the item has now. Events of older releases have fewer members.

    Where events name no contents, an item that waits was written again since.
    """
    if event.content == item.content and item.content is not None:
        return True
    if event.content is None or item.content is None:
        return item.state not in {"waiting", "young"}
    now = json.loads(item.content)
    return all(now.get(name) == value for name, value in json.loads(event.content).items())


def _fate(own: Sequence[NamedItem]) -> DifferenceKind | None:
    if _is_repeated(own):
        return "reported_twice"
    match own[-1].fate:
        case "loaded":
            return None
        case "open":
            return "reported_not_loaded"
        case fate:
            return fate


def _is_repeated(own: Sequence[NamedItem]) -> bool:
    """Whether one content was reported twice without a rewind in between."""
    return len(own) > 1 and own[0].content is not None and len({event.generation for event in own}) < len(own)


def _unnamed(item: ListedItem, has_events: bool, rules: ComparisonRules) -> DifferenceKind:
    """Return what it means that no event names the present content of an item."""
    if item.state == "waiting":
        return "replaced" if has_events else "waiting"
    if item.state == "young":
        return "waiting"
    if item.state != "done":
        return item.state
    if _is_before(item.written, rules.passed_before):
        return "before_start"
    return "past_retention" if _is_before(item.written, rules.kept_since) else "not_reported"


def _is_before(written: int | None, moment: int | None) -> bool:
    return moment is not None and (written is None or written < moment)


def _written(event: NamedItem) -> int | None:
    content: Any = None if event.content is None else json.loads(event.content)
    moment = content.get("last_modified") if isinstance(content, dict) else None
    return microseconds(moment) if isinstance(moment, str) else None


def moment(value: datetime | None) -> int | None:
    """Return a time of the database in microseconds since 1970."""
    return None if value is None else microseconds(value.isoformat())
