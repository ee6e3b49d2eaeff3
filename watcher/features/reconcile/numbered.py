"""Compares a source whose items have numbers: counts by ranges first, then only the ranges that differ."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from store.fates import STAYING, Fate
from triggers.base import StoredPosition
from triggers.inventories import NumberedInventory, Range
from watcher.features.reconcile.comparison import REPORTED_TWICE, SEVEREST_FIRST, Difference
from watcher.features.reconcile.result import FoundDifference, Reconciled, ReconcileProgress
from watcher.features.reconcile.segments import Segment

AT_ONCE: Final = 200_000
"""The most items that one statement counts."""
SMALL: Final = 1000
"""So many small segments together are one statement, each with as many numbers at most."""


@dataclass(kw_only=True)
class NumberedComparison:
    """Counts the segments of one source, and names what differs in them."""

    inventory: NumberedInventory[StoredPosition]
    without: Collection[int]
    limit: int
    progress: ReconcileProgress
    result: Reconciled = field(default_factory=Reconciled)
    _items: dict[Difference, list[FoundDifference]] = field(
        default_factory=lambda: {kind: [] for kind in SEVEREST_FIRST}
    )

    lowest_lost: int | None = None
    """The first number of the first segment with items that were not reported. None: there is none."""

    def reject(self, numbers: Collection[int]) -> None:
        """Count items that no event can name: the source has them, and counts leave them out."""
        self.result.source += len(numbers)
        self.result.differences[Fate.REJECTED] += len(numbers)
        named = sorted(numbers)[: self.limit]
        self._items[Fate.REJECTED] = [FoundDifference(item=str(number), kind=Fate.REJECTED) for number in named]

    async def compare(self, segments: Iterator[Segment]) -> Reconciled:
        async for segment, count in self._counted(segments):
            await self._add(segment, count)
        self.result.items = [item for kind in SEVEREST_FIRST for item in self._items[kind]][: self.limit]
        return self.result

    async def _counted(self, segments: Iterator[Segment]) -> AsyncIterator[tuple[Segment, int]]:
        """Yield each segment, in parts if it is large, with the number of its items."""
        small: list[Segment] = []
        for segment in segments:
            if segment.high - segment.low < SMALL:
                small.append(segment)
                if len(small) < AT_ONCE // SMALL:
                    continue
            for part, count in await self._count(small):
                yield part, count
            small = []
            if segment.high - segment.low >= SMALL:
                async for part, count in self._parts(segment):
                    yield part, count
        for part, count in await self._count(small):
            yield part, count

    async def _count(self, small: Sequence[Segment]) -> Sequence[tuple[Segment, int]]:
        if not small:
            return ()
        ranges: list[Range] = [(segment.low, segment.high) for segment in small]
        counts = await self.inventory.count(ranges, SMALL + 1, self.without)
        return [(segment, count) for segment, (count, _) in zip(small, counts, strict=True)]

    async def _parts(self, segment: Segment) -> AsyncIterator[tuple[Segment, int]]:
        low = segment.low
        while low <= segment.high:
            [(count, last)] = await self.inventory.count([(low, segment.high)], AT_ONCE, self.without)
            high = segment.high if last is None else last
            yield segment._replace(low=low, high=high), count
            low = high + 1

    async def _add(self, segment: Segment, count: int) -> None:
        result, length = self.result, segment.high - segment.low + 1
        self.progress.listed += count
        result.source += count
        if not segment.is_named:
            if segment.difference is Fate.NOT_REPORTED and count and self.lowest_lost is None:
                self.lowest_lost = segment.low
            await self._note(segment, segment.difference, count)
            return
        result.reported += length
        result.loaded += length if segment.is_loaded else 0
        if segment.difference in {REPORTED_TWICE, *STAYING}:
            await self._note(segment, segment.difference, length, gone=count < length)
            return
        await self._note(segment, segment.difference, count)
        if length > count:
            await self._note(segment, Fate.MISSING, length - count, missing=True)

    async def _note(
        self, segment: Segment, kind: Difference | None, count: int, *, missing: bool = False, gone: bool = False
    ) -> None:
        """Count a difference, and name its items as far as the limit allows. `gone`: the source may lack some of them."""
        if kind is None or not count:
            return
        self.result.differences[kind] += count
        items, limits = self._items[kind], (segment.low, segment.high)
        most = min(self.limit - len(items), count)
        if most <= 0:
            return
        if gone:
            numbers: Sequence[int] = range(segment.low, segment.low + most)
        elif missing:
            numbers = await self.inventory.missing(limits, most, self.without)
        else:
            numbers = await self.inventory.numbers(limits, most, self.without)
        items += [FoundDifference(item=str(number), kind=kind) for number in numbers]
