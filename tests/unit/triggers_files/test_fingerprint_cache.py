from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triggers.s3.objects import FingerprintCache

SCANS = st.lists(st.tuples(st.sets(st.integers(0, 60)), st.integers(1, 9)), max_size=6)


def fingerprint_of(row: tuple[bytes]) -> int:
    return int(row[0]) * 7 - 100


@given(SCANS)
def test_cached_fingerprints_equal_computed_ones(scans: list[tuple[set[int], int]]) -> None:
    cache: FingerprintCache[tuple[bytes]] = FingerprintCache()
    for numbers, size in scans:
        rows = [(b"%03d" % number,) for number in sorted(numbers)]
        cache.begin()
        found = [
            fingerprint
            for first in range(0, len(rows), size)
            for fingerprint in cache.fingerprints(rows[first : first + size], fingerprint_of)
        ]
        assert found == [fingerprint_of(row) for row in rows]


class Counting:
    """A watcher that scans ranges of rows, ten to a page, and counts the rows that it computes."""

    def __init__(self) -> None:
        self.cache: FingerprintCache[int] = FingerprintCache()

    def computed_by_scan_of(self, rows: list[int]) -> int:
        computed = []

        def compute(row: int) -> int:
            computed.append(row)
            return -row

        self.cache.begin()
        for first in range(0, len(rows), 10):
            self.cache.fingerprints(rows[first : first + 10], compute)
        return len(computed)


def test_only_what_changed_is_computed() -> None:
    rows = [*range(0, 1000, 2)]
    scans = Counting()
    assert scans.computed_by_scan_of(rows) == len(rows)
    assert scans.computed_by_scan_of(rows) == 0
    assert scans.computed_by_scan_of(sorted([*rows, 1, 301, 303, 999])) == 4
    assert scans.computed_by_scan_of(rows) == 0, "all but the deleted ones are found again"
    assert scans.computed_by_scan_of(rows[:100] + rows[110:]) == 0


def test_after_more_deletions_than_a_page_the_rest_is_computed_once() -> None:
    rows = [*range(500)]
    scans = Counting()
    scans.computed_by_scan_of(rows)
    kept = rows[:100] + rows[200:]
    assert scans.computed_by_scan_of(kept) == 300
    assert scans.computed_by_scan_of(kept) == 0
