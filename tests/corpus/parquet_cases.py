"""Parquet files by pyarrow and DuckDB, and, in `files/`, by Spark; each with what it holds."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyarrow import parquet

from tests.corpus.canonical import Canonical, days_of
from tests.corpus.model import FILE, Case, Expected, Input, Row

FILES: Final = Path(__file__).with_name("files")
REFUSED: Final = Expected(refused="a.parquet")


def written(table: pa.Table, **more: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, **more)
    return sink.getvalue()


def case(
    name: str,
    content: bytes,
    *rows: Row,
    schema: str | None = None,
    kind: str = FILE,
    bad: int | Sequence[str] = 0,
    refused: str | None = None,
    types: str | None = None,
    documented: str | None = None,
    also: Sequence[Expected] = (),
    **options: Any,
) -> Case:
    expected = Expected(rows=rows, bad=bad, refused=refused, types=types, documented=documented)
    inputs = Input(source="parquet", content=content, file="a.parquet", schema=schema, options=options)
    return Case(name=name, kind=kind, input=inputs, expected=[expected, *also])


def of_column(name: str, array: pa.Array, values: Sequence[Canonical], types: str | None = None, **more: Any) -> Case:
    """A file of one column `v`, written by pyarrow."""
    writing = {key: more.pop(key) for key in [key for key in more if key in WRITING]}
    content = written(pa.table({"v": array}), **writing)
    return case(name, content, *[(value,) for value in values], kind=str(array.type), types=types and f"v {types}", **more)


WRITING: Final = {"version", "use_dictionary", "compression", "data_page_version", "column_encoding", "row_group_size"} | {
    "use_deprecated_int96_timestamps",
    "coerce_timestamps",
    "store_schema",
    "use_byte_stream_split",
    "store_decimal_as_integer",
}


def cases() -> Iterator[Case]:
    yield from numbers()
    yield from texts()
    yield from times()
    yield from nested()
    yield from layouts()
    yield from schemas()
    yield from columns()
    yield from by_duckdb()
    yield from by_spark()


INTEGERS: Final = {
    "byte": (pa.int8(), 8, True),
    "short": (pa.int16(), 16, True),
    "int": (pa.int32(), 32, True),
    "long": (pa.int64(), 64, True),
}
UNSIGNED: Final = {"short": (pa.uint8(), 8), "int": (pa.uint16(), 16), "long": (pa.uint32(), 32), "decimal(20,0)": (pa.uint64(), 64)}


def numbers() -> Iterator[Case]:
    for spark, (kind, bits, _) in INTEGERS.items():
        values = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None]
        shown = [None if value is None else str(value) for value in values]
        yield of_column("extremes", pa.array(values, kind), shown, spark)
    for spark, (kind, bits) in UNSIGNED.items():
        values = [0, 1, 2 ** (bits - 1), 2**bits - 1, None]
        shown = [None if value is None else str(value) for value in values]
        yield of_column("extremes", pa.array(values, kind), shown, spark)
        yield of_column("extremes without Arrow's schema", pa.array(values, kind), shown, spark, store_schema=False)
    floats = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, None]
    yield of_column("extremes", pa.array(floats, pa.float64()), ["0.0", "-0.0", "1.5", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e+308", None], "double")
    singles = [0.0, -0.0, 1.5, float("nan"), float("inf"), 16777216.0, None]
    yield of_column("extremes", pa.array(singles, pa.float32()), ["0.0", "-0.0", "1.5", "NaN", "Infinity", "16777216.0", None], "float")
    yield of_column("halves", pa.array([1.5, None], pa.float16()), ["1.5", None], also=[REFUSED])
    yield of_column("byte stream split", pa.array([1.5, 0.1]), ["1.5", "0.1"], "double", use_dictionary=False, use_byte_stream_split=True)
    for precision, scale in ((5, 5), (9, 2), (18, 4), (38, 0), (38, 38)):
        most = Decimal((0, (9,) * precision, -scale))
        kind, decimals = f"decimal({precision},{scale})", [most, most.copy_negate(), Decimal(0), None]
        shown = [None if value is None else format(value, f".{scale}f") for value in decimals]
        for as_integer in (False, True):
            name = "extremes, stored as integers" if as_integer else "extremes"
            yield of_column(name, pa.array(decimals, pa.decimal128(precision, scale)), shown, kind, store_decimal_as_integer=as_integer)
    large = pa.array([Decimal("9" * 76)], pa.decimal256(76, 0))
    yield of_column("76 digits", large, ["9" * 76], "string", also=[REFUSED], documented="text")
    yield of_column("flags", pa.array([True, False, None]), ["true", "false", None], "boolean")
    yield of_column("nothing but nulls", pa.nulls(2), [None, None])


def texts() -> Iterator[Case]:
    values = ["", "a", "ü€😀", " ", "a\nb", "\x00", None]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield of_column("texts", pa.array(values, kind), values, "string")
    yield of_column("dictionary", pa.array(values).dictionary_encode(), values, "string")
    yield of_column("dictionary of numbers", pa.array([7, 7, None]).dictionary_encode(), ["7", "7", None], "long")
    contents = [b"", b"\x00\xff", None]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield of_column("bytes", pa.array(contents, kind), ["0x", "0x00ff", None], "binary")
    yield of_column("bytes of one length", pa.array([b"ab", None], pa.binary(2)), ["0x6162", None], "binary")
    identity = pa.array([bytes(range(16))], pa.uuid())
    yield of_column("uuid", identity, ["00010203-0405-0607-0809-0a0b0c0d0e0f"], also=[Expected(rows=[("0x000102030405060708090a0b0c0d0e0f",)])])
    yield of_column("json", pa.array(['{"a": 1.10}'], pa.json_()), ['{"a": 1.10}'], "string")
    broken = pa.Array.from_buffers(pa.string(), 2, [None, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")])
    yield of_column("no UTF-8 in a text", broken, ["a"], bad=1, also=[REFUSED])


SECOND: Final = 1_000_000
PER_SECOND: Final = {"s": 1, "ms": 1000, "us": SECOND, "ns": 1000 * SECOND}


def times() -> Iterator[Case]:
    days = {"1970-01-01": 0, "0001-01-01": days_of(1, 1, 1), "9999-12-31": days_of(9999, 12, 31), "1582-10-10": days_of(1582, 10, 10)}
    more = {**days, "10000-01-01": days_of(10000, 1, 1), "-4712-01-01": days_of(-4712, 1, 1)}
    yield of_column("extremes", pa.array([*more.values(), None], pa.int32()).cast(pa.date32()), [*more, None], "date")
    yield of_column("days", pa.array([date(1, 1, 1), date(9999, 12, 31)], pa.date64()), ["0001-01-01", "9999-12-31"], "date")
    for unit, per_second in PER_SECOND.items():
        for zone in (None, "UTC", "Europe/Berlin"):
            kind = pa.timestamp(unit, zone)
            named = {"1970-01-01": 0, "1969-12-31": -1, "2261-12-31": days_of(2261, 12, 31)} if unit == "ns" else days
            suffix = "T00:00:00" + ("Z" if zone else "")
            values = [day * 86_400 * per_second for day in named.values()]
            spark = "timestamp" if zone else "timestamp_ntz"
            yield of_column("midnights", pa.array([*values, None], pa.int64()).cast(kind), [*[day + suffix for day in named], None], spark)
            last = 86_400 * per_second - (1000 if unit == "ns" else 1)
            fraction = {"s": "", "ms": ".999", "us": ".999999", "ns": ".999999"}[unit]
            yield of_column("the last of a day", pa.array([last], pa.int64()).cast(kind), [f"1970-01-01T23:59:59{fraction}{'Z' if zone else ''}"], spark)
    odd = pa.array([1_000, 1_001], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    micro = "1970-01-01T00:00:00.000001Z"
    yield of_column("nanoseconds", odd, [micro], bad=1, also=[REFUSED])
    yield of_column("nanoseconds, truncate", odd, [micro, micro], truncate=True, documented="nanoseconds are cut off, as asked for")
    beyond = pa.array([2**62], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    yield of_column("milliseconds beyond Spark's years", beyond, [], bad=1, also=[REFUSED])
    yield of_column("milliseconds beyond Spark's years, under a schema", beyond, [], schema="v timestamp", bad=1, also=[REFUSED])
    moments = pa.array([0, -1_000_000, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us"))
    shown = ["1970-01-01T00:00:00", "1969-12-31T23:59:59", "2023-11-14T22:13:20.123456"]
    int96 = {"use_deprecated_int96_timestamps": True}
    yield of_column("INT96", moments, [f"{text}Z" for text in shown], "timestamp", **int96, also=[Expected(rows=[(text,) for text in shown])])
    midnight = pa.array([0, 86_400_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    yield of_column("midnights read as dates", midnight, ["1970-01-01", "1970-01-02"], schema="v date", also=[REFUSED])
    noon = pa.array([0, 43_200_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    yield of_column("a noon read as a date", noon, ["1970-01-01"], schema="v date", bad=1, also=[REFUSED])
    clock = pa.array([1], pa.time64("us"))
    yield of_column("times of a day", clock, ["00:00:00.000001"], also=[REFUSED])
    yield of_column("durations", pa.array([1], pa.duration("us")), ["1"], also=[REFUSED])


def nested() -> Iterator[Case]:
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_view(pa.int64())):
        yield of_column("lists", pa.array([[1, None], [], None], kind), [["1", None], [], None], "array<long>")
    yield of_column("lists of one length", pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [["1", "2"], None], "array<long>")
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    rows = [{"a": 1, "b": None}, None]
    yield of_column("structs", pa.array(rows, struct), [[["a", "1"], ["b", None]], None], "struct<a:long,b:string>")
    yield of_column("maps", pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int64())), [[["k", "1"], ["l", None]], [], None], "map<string,long>")
    deep = pa.array([[{"m": [("k", Decimal("1.10"))]}]], pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.decimal128(5, 2)))])))
    yield of_column("maps in structs in lists", deep, [[[["m", [["k", "1.10"]]]]]], "array<struct<m:map<string,decimal(5,2)>>>")
    yield of_column("lists of moments in milliseconds", pa.array([[0]], pa.list_(pa.timestamp("ms", "UTC"))), [["1970-01-01T00:00:00Z"]], "array<timestamp>")
    yield of_column("lists of unsigned numbers", pa.array([[2**64 - 1]], pa.list_(pa.uint64())), [[str(2**64 - 1)]], "array<decimal(20,0)>")
    upper = pa.array([{"A": 7}], pa.struct([("A", pa.int64())]))
    yield of_column("names in another case", upper, [[["a", "7"]]], schema="v struct<a: long>")


def layouts() -> Iterator[Case]:
    table = pa.table({"v": list(range(1000))})
    rows = [(str(at),) for at in range(1000)]
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        yield case(f"packed by {codec}", written(table, compression=codec), *rows, types="v long")
    yield case("many row groups", written(table, row_group_size=7), *rows)
    yield case("pages of version 2", written(table, data_page_version="2.0"), *rows)
    yield case("without dictionaries", written(table, use_dictionary=False), *rows)
    for encoding in ("DELTA_BINARY_PACKED", "PLAIN"):
        yield case(encoding, written(table, use_dictionary=False, column_encoding={"v": encoding}), *rows)
    yield case("no row", written(table.slice(0, 0)), types="v long")
    whole = written(table)
    yield case("a file with no byte", b"", refused="a.parquet")
    yield case("cut off", whole[:-5], refused="a.parquet")
    yield case("its first half", whole[: len(whole) // 2], refused="a.parquet")
    yield case("JSON by content", b'{"v": 1}\n', refused="a.parquet")
    yield case("a page that is broken", whole[:30] + b"\x00" * 40 + whole[70:], refused="a.parquet")


def schemas() -> Iterator[Case]:
    numbers = written(pa.table({"v": pa.array([1, None, 127], pa.int32())}))
    three = [("1",), (None,), ("127",)]
    yield case("int read as long", numbers, *three, schema="v long")
    yield case("int read as decimal(10,0)", numbers, *three, schema="v decimal(10,0)", also=[REFUSED])
    yield case("int read as double", numbers, ("1.0",), (None,), ("127.0",), schema="v double", also=[REFUSED])
    yield case("int read as string", numbers, refused="a.parquet", schema="v string", also=[Expected(rows=three)])
    yield case("int read as byte", numbers, *three, schema="v byte", also=[REFUSED])
    large = written(pa.table({"v": [1, 2**40]}))
    yield case("long read as int, beyond it", large, ("1",), schema="v int", bad=1, also=[REFUSED])
    exact = written(pa.table({"v": [float(2**53), 0.1]}))
    yield case("double read as float", exact, refused="a.parquet", schema="v float", also=[Expected(rows=[("9007199254740992.0",)], bad=1)])
    yield case("double read as long", exact, refused="a.parquet", schema="v long", also=[Expected(rows=[(str(2**53),)], bad=1)])
    text = written(pa.table({"v": ["1", "x"]}))
    yield case("text read as long", text, refused="a.parquet", schema="v long", also=[Expected(rows=[("1",)], bad=1)])
    cents = written(pa.table({"v": [Decimal("1.05"), Decimal("1.10")]}))
    yield case("decimal(3,2) read as decimal(10,2)", cents, ("1.05",), ("1.10",), schema="v decimal(10,2)")
    yield case("decimal(3,2) read as decimal(3,1)", cents, ("1.1",), schema="v decimal(3,1)", bad=1, also=[REFUSED])
    local = written(pa.table({"v": pa.array([0], pa.int64()).cast(pa.timestamp("us"))}))
    yield case("a local time read as a moment", local, refused="a.parquet", schema="v timestamp", also=[Expected(rows=[("1970-01-01T00:00:00Z",)])])


def columns() -> Iterator[Case]:
    two = written(pa.table({"id": [1], "note": ["a"]}))
    yield case("columns in another order", two, ("a", "1"), schema="note string, id long")
    yield case("a column that the file lacks", two, ("1", None), schema="id long, more string")
    yield case("a column that the schema does not name", two, ("1",), schema="id long")
    yield case("names in another case", two, ("1", "a"), schema="ID long, Note string")
    names = ["a.b", "c d", "e`f", "g,h", "ü", "i;{}()\n\t=", "_corrupt", "_record"]
    odd = written(pa.table({name: [at] for at, name in enumerate(names)}))
    yield case("names of any kind", odd, tuple(str(at) for at in range(len(names))))
    for name in ("_corrupt_record", "_bad", "bad", "_file", "run"):
        yield case(f"a column named {name}", written(pa.table({"id": [1], name: ["a"]})), ("1", "a"), also=[Expected(refused=name)])
    twice = written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "v"]))
    yield case("two columns of one name", twice, refused="v")
    cased = written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "V"]))
    yield case("two names that differ in case only", cased, ("1", "2"), also=[Expected(refused="v")])


BY_DUCKDB: Final = (
    ("BIGINT", "9223372036854775807", "9223372036854775807", "long"),
    ("UBIGINT", "18446744073709551615", "18446744073709551615", "decimal(20,0)"),
    ("UINTEGER", "4294967295", "4294967295", "long"),
    ("UTINYINT", "255", "255", "short"),
    ("DECIMAL(18,3)", "123456789012345.678", "123456789012345.678", "decimal(18,3)"),
    ("DECIMAL(38,10)", "-1.1", "-1.1000000000", "decimal(38,10)"),
    ("DOUBLE", "'NaN'", "NaN", "double"),
    ("VARCHAR", "'ü'", "ü", "string"),
    ("BLOB", "'\\x00\\xFF'", "0x00ff", "binary"),
    ("DATE", "'9999-12-31'", "9999-12-31", "date"),
    ("TIMESTAMP", "'9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999", "timestamp_ntz"),
    ("TIMESTAMPTZ", "'0001-01-01 00:00:00+00'", "0001-01-01T00:00:00Z", "timestamp"),
    ("TIMESTAMP_NS", "'2024-01-01 00:00:00.123456000'", "2024-01-01T00:00:00.123456", "timestamp_ntz"),
    ("TIMESTAMP_MS", "'2024-01-01 00:00:00.123'", "2024-01-01T00:00:00.123", "timestamp_ntz"),
    ("JSON", """'{"a": 1.10}'""", '{"a": 1.10}', "string"),
    ("INTEGER[]", "[1, NULL]", ["1", None], "array<int>"),
    ("STRUCT(a INTEGER, b VARCHAR)", "{'a': 1, 'b': 'x'}", [["a", "1"], ["b", "x"]], "struct<a:int,b:string>"),
    ("MAP(VARCHAR, INTEGER)", "MAP {'k': 1}", [["k", "1"]], "map<string,int>"),
    ("BOOLEAN", "true", "true", "boolean"),
)


def by_duckdb() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for number, (kind, literal, value, spark) in enumerate(BY_DUCKDB):
            path = Path(folder, f"{number}.parquet")
            connection.execute(f"COPY (SELECT {literal}::{kind} AS v UNION ALL SELECT NULL) TO '{path}' (FORMAT parquet)")
            yield case("by DuckDB", path.read_bytes(), (value,), (None,), kind=kind, types=f"v {spark}")


BY_SPARK: Final[dict[str, tuple[str, Sequence[str], dict[str, str]]]] = {
    "INT96": ("timestamp", ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1582-10-10 12:00:00", "1883-11-18 12:00:00", "1969-12-31 23:59:59.5"], {"outputTimestampType": "INT96", "int96RebaseModeInWrite": "CORRECTED"}),
    "INT96, LEGACY": ("timestamp", ["9999-12-31 23:59:59.999999", "0001-01-03 00:00:00", "1500-03-01 12:00:00", "1582-10-04 12:00:00"], {"outputTimestampType": "INT96", "int96RebaseModeInWrite": "LEGACY"}),
    "microseconds": ("timestamp", ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "-0044-03-15 12:00:00"], {"outputTimestampType": "TIMESTAMP_MICROS", "datetimeRebaseModeInWrite": "CORRECTED"}),
    "microseconds, LEGACY": ("timestamp", ["9999-12-31 23:59:59.999999", "0001-01-03 00:00:00", "1500-03-01 12:00:00", "1582-10-04 12:00:00"], {"outputTimestampType": "TIMESTAMP_MICROS", "datetimeRebaseModeInWrite": "LEGACY"}),
    "milliseconds": ("timestamp", ["9999-12-31 23:59:59.999", "0001-01-01 00:00:00"], {"outputTimestampType": "TIMESTAMP_MILLIS", "datetimeRebaseModeInWrite": "CORRECTED"}),
    "days": ("date", ["9999-12-31", "0001-01-01", "1582-10-10", "-4712-01-01"], {"datetimeRebaseModeInWrite": "CORRECTED"}),
    "days, LEGACY": ("date", ["9999-12-31", "0001-01-03", "1500-03-01", "1582-10-04", "1582-10-15"], {"datetimeRebaseModeInWrite": "LEGACY"}),
    "local times": ("timestamp_ntz", ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"], {}),
    "decimals, legacy format": ("decimal(9,2)", ["1.10", "-9999999.99"], {"writeLegacyFormat": "true"}),
    "lists, legacy format": ("array<int>", ["array(1, null)"], {"writeLegacyFormat": "true"}),
}
"""The type, the values and the settings (`spark.sql.parquet.…`) of the files that Spark wrote, in UTC."""


def by_spark() -> Iterator[Case]:
    for name, (kind, values, _) in BY_SPARK.items():
        path = FILES / f"{name}.parquet"
        if path.exists():
            rows = [(_of_spark(value, kind),) for value in values]
            yield case(f"by Spark: {name}", path.read_bytes(), *rows, kind=kind, types=f"v {kind}")


def _of_spark(value: str, kind: str) -> Canonical:
    if kind.startswith("array"):
        return ["1", None]
    return value.replace(" ", "T") + ("Z" if kind == "timestamp" else "") if kind.startswith("timestamp") else value


def write_by_spark(spark: Any) -> None:
    """Write `files/` anew."""
    FILES.mkdir(exist_ok=True)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name, (kind, values, settings) in BY_SPARK.items():
        for setting, value in settings.items():
            spark.conf.set(f"spark.sql.parquet.{setting}", value)
        literals = [value if kind.startswith("array") else f"{kind} '{value}'" if kind[0] in "td" and "(" not in kind else f"cast('{value}' AS {kind})" for value in values]
        with tempfile.TemporaryDirectory() as folder:
            frame = spark.sql(" UNION ALL ".join(f"SELECT {literal} AS v" for literal in literals))
            frame.coalesce(1).write.mode("overwrite").parquet(folder)
            (FILES / f"{name}.parquet").write_bytes(next(Path(folder).glob("*.parquet")).read_bytes())
        for setting in settings:
            spark.conf.unset(f"spark.sql.parquet.{setting}")
