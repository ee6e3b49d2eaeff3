"""Arrow parses some lines of CSV and leaves others to Spark. Tests with Spark check that both read the same."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from asset_job.sources.by_arrow import FEW, LINE, LineSchema
from asset_job.sources.csv_lines import ReadCsv


def reader(*kinds: DataType, separator: str = ",") -> ReadCsv | None:
    schema = StructType([StructField(f"column {at}", kind) for at, kind in enumerate(kinds)])
    return ReadCsv.of(LineSchema(schema=schema.add("corrupt", StringType()), corrupt="corrupt"), separator, None)


def read(lines: str, *kinds: DataType, separator: str = ",") -> list[tuple[Any, ...] | str]:
    """The values of each parsed row, and the text of each line that is left to Spark."""
    found = reader(*kinds, separator=separator)
    assert found is not None
    rows = [row for batch in found.batches(lines.encode()) for row in batch.to_pylist()]
    return [
        tuple(value for name, value in row.items() if name != LINE) if row[LINE] is None else row[LINE] for row in rows
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LongType(), "-007", -7),
        (LongType(), '"12"', 12),
        (DoubleType(), "-1.5e3", -1500.0),
        (DecimalType(4, 2), "-12.5", Decimal("-12.50")),
        (DecimalType(10, 0), "-12", Decimal(-12)),
        (DecimalType(3, 3), "0.125", Decimal("0.125")),
        (BooleanType(), "True", True),
        (DateType(), "2026-11-20", date(2026, 11, 20)),
        (TimestampType(), "2026-11-20 10:00:00.5+01:00", datetime(2026, 11, 20, 9, 0, 0, 500_000, tzinfo=UTC)),
        (StringType(), "NULL", "NULL"),
        (StringType(), " a b ", " a b "),
        (StringType(), '"a,b"', "a,b"),
        (StringType(), "a\\b", "a\\b"),
        (StringType(), "", None),
    ],
)
def test_arrow_reads_plainly_written_values(kind, text, value):
    assert read(f"{text},x", kind, StringType()) == [(value, "x")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (LongType(), "+1"),
        (LongType(), " 1"),
        (LongType(), "0x1F"),
        (LongType(), "9223372036854775808"),
        (DoubleType(), "nan"),
        (DoubleType(), "1d"),
        (DecimalType(4, 2), "1.234"),
        (DecimalType(4, 2), "123"),
        (BooleanType(), "1"),
        (DateType(), "2026-02-30"),
        (TimestampType(), "2026-11-20T09:00:00"),
        (StringType(), '"a""b"'),
        (StringType(), '"a\\"b"'),
        (StringType(), '"a" '),
        (StringType(), '"a'),
        (StringType(), "\0"),
    ],
)
def test_lines_that_spark_may_read_differently_are_left_to_spark(kind, text):
    assert read(f"{text},x", kind, StringType()) == [f"{text},x"]


def test_lines_with_more_or_fewer_values_are_left_to_spark():
    lines = ["1,a", "2", "3,c,d", ",", "5,e"]
    assert read("\n".join(lines), LongType(), StringType()) == lines
    assert read(",\n5,e", LongType(), StringType()) == [(None, None), (5, "e")]


def test_blank_lines_are_dropped_where_spark_drops_them():
    assert read("a\n\n \nb", StringType()) == ["a", "b"]
    assert read("1 2\n \n3 4", LongType(), LongType(), separator=" ") == ["1 2", "3 4"]
    assert read("\t\n1\t2\n \t", StringType(), StringType(), separator="\t") == ["1\t2"]
    assert read("1,a\n\t\n\x1a", LongType(), StringType()) == ["1,a"]


@pytest.mark.parametrize(
    ("kinds", "separator"),
    [([FloatType()], ","), ([], ","), ([LongType()], "||"), ([LongType()], '"'), ([LongType()], "é")],
)
def test_columns_or_separators_that_only_spark_reads_leave_all_lines_to_spark(kinds, separator):
    assert reader(*kinds, separator=separator) is None


LINES = ["1,a", '2,"b,c"', "x,d", '3,"', '",e', "4", "", " ", "5,f,g", ",", '6,"h""i"']


@given(st.lists(st.sampled_from(LINES), max_size=200))
def test_each_line_appears_once_and_in_order_whatever_surrounds_it(lines):
    kinds = (LongType(), StringType())

    def alone(row: tuple[Any, ...] | str) -> list[tuple[Any, ...] | str]:
        return read(row, *kinds) if isinstance(row, str) else [row]

    together = [row for found in read("\n".join(lines), *kinds) for row in alone(found)]
    assert together == [row for line in lines for row in read(line, *kinds)]


def test_a_line_that_does_not_fit_leaves_few_other_lines_to_spark():
    lines = [f"{number},note" for number in range(20_000)]
    lines[7_000] = lines[15_000] = "three,note"
    rows = read("\n".join(lines), LongType(), StringType())
    assert len(rows) == 20_000
    assert 2 <= sum(isinstance(row, str) for row in rows) <= 2 * FEW
