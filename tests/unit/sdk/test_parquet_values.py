"""Values of Parquet files as they are read: written by pyarrow and DuckDB, compared with what was written."""

from __future__ import annotations

import calendar
import io
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from asset_job.errors import FileInvalid, FileUnreadable
from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.inference import ParquetInference
from asset_job.sources.parquet.parser import ParquetParser
from asset_job.sources.records import BadRecord

MOMENT = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC


@dataclass(frozen=True)
class FileOnDisk:
    path: Path
    part: tuple[int, int] | None = None
    reads: type[io.BytesIO] = io.BytesIO

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def pieces(self) -> Iterator[bytes]:
        yield self.path.read_bytes()

    def seekable(self) -> IO[bytes]:
        return self.reads(self.path.read_bytes())


def read(path: Path, columns: Mapping[str, pa.DataType], **given_options: Any) -> tuple[pa.Table, list[BadRecord]]:
    schema = pa.schema(list(columns.items()))
    parser = ParquetParser(columns=schema, options=ReadOptions.of("parquet", given_options))
    parsed = list(parser.parse(FileOnDisk(path)))
    batches = [each for each in parsed if isinstance(each, pa.RecordBatch)]
    table = pa.Table.from_batches(batches, schema)
    table.validate(full=True)
    return table, [each for each in parsed if isinstance(each, BadRecord)]


def values(path: Path, kind: pa.DataType, **options: Any) -> list[Any]:
    table, bad = read(path, {"v": kind}, **options)
    assert not bad
    return table["v"].to_pylist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.parquet"


def write(path: Path, array: pa.Array, marks: Mapping[str, str] | None = None, **options: Any) -> Path:
    table = pa.table({"v": array})
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **(marks or {})}) if marks else table
    parquet.write_table(table, path, **options)
    return path


def inferred(*paths: Path) -> str:
    inference = ParquetInference(options=ReadOptions())
    return inference.schema([inference.inferred(FileOnDisk(each)) for each in paths])


FITTING = [
    (pa.array([0, 255, None], pa.uint8()), pa.int16(), [0, 255, None]),
    (pa.array([65_535], pa.uint16()), pa.int32(), [65_535]),
    (pa.array([4_294_967_295], pa.uint32()), pa.int64(), [4_294_967_295]),
    (pa.array([18_446_744_073_709_551_615], pa.uint64()), pa.decimal128(20, 0), [Decimal(18_446_744_073_709_551_615)]),
    (pa.array([-128], pa.int64()), pa.int8(), [-128]),
    (pa.array([7, -7]), pa.decimal128(5, 2), [Decimal("7.00"), Decimal("-7.00")]),
    (pa.array([2**53]), pa.float64(), [float(2**53)]),
    (pa.array([-5, 2**63 - 1]), pa.string(), ["-5", "9223372036854775807"]),
    (pa.array([1.5], pa.float16()), pa.float32(), [1.5]),
    (pa.array([1.5, -0.0, float("inf")], pa.float32()), pa.float64(), [1.5, -0.0, float("inf")]),
    (pa.array([3.0]), pa.int64(), [3]),
    (pa.array([0.5]), pa.float32(), [0.5]),
    (pa.array([Decimal("1.10")], pa.decimal128(10, 2)), pa.string(), ["1.10"]),
    (pa.array([Decimal("1.10")], pa.decimal128(38, 2)), pa.decimal128(3, 1), [Decimal("1.1")]),
    (pa.array([Decimal("1.10")], pa.decimal32(5, 2)), pa.decimal128(5, 2), [Decimal("1.10")]),
    (pa.array([Decimal("1.10")], pa.decimal256(50, 2)), pa.decimal128(5, 2), [Decimal("1.10")]),
    (pa.array(["a", None, ""], pa.string_view()), pa.string(), ["a", None, ""]),
    (pa.array(["ä"], pa.large_string()), pa.string(), ["ä"]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
    (pa.array([b"\xff"], pa.binary_view()), pa.binary(), [b"\xff"]),
    (pa.array(["ä".encode()]), pa.string(), ["ä"]),
    (pa.array([b"0123456789abcdef"], pa.binary(16)), pa.binary(), [b"0123456789abcdef"]),
    (pa.array([UUID(int=5).bytes], pa.uuid()), pa.string(), [str(UUID(int=5))]),
    (pa.array([UUID(int=5).bytes], pa.uuid()), pa.binary(), [UUID(int=5).bytes]),
    (pa.nulls(2), pa.int64(), [None, None]),
    (pa.array([True, None]), pa.bool_(), [True, None]),
    (pa.array([date(1, 1, 1), date(9999, 12, 31)]), pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.array([date(2026, 1, 1)], pa.date64()), pa.date32(), [date(2026, 1, 1)]),
    (pa.array([EPOCH, None], LOCAL), pa.date32(), [EPOCH.date(), None]),
    (pa.array([1_000, -1_000], pa.timestamp("ns")), LOCAL, [EPOCH + timedelta(microseconds=each) for each in (1, -1)]),
    (
        pa.array([1], pa.timestamp("ms", "Europe/Berlin")),
        MOMENT,
        [(EPOCH + timedelta(milliseconds=1)).replace(tzinfo=UTC)],
    ),
    (pa.array([[1, None], None, []], pa.list_(pa.uint8())), pa.list_(pa.int16()), [[1, None], None, []]),
    (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)), pa.list_(pa.int64()), [[1, 2], None, [3, 4]]),
    (pa.array([[1], None, [3, 4]], pa.large_list(pa.int64())), pa.list_(pa.int64()), [[1], None, [3, 4]]),
    (
        pa.array([[("k", 1)], None, [("l", None), ("m", 3)]], pa.map_(pa.string(), pa.int32())),
        pa.map_(pa.string(), pa.int64()),
        [[("k", 1)], None, [("l", None), ("m", 3)]],
    ),
    (
        pa.array([{"A": 1, "b": None}, None, {"A": None, "b": "x"}]),
        pa.struct([("a", pa.int64()), ("B", pa.string()), ("c", pa.date32())]),
        [{"a": 1, "B": None, "c": None}, None, {"a": None, "B": "x", "c": None}],
    ),
]


