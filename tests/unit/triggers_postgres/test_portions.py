from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.postgres.by_id.ledger import Gap, Ledger
from triggers.postgres.by_id.portions import Portion, portion_of
from triggers.postgres.reading.sizes import length_of, size_of

LEDGER = Ledger(
    highest=30,
    gaps=(Gap(low=1, high=5, holders=frozenset()), Gap(low=10, high=19, holders=frozenset({"3/1"}))),
)
WHOLE = Portion(fresh=100, late=50, gaps=2)


@pytest.mark.parametrize(
    ("sizes", "portion"),
    [
        ({}, WHOLE),
        ({2: 3, 11: 3, 31: 4}, WHOLE),
        ({31: 99}, WHOLE),
        ({31: 5, 32: 5, 33: 1}, Portion(fresh=2, late=50, gaps=2, is_part=True)),
        ({31: 99, 32: 1}, Portion(fresh=1, late=50, gaps=2, is_part=True)),
        ({2: 10, 31: 1}, Portion(fresh=0, late=50, gaps=2, is_part=True)),
        ({2: 10, 11: 1, 31: 1}, Portion(fresh=0, late=50, gaps=1, is_part=True)),
        ({2: 4, 3: 5, 4: 6}, Portion(fresh=0, late=2, gaps=1, is_part=True)),
        ({11: 9, 12: 9}, Portion(fresh=0, late=1, gaps=2, is_part=True)),
    ],
)
def test_late_rows_come_first_and_one_row_is_always_read(sizes: dict[int, int], portion: Portion) -> None:
    assert portion_of([*sizes.items()], LEDGER, WHOLE, budget=10) == portion


@given(sizes=st.dictionaries(st.integers(1, 5) | st.integers(10, 19) | st.integers(31, 60), st.integers(1, 30)))
def test_a_portion_fits_or_is_one_row_and_never_nothing(sizes: dict[int, int]) -> None:
    rows = sorted(sizes.items())
    portion = portion_of(rows, LEDGER, WHOLE, budget=40)
    read = [
        size
        for gap in LEDGER.gaps[: portion.gaps]
        for size in [size for number, size in rows if gap.low <= number <= gap.high][: portion.late]
    ]
    read += [size for number, size in rows if number > LEDGER.highest][: portion.fresh]
    assert sum(read) <= 40 or len(read) == 1
    assert bool(read) == bool(rows)
    assert portion.is_part == (len(read) < len(rows))


def test_sizes_are_read_only_of_values_that_may_be_large() -> None:
    types = {"id": "bigint", "note": "text", "at": "timestamp with time zone", "doc": "jsonb"}
    assert size_of(["id", "at"], types) is None
    assert size_of(["id", "note", "doc"], types) == (
        'coalesce(octet_length("note"), 4) + coalesce(pg_column_size("doc"), 4)'
    )


def test_a_length_is_that_of_escaped_text() -> None:
    assert (length_of(None), length_of("abc")) == (0, 3)
    assert length_of("\N{CJK UNIFIED IDEOGRAPH-4E2D}") == len("\\u4e2d")
