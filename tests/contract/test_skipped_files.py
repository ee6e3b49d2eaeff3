"""Readers that skip files and row groups by their statistics return every row, whatever a column's type and values are."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_iceberg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, LessThan

from tests.contract.tables import Delta, Iceberg, append, delta_in, extension

LAST = "\U0010ffff"
INF, NAN = math.inf, math.nan
UTC = dt.UTC
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Microseconds."""
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, 0]),
    "float": (pa.float32(), [-INF, INF, NAN, 0.0, -0.0, 3.4028234663852886e38]),
    "double": (pa.float64(), [-INF, INF, NAN, 0.0, -0.0, 5e-324, 3.5]),
    "decimal": (pa.decimal128(38, 18), [Decimal("9" * 20 + "." + "9" * 18), Decimal("1e-18"), Decimal("-1.5")]),
    "integral": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(2**63)]),
    "text": (
        pa.string(),
        [
            "",
            "a",
            "a" * 65,
            "b" * 5000,
            LAST,
            LAST * 70,
            "x" * 15 + "\ud7ffz",
            "z" * 15 + LAST + "z",
            "😀" * 70,
            "\x00",
        ],
    ),
    "bool": (pa.bool_(), [True, False]),
    "binary": (pa.binary(), [b"", b"\xff" * 20, b"a" * 20]),
    "date": (pa.date32(), [0, -719_162, 2_932_896, -719_163, 2_932_897]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 999, YEAR_1, YEAR_1 - 1, YEAR_10000 - 1, YEAR_10000]),
    "naive": (pa.timestamp("us"), [0, 999, YEAR_1, YEAR_1 - 1, YEAR_10000 - 1, YEAR_10000]),
}
COMPARISONS: dict[str, tuple[Callable[[Any, Any], bool], Any, Any]] = {
    "=": (operator.eq, pc.equal, EqualTo),
    "<": (operator.lt, pc.less, LessThan),
    ">": (operator.gt, pc.greater, GreaterThan),
}


def in_duckdb(value: Any) -> Any:
    """A key that orders values as DuckDB does: NaN equals itself and is above infinity, texts are compared as UTF-8."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def written(kind: Delta | Iceberg, arrow: Any, values: list[Any]) -> list[Any]:
    """A table with a file for each value alone, one with all values and a null, and one with nothing but nulls."""
    stored: list[Any] = []
    for number, group in enumerate([*([value] for value in values), [*values, None], [None]]):
        ids = pa.array(range(len(stored), len(stored) + len(group)), pa.int64())
        append(kind.table(f"manual__{number}", 1), pa.table({"id": ids, "v": pa.array(group, arrow)}))
        stored += group
    return stored


def rows_where(stored: list[Any], holds: Callable[[Any], bool]) -> list[int]:
    return [at for at, value in enumerate(stored) if holds(value)]


@pytest.mark.parametrize("name", VALUES)
def test_no_reader_of_a_delta_table_misses_a_row(tmp_path: Path, name: str) -> None:
    kind, (arrow, values) = delta_in(str(tmp_path / "t")), VALUES[name]
    stored = written(kind, arrow, values)
    whole = kind.open().to_pyarrow_dataset()

    def by_deltalake(condition: Any) -> list[int]:
        return sorted(whole.to_table(columns=["id"], filter=condition)["id"].to_pylist())

    assert by_deltalake(pc.field("v").is_null()) == rows_where(stored, lambda each: each is None)
    for sign, (compare, expression, _) in COMPARISONS.items():
        for value in [each for each in values if each is not NAN]:
            expected = rows_where(stored, lambda each: each is not None and compare(each, value))  # noqa: B023
            assert by_deltalake(expression(pc.field("v"), pa.array([value], arrow)[0])) == expected, (sign, value)
    check_duckdb([duckdb_extension_delta], f"delta_scan('{kind.url}')", arrow, stored)


@pytest.mark.parametrize("name", VALUES)
def test_no_reader_of_an_iceberg_table_misses_a_row(tmp_path: Path, name: str) -> None:
    kind, (arrow, values) = Iceberg(folder=tmp_path), VALUES[name]
    stored = written(kind, arrow, values)
    table = kind.open()

    def by_pyiceberg(condition: Any) -> list[int]:
        return sorted(table.scan(row_filter=condition, selected_fields=("id",)).to_arrow()["id"].to_pylist())

    assert by_pyiceberg("v IS NULL") == rows_where(stored, lambda each: each is None)
    for sign, (compare, _, expression) in COMPARISONS.items():
        for value in [each for each in values if representable(each)]:
            expected = rows_where(stored, lambda each: each is not None and compare(each, value))  # noqa: B023
            literal = value if pa.types.is_floating(arrow) else pa.array([value], arrow)[0].as_py()
            assert by_pyiceberg(expression("v", literal)) == expected, (sign, value)
    place = table.metadata_location.removeprefix("file://")
    check_duckdb([duckdb_extension_avro, duckdb_extension_iceberg], f"iceberg_scan('{place}')", arrow, stored)


def representable(value: Any) -> bool:
    """Whether pyiceberg has a literal for a value. It has none for infinity, NaN, and years outside of Python's."""
    return (not isinstance(value, float) or math.isfinite(value)) and value not in {
        YEAR_10000,
        YEAR_1 - 1,
        -719_163,
        2_932_897,
    }