@pytest.mark.parametrize(("array", "kind", "expected"), FITTING, ids=lambda each: str(getattr(each, "type", "")))
def test_values_that_fit_are_read(path: Path, array: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    assert values(write(path, array), kind) == expected


MISFITS = [
    (pa.array([1, 300, 2]), pa.int8(), "tinyint", "300"),
    (pa.array([1, 2**63, 2], pa.uint64()), pa.int64(), "bigint", str(2**63)),
    (pa.array([1, 2**53 + 1, 2]), pa.float64(), "double", str(2**53 + 1)),
    (pa.array([1.0, 1.5, 2.0]), pa.int64(), "bigint", "1.5"),
    (pa.array([1.0, float("nan"), 2.0]), pa.int64(), "bigint", '"nan"'),
    (pa.array([1.0, 0.1, 2.0]), pa.float32(), "float", "0.1"),
    (pa.array([1.0, 2.0**63, 2.0]), pa.int64(), "bigint", "9.223372036854776e+18"),
    (pa.array([Decimal("1.00"), Decimal("1.05"), None]), pa.decimal128(5, 1), "decimal(5,1)", '"1.05"'),
    (pa.array([1, 10_000, 2]), pa.decimal128(5, 2), "decimal(5,2)", "10000"),
    (pa.array([b"a", b"\xff", b"b"]), pa.string(), "string", r'"\\xff"'),
    (pa.array([0, 1, 0], LOCAL), pa.date32(), "date", '"1970-01-01 00:00:00.000001"'),
    (pa.array([0, 1, 0], pa.timestamp("ns")), LOCAL, "timestamp_ntz", '"1970-01-01 00:00:00.000000001"'),
    (pa.array([0, 2**62, 0], pa.timestamp("ms")), LOCAL, "timestamp_ntz", "<value out of range"),
    (pa.array([[1], [2, 300], None], pa.list_(pa.int64())), pa.list_(pa.int8()), "tinyint", "[2, 300]"),
    (pa.array([{"a": 1}, {"a": 300}, None]), pa.struct([("a", pa.int8())]), "tinyint", '{"a": 300}'),
    (
        pa.array([[("k", 1)], [("k", 300)], None], pa.map_(pa.string(), pa.int32())),
        pa.map_(pa.string(), pa.int8()),
        "tinyint",
        '["k", 300]'.replace('["k", 300]', "300"),
    ),
]


@pytest.mark.parametrize(("array", "kind", "name", "value"), MISFITS, ids=lambda each: str(getattr(each, "type", "")))
def test_a_row_with_a_value_that_does_not_fit_is_bad(
    path: Path, array: pa.Array, kind: pa.DataType, name: str, value: str
) -> None:
    table, (bad,) = read(write(path, array), {"v": kind})
    assert table.num_rows == 2
    assert bad.at == "row 2"
    assert f"has the type {name}, and " in bad.reason
    assert value in bad.reason
    assert set(json.loads(bad.record)) == {"v"}


REFUSED = [
    (pa.array([{"a": 1}]), pa.int64()),
    (pa.array([1]), pa.date32()),
    (pa.array(["1"]), pa.int64()),
    (pa.array([1], pa.time64("us")), pa.int64()),
    (pa.array([1], pa.duration("us")), pa.int64()),
    (pa.array([1.0]), pa.decimal128(5, 2)),
    (pa.array([1.0]), pa.string()),
    (pa.array([0], MOMENT), LOCAL),
    (pa.array([0], MOMENT), pa.string()),
    (pa.array([[1]]), pa.string()),
]


@pytest.mark.parametrize(("array", "kind"), REFUSED, ids=lambda each: str(getattr(each, "type", each)))
def test_a_type_that_cannot_be_the_schemas_is_refused_by_file_and_column(
    path: Path, array: pa.Array, kind: pa.DataType
) -> None:
    with pytest.raises(FileInvalid, match=rf"{path}: the column v has the type .*correct the schema"):
        read(write(path, array), {"v": kind})


def test_only_bad_rows_are_left_out_and_rows_are_numbered_in_the_file(path: Path) -> None:
    numbers = list(range(200_000))
    parquet.write_table(pa.table({"v": numbers, "w": [str(each) for each in numbers]}), path, row_group_size=70_000)
    table, bad = read(path, {"v": pa.int16(), "w": pa.string()})
    assert table["v"].to_pylist() == numbers[: 2**15]
    assert [each.at for each in bad] == [f"row {each + 1}" for each in numbers[2**15 :]]
    assert json.loads(bad[-1].record) == {"v": 199_999, "w": "199999"}


def test_parts_of_a_file_have_each_row_once(path: Path) -> None:
    parquet.write_table(pa.table({"v": range(10_000)}), path, row_group_size=333)
    parser = ParquetParser(columns=pa.schema([("v", pa.int64())]), options=ReadOptions())
    ends = [0, *sorted(random.Random(5).sample(range(path.stat().st_size), 9)), path.stat().st_size]
    rows = [
        value
        for part in pairwise(ends)
        for batch in parser.parse(FileOnDisk(path, part))
        for value in batch["v"].to_pylist()  # type: ignore[union-attr]
    ]
    assert rows == list(range(10_000))


def test_columns_are_found_without_regard_to_case_unless_it_distinguishes_two(path: Path) -> None:
    parquet.write_table(pa.table({"A": [1], "b": [2], "B": [3], "a.c": [4], "": [5]}), path)
    table, _ = read(path, dict.fromkeys(["a", "B", "a.c", "missing"], pa.int64()))
    assert table.to_pylist() == [{"a": 1, "B": 3, "a.c": 4, "missing": None}]
    with_both = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], ["v", "V", "w"])
    parquet.write_table(with_both, path)
    assert values(path, pa.int64()) == [1]
    parquet.write_table(pa.table([pa.array([1]), pa.array([2])], ["V", "V"]), path)
    with pytest.raises(FileInvalid, match="several of the name v: V, V"):
        read(path, {"v": pa.int64()})
    with pytest.raises(FileInvalid, match="the names V and V"):
        inferred(path)


