"""The fingerprints of a whole listing, computed only for the rows that changed since the listing before.

A fingerprint that outlives the process costs a microsecond, a million of them more than the listing itself; Python's own
hash of a row of bytes is made in C, and says as well that nothing changed since the last look of the same process.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

RowT = TypeVar("RowT", bound=Hashable)


class _Listing:
    """16 bytes per row, in the order of the listing."""

    def __init__(self) -> None:
        self.hashes = array("q")
        self.fingerprints = array("q")


class Recall(Generic[RowT]):
    """A row that is not found again costs the time to compute its fingerprint, nothing else."""

    def __init__(self) -> None:
        self._before = _Listing()
        self._now = _Listing()
        self._at = 0
        """Where in the listing before we are: both are in key order."""

    def begin(self) -> None:
        """A new scan starts; what the last one listed is what is recalled."""
        self._before, self._now, self._at = self._now, _Listing(), 0

    def fingerprints(self, rows: Sequence[RowT], compute: Callable[[RowT], int]) -> Sequence[int]:
        """What `compute` says of each of the next rows of this scan."""
        hashes = array("q", map(hash, rows))
        found = self._as_before(hashes) or self._looked_up(hashes, rows, compute)
        self._now.hashes.extend(hashes)
        self._now.fingerprints.extend(found)
        return found

    def _as_before(self, hashes: array[int]) -> array[int] | None:
        """None unless the next rows are exactly the next ones of the listing before: most pages, most of the time."""
        ahead = slice(self._at, self._at + len(hashes))
        if self._before.hashes[ahead] != hashes:
            return None
        self._at = ahead.stop
        return self._before.fingerprints[ahead]

    def _looked_up(self, hashes: array[int], rows: Sequence[RowT], compute: Callable[[RowT], int]) -> array[int]:
        """Finds its place again after as many deleted rows as these are; after more, the rest is computed once."""
        before, start = self._before, self._at
        ahead = slice(start, start + 2 * len(hashes))
        known = dict(zip(before.hashes[ahead], before.fingerprints[ahead], strict=True))
        last = next(filter(known.__contains__, reversed(hashes)), None)
        if last is not None:
            self._at = before.hashes.index(last, start) + 1
        return array("q", (known[key] if key in known else compute(row) for key, row in zip(hashes, rows, strict=True)))
