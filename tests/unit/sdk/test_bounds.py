from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asset_job.tables.parquet.bounds import Bounds, bounds_of, upper_bound

TEXTS = st.text(st.sampled_from("a\x7f\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=8)


@given(st.lists(TEXTS, min_size=1), st.integers(1, 4))
def test_no_text_is_above_the_upper_bound(texts, length):
    bound = upper_bound(max(texts), length)
    assert bound is None or all(text.encode() <= bound.encode() for text in texts)


def test_a_text_of_the_last_characters_alone_has_no_upper_bound():
    assert upper_bound("\U0010ffff" * 3, 2) is None
    assert upper_bound("a\U0010ffff", 2) == "b"
    assert upper_bound("x\ud7ffz", 2) == "x\ue000"


@given(st.lists(st.floats() | st.none()), st.lists(st.floats() | st.none()))
def test_bounds_of_two_parts_are_those_of_the_whole(one, other):
    joined = bounds_of(pa.array(one, pa.float64())).joined(bounds_of(pa.array(other, pa.float64())))
    values = [value for value in one + other if value is not None]
    assert (joined.nulls, joined.values) == (len(one + other) - len(values), len(values))
    assert joined.known is not any(map(math.isnan, values))
    if joined.known and values:
        assert (joined.smallest, joined.largest) == (min(values), max(values))


def test_both_zeros_are_between_the_bounds():
    for zero in (0.0, -0.0):
        bounds = bounds_of(pa.array([zero]))
        assert [math.copysign(1, each) for each in (bounds.smallest, bounds.largest)] == [-1, 1]


@pytest.mark.parametrize("values", [[b"x"], [[1]], [{"a": 1}]])
def test_nested_and_binary_columns_are_only_counted(values):
    assert bounds_of(pa.array([*values, None])) == Bounds(nulls=1, values=1)
