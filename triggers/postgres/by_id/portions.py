"""How many of the waiting rows fit one batch, by their sizes: what is read and reported stays bounded however large rows are (pure).

Sizes are read by a statement of their own before the rows, and cost little: PostgreSQL need not open values that it stored
compressed or out of line. Sizes only choose limits, and the ledger is exact whatever the limits are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triggers.postgres.by_id.ledger import Ledger

Sized = tuple[int, int]
"""A row's id and size."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """The limits of one read: rows above the highest id, rows of each gap, and the number of gaps that are read."""

    fresh: int
    late: int
    gaps: int
    ahead: bool = True
    """Whether ids are read that were given by hand above those that were drawn."""
    is_part: bool = False
    """Whether more is waiting than this portion."""


def portion_of(rows: Sequence[Sized], ledger: Ledger, whole: Portion, budget: int) -> Portion:
    """Return as much of `whole` as fits the budget, and at least one of its rows (ascending). Late rows come first."""
    ids = [number for number, _ in rows]
    used = 0
    for place, gap in enumerate(ledger.gaps[: whole.gaps]):
        before = used
        sizes = [size for _, size in rows[bisect_left(ids, gap.low) : bisect_right(ids, gap.high)]]
        for count, size in enumerate(sizes):
            if used and used + size > budget:
                if before:  # the gaps before this one fill the budget
                    return replace(whole, fresh=0, gaps=place, is_part=True)
                return replace(whole, fresh=0, late=count, gaps=place + 1, is_part=True)
            used += size
    for count, (_, size) in enumerate(rows[bisect_right(ids, ledger.highest) :]):
        if used and used + size > budget:
            return replace(whole, fresh=count, is_part=True)
        used += size
    return whole
