"""Cuts the numbers of a source into segments whose numbers all mean the same, by the ranges that events name (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter
from typing import NamedTuple

from store.fates import HAS_LOADED, Fate, without_event
from triggers.inventories import Range
from watcher.triggerer.reconciliation.comparison import REPORTED_TWICE, Difference


class NamedRange(NamedTuple):
    """Numbers that an event names; `generation` as of `NamedItem`."""

    low: int
    high: int
    event: int
    generation: int
    fate: Fate


class Segment(NamedTuple):
    """Numbers of one meaning. `difference`: that of the items there are; None: they are loaded, as it should be."""

    low: int
    high: int
    is_named: bool
    is_loaded: bool
    difference: Difference | None


@dataclass(frozen=True, kw_only=True)
class UnnamedRules:
    """What numbers mean that no event names: `waiting` are ascending ranges, the others are handled."""

    limits: Range
    """The lowest and the highest number that is looked at."""
    waiting: Sequence[Range]
    passed_below: int | None
    """A start or a rewind passed over the numbers below. None: over none."""
    forgotten_below: int | None
    """Events that named numbers below may have been removed. None: none was."""


def segments(ranges: Iterable[NamedRange], rules: UnnamedRules) -> Iterator[Segment]:
    """Yield the segments, ascending and without holes between the limits. The ranges come by their low numbers."""
    at, pending = rules.limits[0], None
    for segment in _named(ranges):
        for next_ in (*_unnamed(at, segment.low - 1, rules), segment):
            if pending is not None and pending[2:] == next_[2:] and pending.high + 1 == next_.low:
                pending = pending._replace(high=next_.high)
            else:
                if pending is not None:
                    yield pending
                pending = next_
        at = max(at, segment.high + 1)
    if pending is not None:
        yield pending
    yield from _unnamed(at, rules.limits[1], rules)


def _named(ranges: Iterable[NamedRange]) -> Iterator[Segment]:
    """Yield the numbers that any range has, cut where the ranges that have them change."""
    active: list[tuple[int, NamedRange]] = []
    at = 0
    for new in ranges:
        yield from _until(active, at, new.low - 1)
        at = new.low
        heappush(active, (new.high, new))
    yield from _until(active, at, None)


def _until(active: list[tuple[int, NamedRange]], at: int, last: int | None) -> Iterator[Segment]:
    """Yield the segments from `at` to `last`, and drop the ranges that end there; None: all of them end."""
    while active and (last is None or at <= last):
        high = active[0][0] if last is None else min(active[0][0], last)
        if at <= high:
            yield _segment(at, high, [each for _, each in active])
            at = high + 1
        while active and active[0][0] < at:
            heappop(active)


def _segment(low: int, high: int, ranges: Sequence[NamedRange]) -> Segment:
    newest = max(ranges, key=attrgetter("event"))
    is_loaded, difference = newest.fate in HAS_LOADED, None if newest.fate in HAS_LOADED else newest.fate
    if len({each.generation for each in ranges}) < len(ranges):
        return Segment(low, high, True, is_loaded, REPORTED_TWICE)
    return Segment(low, high, True, is_loaded, difference)


def _unnamed(low: int, high: int, rules: UnnamedRules) -> Iterator[Segment]:
    """Yield the segments between two numbers that no event names."""
    high = min(high, rules.limits[1])
    for first, last in rules.waiting:
        if low > high or last < low or first > high:
            continue
        yield from _handled(low, first - 1, rules)
        yield Segment(max(low, first), min(high, last), False, False, Fate.WAITING)
        low = last + 1
    yield from _handled(low, high, rules)


def _handled(low: int, high: int, rules: UnnamedRules) -> Iterator[Segment]:
    """Yield the segments of numbers that the watcher is done with."""
    bounds = (rules.passed_below, rules.forgotten_below)
    for below in sorted({each for each in bounds if each is not None and low < each <= high} | {high + 1}):
        if low < below:
            fate = without_event(low, passed_before=rules.passed_below, kept_since=rules.forgotten_below)
            yield Segment(low, below - 1, False, False, fate)
            low = below