def test_members_of_structs_likewise(path: Path) -> None:
    array = pa.array([{"A": 1, "a": 2}])
    assert values(write(path, array), pa.struct([("A", pa.int64())])) == [{"A": 1}]
    array = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["B", "b"])
    write(path, array)
    assert values(path, pa.struct([("b", pa.int64())])) == [{"b": 2}]
    array = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["Ab", "aB"])
    with pytest.raises(FileInvalid, match="the column v has several of the name ab: Ab, aB"):
        read(write(path, array), {"v": pa.struct([("ab", pa.int64())])})


def test_null_under_not_null_is_bad(path: Path) -> None:
    write(path, pa.array([1, None]))
    parser = ParquetParser(columns=pa.schema([pa.field("v", pa.int64(), nullable=False)]), options=ReadOptions())
    batch, bad = parser.parse(FileOnDisk(path))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"v": 1}]
    assert isinstance(bad, BadRecord)
    assert bad.reason == "the column v is NOT NULL, and its value is null"


def test_columns_of_a_tables_partitions_come_from_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-01-02" / "city=K%2FK"
    folder.mkdir(parents=True)
    parquet.write_table(pa.table({"v": [1, 2]}), folder / "x.parquet")
    schema = pa.schema([("v", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
    parser = ParquetParser(columns=schema, options=ReadOptions(), from_path=["day", "city"])
    (batch,) = parser.parse(FileOnDisk(folder / "x.parquet"))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"v": each, "day": date(2026, 1, 2), "city": "K/K"} for each in (1, 2)]


INT96 = {"use_deprecated_int96_timestamps": True}


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def test_int96_of_all_years(path: Path) -> None:
    moments = [datetime(1, 1, 1), datetime(1677, 1, 1, 0, 0, 0, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001
    expected = [each and each.replace(tzinfo=UTC) for each in moments]
    assert values(write(path, pa.array(moments, LOCAL), **INT96), MOMENT) == expected
    nested = pa.array([[{"at": each}] for each in moments], pa.list_(pa.struct([("at", LOCAL)])))
    kind = pa.list_(pa.struct([("at", MOMENT)]))
    assert values(write(path, nested, **INT96), kind) == [[{"at": each}] for each in expected]


def test_nanoseconds_of_int96_are_not_cut_off_in_silence(path: Path) -> None:
    write(path, pa.array([1_000, 1_001, -1], pa.timestamp("ns")), **INT96)
    table, bad = read(path, {"v": MOMENT})
    assert [each.timestamp() for each in table["v"].to_pylist()] == [0.000001]
    assert [(each.at, json.loads(each.record)["v"]) for each in bad] == [
        ("row 2", "1970-01-01 00:00:00.000001001"),
        ("row 3", "1969-12-31 23:59:59.999999999"),
    ]
    cut, none = read(path, {"v": MOMENT}, truncate=True)
    assert cut["v"].cast(pa.int64()).to_pylist() == [1, 1, -1]
    assert not none


def test_int96_is_exact_or_refused_by_its_days(path: Path) -> None:
    """The 12 bytes are written into a file, because no writer makes such days."""
    write(path, pa.array([micros(datetime(2000, 1, 1))], LOCAL), compression="none", use_dictionary=False, **INT96)  # noqa: DTZ001
    content = path.read_bytes()
    of_2000 = (0).to_bytes(8, "little") + (2_451_545).to_bytes(4, "little")
    for day, fits in ((2_440_588 + 106_751_990, True), (2_440_588 + 106_751_992, False), (2**31 - 1, False)):
        path.write_bytes(content.replace(of_2000, (0).to_bytes(8, "little") + day.to_bytes(4, "little"), 1))
        table, bad = read(path, {"v": MOMENT})
        assert (table["v"].cast(pa.int64()).to_pylist(), len(bad)) == (
            ([(day - 2_440_588) * 86_400_000_000], 0) if fits else ([], 1)
        )


SPARK_3 = {"org.apache.spark.version": "3.5.1"}
LEGACY = {**SPARK_3, "org.apache.spark.legacyDateTime": "", "org.apache.spark.legacyINT96": ""}
SPARK_2 = {"org.apache.spark.version": "2.4.5"}


def julian_day(year: int, month: int, day: int) -> int:
    """The days since 1970 of a date in the Julian calendar, counted one by one from the day of the reform."""
    days = -141_427 - 1  # 1582-10-04, the last one
    years = range(year, 1582)
    length = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

    def of_year(y: int, m: int, d: int) -> int:
        return sum(length[: m - 1]) + (1 if m > 2 and y % 4 == 0 else 0) + d - 1

    return (
        days - of_year(1582, 10, 4) - sum(366 if each % 4 == 0 else 365 for each in years) + of_year(year, month, day)
    )


@given(st.dates(max_value=date(1582, 10, 4)))
def test_days_of_the_old_calendar_keep_their_date(tmp_path_factory: pytest.TempPathFactory, day: date) -> None:
    path = tmp_path_factory.mktemp("x") / "x.parquet"
    counted = pa.array([julian_day(day.year, day.month, day.day)], pa.int32()).cast(pa.date32())
    assert values(write(path, counted, LEGACY), pa.date32()) == [day]
    assert values(write(path, counted, SPARK_2), pa.date32()) == [day]


def test_leap_days_that_only_the_old_calendar_has_become_the_first_of_march(path: Path) -> None:
    assert not calendar.isleap(1500)
    counted = pa.array([julian_day(1500, 2, 29), julian_day(1500, 3, 1)], pa.int32()).cast(pa.date32())
    assert values(write(path, counted, LEGACY), pa.date32()) == [date(1500, 3, 1)] * 2


def test_days_without_a_mark_are_the_files_own(path: Path) -> None:
    day = date(1500, 2, 28)
    assert values(write(path, pa.array([day]), SPARK_3), pa.date32()) == [day]
    assert values(write(path, pa.array([day])), pa.date32()) == [day]
    later = [date(1582, 10, 15), date(2026, 1, 1)]
    assert values(write(path, pa.array(later), LEGACY), pa.date32()) == later


def test_nested_days_of_the_old_calendar(path: Path) -> None:
    counted = pa.array([julian_day(1000, 1, 1)], pa.int32()).cast(pa.date32())
    rows = pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([counted], ["day"]))
    write(path, rows, LEGACY)
    assert values(path, pa.list_(pa.struct([("day", pa.date32())]))) == [[{"day": date(1000, 1, 1)}]]


@pytest.mark.parametrize("options", [{}, INT96])
@pytest.mark.parametrize(
    ("zone", "offset", "new"),
    [("UTC", 0, 0), ("America/Los_Angeles", -28_800, -28_378), ("Asia/Shanghai", 28_800, 29_143)],
)
def test_moments_of_the_old_calendar_keep_their_date_and_time(
    path: Path, options: dict[str, Any], zone: str, offset: int, new: int
) -> None:
    seconds = julian_day(1000, 1, 1) * 86_400 - offset
    array = pa.array([seconds * 1_000_000, 0], pa.timestamp("us", None if options else "UTC"))
    write(path, array, {**LEGACY, "org.apache.spark.timeZone": zone}, **options)
    expected = datetime(1000, 1, 1, tzinfo=UTC) - timedelta(seconds=new)
    assert values(path, MOMENT) == [expected, EPOCH.replace(tzinfo=UTC)]


def test_moments_of_the_old_calendar_need_a_zone(path: Path) -> None:
    array = pa.array([micros(datetime(1899, 1, 1)), 0], MOMENT)  # noqa: DTZ001
    for marks in (SPARK_2, {**LEGACY, "org.apache.spark.timeZone": "Mars/Base"}):
        table, (bad,) = read(write(path, array, marks), {"v": MOMENT})
        assert table.num_rows == 1
        assert "its calendar or time zone matters" in bad.reason
    write(path, array, SPARK_2)
    assert values(path, MOMENT, datetimeRebaseMode="LEGACY")[0] == datetime(1899, 1, 1, tzinfo=UTC)


def unmarked(path: Path, array: pa.Array, **options: Any) -> Path:
    """A file as Hive writes it: by parquet-mr, without Spark's marks."""
    write(path, array, store_schema=False, **options)
    content = path.read_bytes()
    writer = parquet.read_metadata(path).created_by.encode()
    path.write_bytes(content.replace(writer, b"parquet-mr version 1.10.1".ljust(len(writer))))
    assert parquet.read_metadata(path).created_by.startswith("parquet-mr")
    return path


def test_what_no_mark_tells_is_refused_unless_an_option_does(path: Path) -> None:
    early = date(1582, 10, 14)
    unmarked(path, pa.array([early, date(1582, 10, 15)]))
    table, (bad,) = read(path, {"v": pa.date32()})
    assert table["v"].to_pylist() == [date(1582, 10, 15)]
    assert "datetimeRebaseMode" in bad.reason
    assert values(path, pa.date32(), datetimeRebaseMode="CORRECTED")[0] == early
    assert values(path, pa.date32(), datetimeRebaseMode="LEGACY")[0] == date(1582, 10, 4)
    moments = [datetime(1899, 12, 31), datetime(1900, 1, 1)]  # noqa: DTZ001
    unmarked(path, pa.array(moments, LOCAL), **INT96)
    table, bads = read(path, {"v": MOMENT}, datetimeRebaseMode="CORRECTED")
    assert (table.num_rows, len(bads)) == (1, 1)
    assert len(values(path, MOMENT, int96RebaseMode="CORRECTED")) == 2


def test_moments_without_zone_under_timestamp_are_in_utc_or_the_zone_of_the_options(path: Path) -> None:
    write(path, pa.array([datetime(2026, 3, 29, 1, 30), datetime(2026, 3, 29, 2, 30)], LOCAL))  # noqa: DTZ001
    assert values(path, MOMENT)[0] == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    table, (bad,) = read(path, {"v": MOMENT}, timeZone="Europe/Berlin")
    assert table["v"].to_pylist() == [datetime(2026, 3, 29, 0, 30, tzinfo=UTC)]
    assert "is no moment, or two, in Europe/Berlin" in bad.reason


def test_summer_time_is_known_in_all_years(path: Path) -> None:
    local = [datetime(year, 7, 1, 12) for year in (1899, 2026, 2040, 9000)]  # noqa: DTZ001
    write(path, pa.array(local, LOCAL))
    table, bads = read(path, {"v": MOMENT}, timeZone="Europe/Berlin")
    assert not bads
    assert table["v"].to_pylist() == [each.replace(hour=11 if each.year < 1900 else 10, tzinfo=UTC) for each in local]


def test_local_times_that_are_no_single_moment_are_refused_in_all_years(path: Path) -> None:
    in_march, in_october = datetime(2040, 3, 25, 2, 30), datetime(2040, 10, 28, 2, 30)  # noqa: DTZ001
    behind_python = pa.scalar(253_402_300_800_000_000, pa.int64()).cast(LOCAL)
    write(path, pa.array([in_march, in_october, behind_python, None], LOCAL))
    table, bads = read(path, {"v": MOMENT}, timeZone="Europe/Berlin")
    assert table["v"].to_pylist() == [None]
    assert ["is no moment, or two, in Europe/Berlin" in bad.reason for bad in bads] == [True] * 3


def test_files_of_duckdb(path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            """copy (select 200::utinyint a, 60000::usmallint b, 4000000000::uinteger c, 18446744073709551615::ubigint d,
            '{"a": 1}'::json j, '00000000-0000-0000-0000-000000000005'::uuid u, 'b'::enum('a', 'b') e, map {'a': 1} m,
            [1, 2] l, {'A': 1} s, date '0001-01-01' dd, timestamptz '0001-01-01 00:00:00+00' tz,
            timestamp '9999-12-31 23:59:59.999999' ts, timestamp_ns '2020-01-01 00:00:00.000001' ns) to '"""
            f"{path}'"
        )
    assert inferred(path) == (
        "`a` smallint, `b` int, `c` bigint, `d` decimal(20,0), `j` string, `u` string, `e` string, `m` map<string, int>, "
        "`l` array<int>, `s` struct<`A`: int>, `dd` date, `tz` timestamp, `ts` timestamp_ntz, `ns` timestamp_ntz"
    )
    kinds = {
        "a": pa.int16(),
        "b": pa.int32(),
        "c": pa.int64(),
        "d": pa.decimal128(20, 0),
        "j": pa.string(),
        "u": pa.string(),
        "e": pa.string(),
        "m": pa.map_(pa.string(), pa.int32()),
        "l": pa.list_(pa.int32()),
        "s": pa.struct([("a", pa.int64())]),
        "dd": pa.date32(),
        "tz": MOMENT,
        "ts": LOCAL,
        "ns": LOCAL,
    }
    table, bad = read(path, kinds)
    assert not bad
    assert table.to_pylist() == [
        {
            "a": 200,
            "b": 60_000,
            "c": 4_000_000_000,
            "d": Decimal(18_446_744_073_709_551_615),
            "j": '{"a": 1}',
            "u": str(UUID(int=5)),
            "e": "b",
            "m": [("a", 1)],
            "l": [1, 2],
            "s": {"a": 1},
            "dd": date(1, 1, 1),
            "tz": datetime(1, 1, 1, tzinfo=UTC),
            "ts": datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
            "ns": datetime(2020, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
        }
    ]


def test_intervals_and_times_of_duckdb_are_refused(path: Path) -> None:
    for value in ("interval 1 month", "time '10:00'"):
        with duckdb.connect() as connection:
            connection.execute(f"copy (select {value} v) to '{path}'")
        with pytest.raises(FileInvalid, match=f"{path}: the column v has the type"):
            inferred(path)
        with pytest.raises(FileInvalid, match=f"{path}: the column v has the type"):
            read(path, {"v": pa.binary()})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"id,note\n1,a\n2,b\n",
        b"PAR1\xff\xff\xff\x7fPAR1",
        b"PAR1" + bytes(100) + b"\x20\0\0\0PAR1",
        b"PAR1" + bytes(100) + b"\0\0\0\0PAR1",
        b"PARE" + bytes(100) + b"\x20\0\0\0PARE",
    ],
    ids=range(7),
)
def test_what_is_no_parquet_file_is_refused_by_name(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FileInvalid, match=str(path)):
        inferred(path)
    with pytest.raises(FileInvalid, match=str(path)):
        read(path, {"v": pa.int64()})


def test_a_file_that_is_cut_or_corrupted_is_refused_by_name(path: Path) -> None:
    write(path, pa.array([str(each) * 9 for each in range(300_000)]), use_dictionary=False, write_page_checksum=True)
    content = path.read_bytes()
    assert len(content) > 1 << 20  # it is not fetched as a whole
    path.write_bytes(content[:-100])
    with pytest.raises(FileInvalid, match=str(path)):
        read(path, {"v": pa.string()})
    for place in (10, 100_000, 500_000):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(FileInvalid, match=f"{path} is a broken Parquet file: "):
            read(path, {"v": pa.string()})


class Overwritten(io.BytesIO):
    """A file that is overwritten when its data is read."""

    def read(self, size: int | None = -1) -> bytes:
        if 0 < self.tell() < 1_000_000:
            raise FileUnreadable("it was overwritten")
        return super().read(size)


class Forbidden(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        if 0 < self.tell() < 1_000_000:
            raise PermissionError(13, "no")
        return super().read(size)


@pytest.mark.parametrize(("reads", "error"), [(Overwritten, FileUnreadable), (Forbidden, PermissionError)])
def test_what_the_storage_raises_passes(path: Path, reads: type[io.BytesIO], error: type[Exception]) -> None:
    write(path, pa.array([str(each) * 9 for each in range(900_000)]), use_dictionary=False, row_group_size=100_000)
    parser = ParquetParser(columns=pa.schema([("v", pa.string())]), options=ReadOptions())
    with pytest.raises(error):
        list(parser.parse(FileOnDisk(path, reads=reads)))


def test_inference_joins_all_files(tmp_path: Path) -> None:
    one, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    parquet.write_table(
        pa.table(
            {
                "id": pa.array([1], pa.int32()),
                "n": pa.nulls(1),
                "s": [{"a": 1}],
                "d": [Decimal("1.5")],
                "x": pa.nulls(1),
            }
        ),
        one,
    )
    parquet.write_table(
        pa.table({"ID": pa.array([1], pa.int64()), "n": ["x"], "s": [{"A": 1.5, "b": 2}], "d": [10], "at": [EPOCH]}),
        other,
    )
    with pytest.raises(FileInvalid, match=rf"the column s is struct<`a`: bigint> in {one} and .* in {other}"):
        inferred(one, other)
    parquet.write_table(
        pa.table({"ID": pa.array([1], pa.int64()), "n": ["x"], "s": [{"A": 1, "b": 2}], "d": [10], "at": [EPOCH]}),
        other,
    )
    assert inferred(one, other) == (
        "`id` bigint, `n` string, `s` struct<`a`: bigint, `b`: bigint>, `d` decimal(20,1), `x` string, `at` timestamp_ntz"
    )


def test_inference_sees_int96_as_moments(path: Path) -> None:
    write(path, pa.array([[0]], pa.list_(pa.timestamp("ns"))), **INT96)
    assert inferred(path) == "`v` array<timestamp>"


def test_a_decimal_that_spark_has_not_is_refused(path: Path) -> None:
    with pytest.raises(FileInvalid, match=r"the column v has the type decimal256\(39, 2\), which Spark has not"):
        inferred(write(path, pa.array([Decimal(1)], pa.decimal256(39, 2))))


def test_a_footer_that_is_longer_than_what_is_fetched_first(path: Path) -> None:
    names = [f"{'x' * 100}{number}" for number in range(5_000)]
    parquet.write_table(pa.table({name: range(2) for name in names}), path)
    assert path.stat().st_size > 1 << 20  # it is not fetched as a whole
    assert parquet.read_metadata(path).serialized_size > 64 << 10
    assert read(path, {names[-1]: pa.int64()})[0].num_rows == 2


def written_by(rows: int) -> tuple[bytes, bytes]:
    """The pages and the footer of a file, which have the same sizes whatever the number of rows."""
    body = io.BytesIO()
    table = pa.table({"id": pa.array([7] * rows), "note": ["x"] * rows})
    parquet.write_table(table, body, store_schema=False)
    return divided(body.getvalue())


def divided(body: bytes) -> tuple[bytes, bytes]:
    footer = int.from_bytes(body[-8:-4], "little") + 8
    return body[:-footer], body[-footer:]


def refused(path: Path, body: bytes, **schema: pa.DataType) -> str:
    path.write_bytes(body)
    with pytest.raises(FileInvalid) as found:
        read(path, schema or {"id": pa.int64(), "note": pa.string()})
    assert str(path.name) in str(found.value)
    return str(found.value)


def test_fewer_values_than_the_footer_says_are_a_broken_file(path: Path) -> None:
    (three, _), (five, footer) = written_by(3), written_by(5)
    assert len(three) == len(five)
    assert "fewer values than its row groups have rows" in refused(path, three + footer)
    assert "its columns have 2 fewer values than" in refused(path, three + footer, id=pa.int64())
    first = parquet.read_metadata(pa.BufferReader(five + footer)).row_group(0).column(0)
    end = first.dictionary_page_offset + first.total_compressed_size
    for mixed in (three[:end] + five[end:], five[:end] + three[end:]):
        assert "broken Parquet file" in refused(path, mixed + footer)
    path.write_bytes(five + footer)
    assert read(path, {"id": pa.int64()})[0]["id"].to_pylist() == [7] * 5


@pytest.mark.parametrize("rows", [2, 5])
def test_another_number_of_values_than_of_rows_is_a_broken_file(path: Path, rows: int) -> None:
    body = io.BytesIO()
    parquet.write_table(pa.table({"id": [7, 8, 9]}), body, store_schema=False, write_statistics=False)
    pages, footer = divided(body.getvalue())
    in_file, in_chunk, in_group = footer.split(b"\x16" + varint(2 * 3))[1:]  # what is behind each number of 3
    number = b"\x16" + varint(2 * rows)
    changed = footer[: footer.index(b"\x16\x06")] + number + in_file + b"\x16\x06" + in_chunk + number + in_group
    assert f"its column id has 3 values in a row group of {rows} rows" in refused(path, pages + changed, id=pa.int64())


def test_a_column_in_another_file_is_not_read_from_this_one(path: Path) -> None:
    pages, footer = written_by(3)
    metadata = parquet.read_metadata(pa.BufferReader(pages + footer))
    metadata.set_file_path("other.parquet")
    alone = io.BytesIO()
    metadata.write_metadata_file(alone)
    assert "its column id is in another file, other.parquet" in refused(path, pages + divided(alone.getvalue())[1])


def test_columns_that_lie_over_each_other_are_a_broken_file(path: Path) -> None:
    body = io.BytesIO()
    parquet.write_table(
        pa.table({"a": [1, 2], "b": [3, 4]}), body, store_schema=False, use_dictionary=False, write_statistics=False
    )
    pages, footer = divided(body.getvalue())
    first, second = (
        parquet.read_metadata(pa.BufferReader(body.getvalue())).row_group(0).column(at).data_page_offset
        for at in (0, 1)
    )
    places = [b"\x26" + varint(2 * place) for place in (first, second)]  # the field of the page's offset
    assert len(places[0]) == len(places[1])
    assert footer.count(places[1]) == 1
    changed = footer.replace(places[1], places[0])
    assert "its columns lie over each other" in refused(path, pages + changed, a=pa.int64(), b=pa.int64())


def varint(number: int) -> bytes:
    """A number as Thrift's compact protocol writes it."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)
