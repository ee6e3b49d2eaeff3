"""How many of the waiting rows fit one batch, by their sizes: what is read, and emitted, stays bounded however large rows are.

Sizes are read by a statement of their own before the rows, and cost little: PostgreSQL need not open what it has stored
compressed or apart. They only choose limits, and whatever the limits are, the ledger is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from triggers.postgres.ledger import Ledger
from triggers.postgres.sql import quoted

FIXED: Final = {"smallint", "integer", "bigint", "boolean", "real", "double precision", "uuid", "date", "interval"} | {
    f"{kind} {zone} time zone" for kind in ("timestamp", "time") for zone in ("with", "without")
}
"""Types whose values are small: rows of nothing else need no look at their sizes."""
_RAW: Final = {"text", "character varying", "character", "bytea"}
"""Types whose size before compression is known without opening them."""

Sized = tuple[int, int]
"""A row's id and size."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Limits of one read: rows above the highest id, rows of each gap, and how many of the gaps are read at all."""

    fresh: int
    late: int
    gaps: int
    ahead: bool = True
    """Also those that were given by hand above the others."""
    is_part: bool = False
    """More is waiting than this."""


def size_of(columns: Sequence[str], types: Mapping[str, str]) -> str | None:
    """An expression for what a row's columns hold, in bytes; None where that is little in any case."""
    terms = [
        f"coalesce({'octet_length' if types[name] in _RAW else 'pg_column_size'}({quoted(name)}), 4)"
        for name in columns
        if types[name] not in FIXED
    ]
    return " + ".join(terms) or None


def portion_of(rows: Sequence[Sized], ledger: Ledger, whole: Portion, budget: int) -> Portion:
    """As much of `whole` as fits the budget, and at least one of its rows (ascending); what is late comes first."""
    ids = [number for number, _ in rows]
    used = 0
    for place, gap in enumerate(ledger.gaps[: whole.gaps]):
        before = used
        sizes = [size for _, size in rows[bisect_left(ids, gap.low) : bisect_right(ids, gap.high)]]
        for count, size in enumerate(sizes):
            if used and used + size > budget:
                if before:  # the gaps before this one are enough
                    return replace(whole, fresh=0, gaps=place, is_part=True)
                return replace(whole, fresh=0, late=count, gaps=place + 1, is_part=True)
            used += size
    for count, (_, size) in enumerate(rows[bisect_right(ids, ledger.highest) :]):
        if used and used + size > budget:
            return replace(whole, fresh=count, is_part=True)
        used += size
    return whole


def length_of(text: str | None) -> int:
    """Of JSON once it is stored, in ASCII."""
    if text is None or text.isascii():
        return len(text or "")
    return len(text.encode("ascii", "backslashreplace"))