def check_duckdb(extensions: list[Any], table: str, arrow: Any, stored: list[Any]) -> None:
    with duckdb.connect() as connection:
        for each in extensions:
            connection.execute(f"LOAD '{extension(each)}'")

        def ids(condition: str) -> list[int]:
            return sorted(row[0] for row in connection.execute(f"SELECT id FROM {table} WHERE {condition}").fetchall())

        assert ids("v IS NULL") == rows_where(stored, lambda each: each is None)
        for at, value in enumerate(stored):
            if value is None:
                continue
            connection.register("one", pa.table({"value": pa.array([value], arrow)}))
            connection.execute("SET VARIABLE value = (SELECT value FROM one)")
            for sign, (compare, _, _) in COMPARISONS.items():
                expected = [
                    number
                    for number, each in enumerate(stored)
                    if each is not None and compare(in_duckdb(each), in_duckdb(value))
                ]
                assert ids(f"v {sign} getvariable('value')") == expected, (sign, at, value)


@pytest.mark.parametrize("partition_by", [["v"], ["v", "w"]])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_are_found_by_partitions_of_any_value(tmp_path: Path, kind: str, partition_by: list[str]) -> None:
    table = delta_in(str(tmp_path / "t")) if kind == "delta" else Iceberg(folder=tmp_path)
    texts = [None, "__HIVE_DEFAULT_PARTITION__", "null", "a/b=c%2F", " ", "é", "e\u0301", "x" * 5000, "..", LAST, "007"]
    given = pa.table({"id": range(len(texts)), "v": texts, "w": pa.array([None, *[True, False] * 5], pa.bool_())})
    append(table.table("manual__1", 1), given, partition_by)
    expected = [{**row, "run": "manual__1"} for row in given.to_pylist()]
    names = ["id", "v", "w", "run"]
    assert table.by_library().select(names).sort_by("id").to_pylist() == expected
    assert table.by_duckdb().select(names).sort_by("id").to_pylist() == expected


def test_structs_arrays_and_maps_that_are_null_are_found(tmp_path: Path) -> None:
    kind = delta_in(str(tmp_path / "t"))
    for number in range(2):
        nested = {
            "struct": pa.array([{"x": 1}, None]),
            "array": pa.array([[1], None]),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
        append(kind.table(f"manual__{number}", 1), pa.table({"id": [number, number + 10], **nested}))
    whole = kind.open().to_pyarrow_dataset()
    for name in ("struct", "array", "map"):
        assert sorted(whole.to_table(filter=pc.field(name).is_null())["id"].to_pylist()) == [10, 11]
        assert sorted(whole.to_table(filter=pc.field(name).is_valid())["id"].to_pylist()) == [0, 1]
