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
from store.fates import HAS_LOADED, STAYING, Fate, without_event
from triggers.inventories import ListedItem

REPORTED_TWICE: Final = "reported_twice"
"""Events name the same content, and no rewind lies between them: the one difference that is no fate of the item."""
Difference: TypeAlias = Fate | Literal["reported_twice"]
"""How an item differs. Here `missing` is an item that an event names and the source lacks, though nothing of ours has removed it."""
FOUND: Final[Sequence[Difference]] = (
    Fate.NOT_REPORTED,
    REPORTED_TWICE,
    *STAYING,
    Fate.REJECTED,
    Fate.QUEUED,
    Fate.RUNNING,
    Fate.NOT_TAKEN,
    Fate.REPORTED,
    Fate.REPLACED,
    Fate.WAITING,
    Fate.MISSING,
    Fate.CLEANED,
    Fate.MOVED,
    Fate.UNKNOWN,
    Fate.PAST_RETENTION,
    Fate.BEFORE_START,
)
"""The differences that a comparison can find, the severest first."""
SEVEREST_FIRST: Final[Sequence[Difference]] = [*dict.fromkeys((*FOUND, *Fate))]
"""Every word for an item that a comparison can name. What a job has loaded and the source has is no difference."""
_REMOVED: Final = frozenset({Fate.CLEANED, Fate.MOVED})
SECOND: Final = 1_000_000


class NamedItem(NamedTuple):
    """An item that an event names. `generation` counts the rewinds before the event: after one, items are reported again."""

    name: str
    event: int
    content: str | None
    generation: int
    fate: Fate


class ComparedItem(NamedTuple):
    """The result for one name. `difference` None: it is in the source, and a run has loaded it."""

    name: str
    difference: Difference | None
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
    difference: Difference = Fate.MISSING
    if _is_repeated([event for event in events if event.content == newest.content]):
        difference = REPORTED_TWICE
    elif newest.fate in {*STAYING, *_REMOVED}:
        difference = newest.fate
    return ComparedItem(name, difference, False, True, newest.fate in HAS_LOADED)


def _listed(item: ListedItem, events: Sequence[NamedItem], rules: ComparisonRules) -> ComparedItem | None:
    """Return the result for an item of the source; None: it is left out."""
    if not rules.covers(item.written) or (item.written is not None and item.written >= rules.began + SECOND):
        return None
    own = [event for event in events if _names(event, item)] if events else ()
    if own:
        newest = own[-1]
        return ComparedItem(item.name, _difference(own), True, True, newest.fate in HAS_LOADED)
    if events and events[-1].event > rules.last_event:
        return None  # it was written again while the comparison ran
    is_loaded = bool(events) and events[-1].fate in HAS_LOADED
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


def _difference(own: Sequence[NamedItem]) -> Difference | None:
    """Return how an item differs that the source has. What was put back after its removal is loaded."""
    if _is_repeated(own):
        return REPORTED_TWICE
    return None if own[-1].fate in HAS_LOADED else own[-1].fate


def _is_repeated(own: Sequence[NamedItem]) -> bool:
    """Whether one content was reported twice without a rewind in between."""
    return len(own) > 1 and own[0].content is not None and len({event.generation for event in own}) < len(own)


def _unnamed(item: ListedItem, has_events: bool, rules: ComparisonRules) -> Fate:
    """Return what became of an item whose present content no event names."""
    if item.state == "waiting":
        return Fate.REPLACED if has_events else Fate.WAITING
    if item.state == "young":
        return Fate.WAITING
    if item.state != "done":
        return Fate(item.state)
    return without_event(item.written, passed_before=rules.passed_before, kept_since=rules.kept_since)


def _written(event: NamedItem) -> int | None:
    content: Any = None if event.content is None else json.loads(event.content)
    moment = content.get("last_modified") if isinstance(content, dict) else None
    return microseconds(moment) if isinstance(moment, str) else None


def moment(value: datetime | None) -> int | None:
    """Return a time of the database in microseconds since 1970."""
    return None if value is None else microseconds(value.isoformat())
