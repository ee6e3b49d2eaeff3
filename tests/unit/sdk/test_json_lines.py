"""Arrow parses some lines of JSON and leaves others to Spark. Tests with Spark check that both read the same."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import json as arrow_json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from asset_job.sources.by_arrow import FEW, LINE, PATIENCE, LineSchema
from asset_job.sources.json_lines import ReadJson

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("amount", DoubleType()),
        StructField("note", StringType()),
        StructField("day", DateType()),
        StructField("at", TimestampType()),
        StructField("tags", ArrayType(StructType([StructField("name", StringType())]))),
    ]
)


def reader() -> ReadJson:
    found = ReadJson.of(LineSchema(schema=SCHEMA, corrupt="corrupt"))
    assert found is not None
    return found


def read(lines: bytes) -> list[dict[str, Any] | str]:
    """The members of each parsed row, and the text of each line that is left to Spark."""
    rows: list[dict[str, Any] | str] = []
    for batch in reader().batches(lines):
        for row in batch.to_pylist():
            named = {SCHEMA.names[int(at)]: value for at, value in row.items() if at != LINE and value is not None}
            assert row[LINE] is None or not named
            rows.append(named if row[LINE] is None else row[LINE])
    return rows


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            '{"id": 1, "amount": 2, "note": "\\u00fc ü", "more": [{"a": null}]}',
            {"id": 1, "amount": 2.0, "note": "ü ü"},
        ),
        ('{"day": "2026-11-20"}', {"day": date(2026, 11, 20)}),
        ('{"at": "2026-11-20T10:00:00.5+01:00"}', {"at": datetime(2026, 11, 20, 9, 0, 0, 500_000, tzinfo=UTC)}),
        ('{"tags": [{"name": "a", "more": 1}, {}]}', {"tags": [{"name": "a"}, {"name": None}]}),
        ('{"note": "Info, -0.5 and NaN"}', {"note": "Info, -0.5 and NaN"}),
        ("{}", {}),
    ],
)
def test_arrow_reads_lines_that_fit_the_columns(line, row):
    assert read(line.encode()) == [row]


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "1"}',
        '{"id": 1.0}',
        '{"id": 1, "id": 2}',
        '{"id": 1}{"id": 2}',
        '{"id": 1} ',
        '[{"id": 1}]',
        "{'id': 1}",
        '{"id": 1',
        '{"amount": -0}',
        '{"amount": NaN}',
        '{"more": Inf}',
        '{"note": "\\ud800"}',
        '{"day": 20000}',
        '{"day": "2026-1-2"}',
        '{"at": "2026-11-20T09:00:00"}',
        '{"at": "2026-11-20T09:00Z"}',
        '{"at": "2026-11-20T09:00:00+23:59"}',
        '{"id": 1}\0}',
        '{"more": ' + "[" * 1001 + "]" * 1001 + "}",
        '{"more": ' + "1" * 1001 + "}",
        '{"' + "k" * 50_001 + '": 1}',
    ],
)
def test_lines_that_spark_may_read_differently_are_left_to_spark(line):
    assert read(line.encode()) == [line]


@pytest.mark.parametrize("kind", [BinaryType(), MapType(StringType(), StringType()), ArrayType(TimestampType())])
def test_columns_that_only_spark_reads_leave_all_lines_to_spark(kind):
    for columns in ([StructField("id", LongType()), StructField("other", kind)], []):
        assert ReadJson.of(LineSchema(schema=StructType(columns), corrupt="corrupt")) is None


LINES = ['{"id": 1}', '{"note": "a"}', '{"id": "x"}', "", " ", '{"id": 2}{"id": 3}', '{"note": "}', '{"}', "{"]


@given(st.lists(st.sampled_from(LINES), max_size=200))
def test_each_line_appears_once_and_in_order_whatever_surrounds_it(lines):
    def alone(row: dict[str, Any] | str) -> list[dict[str, Any] | str]:
        return read(row.encode()) if isinstance(row, str) else [row]

    together = [row for found in read("\n".join(lines).encode()) for row in alone(found)]
    assert together == [row for line in lines for row in read(line.encode())]


def test_a_line_that_does_not_fit_leaves_few_other_lines_to_spark():
    lines = [json.dumps({"id": number, "note": "x" * (number % 50)}) for number in range(20_000)]
    lines[7_000] = lines[15_000] = '{"id": "three"}'
    rows = read("\n".join(lines).encode())
    assert len(rows) == 20_000
    assert 2 <= sum(isinstance(row, str) for row in rows) <= 2 * FEW


def test_a_file_that_does_not_fit_the_columns_is_soon_left_to_spark(monkeypatch):
    tries = []
    parse = arrow_json.read_json
    monkeypatch.setattr(arrow_json, "read_json", lambda *given: tries.append(1) or parse(*given))
    lines = ['{"id": "three"}'] * 20_000
    assert read("\n".join(lines).encode()) == lines
    assert len(tries) <= PATIENCE
