"""The type that texts show reads each of them without loss, in whatever order and however many files they come."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from asset_job.sources.options import ReadOptions
from asset_job.sources.texts.forms import converted
from asset_job.sources.texts.inference import ShownType

OPTIONS = ReadOptions()
DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.one_of(
    st.integers().map(str),
    DIGITS,
    st.builds("{}.{}".format, st.integers(), DIGITS),
    st.builds("{}e{}".format, st.integers(-999, 999), st.integers(-400, 400)),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        ["NaN", "Infinity", "1e400", "+1", "-0", "01", "1.", ".5", "9223372036854775808", "9" * 38, "9" * 39]
    ),
)
OTHERS = st.sampled_from(
    [
        *("true", "FALSE", "t", "2024-02-29", "2024-02-30", "2024-01-01 00:00:00", "2024-01-01T10:00:00Z", "10:30"),
        *("0001-01-01", "9999-12-31", "2024-01-01T10:00:00.1234567", "", " ", "a", "1,5"),
    ]
)
TEXTS = st.one_of(
    st.lists(st.one_of(st.integers(-(2**70), 2**70).map(str), st.none()), max_size=5),
    st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**15).map(str), max_size=5),
    st.lists(st.one_of(NUMBERS, st.none()), max_size=5),
    st.lists(st.one_of(OTHERS, st.none()), max_size=3),
    st.lists(st.one_of(NUMBERS, OTHERS), max_size=4),
)
KINDS = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}


def kind_of(ddl: str) -> pa.DataType:
    if ddl.startswith("decimal"):
        return pa.decimal128(*map(int, ddl.removeprefix("decimal(").removesuffix(")").split(",")))
    return KINDS[ddl]


@given(files=st.lists(TEXTS, min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_the_type_that_texts_show_reads_each_of_them(files: list[list[str | None]]) -> None:
    shown = [ShownType.of(pa.array(texts, pa.string()), OPTIONS) for texts in files]
    ddl = reduce(ShownType.joined, shown).ddl
    assert reduce(ShownType.joined, reversed(shown)).ddl == ddl
    texts = [text for each in files for text in each]
    assert ShownType.of(pa.array(texts, pa.string()), OPTIONS).ddl == ddl, "in one file"
    kind = kind_of(ddl)
    values, fits = converted(pa.array(texts, pa.string()), kind, OPTIONS)
    assert all(fits.to_pylist()), ddl
    for text, value in zip(texts, values.to_pylist(), strict=True):
        if text is None or ddl == "string":
            assert value == text
        elif ddl == "double":
            assert Decimal(text) == 0 == value or Decimal(f"{value:.14e}") == Decimal(text)
        elif pa.types.is_decimal(kind) or ddl == "bigint":
            assert Decimal(text) == value
        elif ddl == "date":
            assert value.isoformat() == text
