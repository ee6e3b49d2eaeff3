"""A small chart: one bar for each hour, as the numbers that an inline SVG needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HEIGHT: Final = 20
STEP: Final = 4
_LEAST: Final = 2
"""Of a bar that is not empty: it must be seen."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle."""

    x: int
    y: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Counts by hour, oldest first."""

    counts: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def width(self) -> int:
        return STEP * len(self.counts)

    @property
    def bars(self) -> Sequence[Bar]:
        """The highest count has the whole height; hours without any have no bar."""
        highest = max(self.counts, default=0)
        heights = [
            (hour, max(_LEAST, round(count * HEIGHT / highest))) for hour, count in enumerate(self.counts) if count
        ]
        return [Bar(x=STEP * hour, y=HEIGHT - height, height=height) for hour, height in heights]

    @property
    def sentence(self) -> str:
        """The same for whoever does not see it."""
        return (
            f"{self.total:,} events in {len(self.counts)} hours, {self.counts[-1]:,} in the last" if self.counts else ""
        )
