"""Writes days and moments of all years with Spark, in both calendars and many time zones, and reads them with Spark and with
`ParquetParser`. Prints the files that differ, and days that differ from Java's own calendar.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from asset_job.sources.arrow import arrow_schema
from asset_job.sources.options import ReadOptions
from asset_job.sources.parquet.inference import ParquetInference
from asset_job.sources.parquet.parser import ParquetParser

DAY = 86_400_000_000
YEAR_1, YEAR_10_000 = -719_162, 2_932_896
ZONES = ("UTC", "America/Los_Angeles", "Asia/Shanghai", "Europe/Berlin")
NESTED = "map(1, array(named_struct('v', v)))"


@dataclass(frozen=True)
class WrittenFile:
    path: Path
    part: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def pieces(self) -> Iterator[bytes]:
        yield self.path.read_bytes()

    def seekable(self) -> IO[bytes]:
        return io.BytesIO(self.path.read_bytes())


def started() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.ansi.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def numbers(chance: random.Random, count: int) -> tuple[list[int], list[int]]:
    """Days and moments of the years before 1, 1 to 9999, and around the reform and 1900."""
    edges = [YEAR_1, YEAR_10_000, -141_427, -25_567, 0, -170_000, -171_596]
    days = [edge + near for edge in edges for near in range(-13, 14)]
    days += [chance.randrange(YEAR_1 - 100_000, -130_000) for _ in range(count)]
    days += [chance.randrange(YEAR_1, YEAR_10_000) for _ in range(count)]
    moments = [day * DAY + shift for day in days for shift in (0, chance.randrange(-DAY, DAY))]
    return days, [*moments, YEAR_10_000 * DAY - 1]


def ours(spark: SparkSession, folder: Path) -> tuple[pa.Table, int]:
    """The rows as `ParquetParser` reads them in the inferred columns, and the number of bad records."""
    (path,) = folder.glob("*.parquet")
    file, options = WrittenFile(path), ReadOptions()
    inference = ParquetInference(options=options)
    ddl = inference.schema([inference.inferred(file)])
    assert spark.createDataFrame([], ddl).dtypes == spark.read.parquet(str(folder)).dtypes, ddl
    columns = arrow_schema(spark.createDataFrame([], ddl))
    parsed = list(ParquetParser(columns=columns, options=options).parse(file))
    batches = [each for each in parsed if isinstance(each, pa.RecordBatch)]
    return pa.Table.from_batches(batches, columns), len(parsed) - len(batches)


def differing(spark: SparkSession, frame: DataFrame, folder: Path) -> list[str]:
    """Some values that the two read differently, if there are any."""
    frame.coalesce(1).write.parquet(str(folder))
    table, bad = ours(spark, folder)
    theirs = spark.read.parquet(str(folder)).toArrow().cast(table.schema)
    if bad == 0 and table.equals(theirs):
        return []
    rows = zip(table["n"].to_pylist(), table["v"].cast(pa.string()), theirs["v"].cast(pa.string()), strict=False)
    return [f"{folder.name}, {bad} bad", *(f"{n}: {one} {other}" for n, one, other in rows if one != other)][:20]


def of_calendars(spark: SparkSession, folder: Path, zone: str, chance: random.Random, count: int) -> list[str]:
    """What differs among files that a machine in this time zone writes."""
    java: Any = spark._jvm
    java.java.util.TimeZone.setDefault(java.java.util.TimeZone.getTimeZone(zone))
    days, moments = numbers(chance, count)
    of_days = spark.createDataFrame([(each,) for each in days], "n int").selectExpr("n", "date_from_unix_date(n) v")
    of_moments = spark.createDataFrame([(each,) for each in moments], "n long").selectExpr("n", "timestamp_micros(n) v")
    found: list[str] = []
    for mode in ("LEGACY", "CORRECTED"):
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", mode)
        spark.conf.set("spark.sql.parquet.int96RebaseModeInWrite", mode)
        at = folder / zone.replace("/", ".") / mode
        found += differing(spark, of_days.withColumn("nested", sql.expr(NESTED)), at / "days")
        for stored in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"):
            spark.conf.set("spark.sql.parquet.outputTimestampType", stored)
            found += differing(spark, of_moments.withColumn("nested", sql.expr(NESTED)), at / stored)
    return found


def by_java(spark: SparkSession, folder: Path, chance: random.Random) -> list[str]:
    """Days in the old calendar whose date is another by Java's `GregorianCalendar`, which is a Julian one before 1582."""
    java: Any = spark._jvm
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    days = [YEAR_1 + 10, -141_428, -141_427, *(chance.randrange(YEAR_1 + 10, -100_000) for _ in range(300))]
    frame = spark.createDataFrame([(each,) for each in days], "n int").selectExpr("date_from_unix_date(n) v")
    frame.coalesce(1).write.parquet(str(folder / "java"))
    (path,) = (folder / "java").glob("*.parquet")
    stored = parquet.read_table(path)["v"].cast(pa.int32()).to_pylist()
    assert sum(one != other for one, other in zip(stored, days, strict=True)) > 200
    zone, found = java.java.util.TimeZone.getTimeZone("UTC"), []
    for read, counted in zip(ours(spark, folder / "java")[0]["v"].to_pylist(), stored, strict=True):
        calendar = java.java.util.GregorianCalendar(zone)
        calendar.setTimeInMillis(counted * (DAY // 1000))
        date = (calendar.get(1), calendar.get(2) + 1, calendar.get(5))
        if (read.year, read.month, read.day) != date:
            found.append(f"{counted}: {read} {date}")
    return found


TYPES = """named_struct('A', n, 'b', if(n % 2 = 0, null, cast(n % 100 as byte)), 'c', cast(n % 100 as short)) s;
    map(cast(n as string), cast(n as decimal(20, 3))) m; array(n % 3 = 0, null) l; cast(n as double) / 7 d; cast(n as float) f;
    if(n % 5 = 0, null, cast(n as binary)) b; timestamp_ntz'0001-01-01' + make_dt_interval(n % 1000) t; array(n, 1) e"""


def of_types(spark: SparkSession, folder: Path) -> list[str]:
    """What differs among columns of other types."""
    frame = (
        spark.range(5_000).selectExpr("id n", "id v").selectExpr("n", "v", *(each.strip() for each in TYPES.split(";")))
    )
    found: list[str] = []
    for legacy in ("false", "true"):  # of lists, maps and decimals
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
        found += differing(spark, frame, folder / f"types-{legacy}")
    return found


def main(given: Sequence[str]) -> None:
    chance, count = random.Random(int(given[0])), int(given[1])
    spark = started()
    java: Any = spark._jvm
    others = sorted(java.java.time.ZoneId.getAvailableZoneIds())
    others = [each for each in others if "/" in each and not each.startswith("SystemV")]
    with tempfile.TemporaryDirectory() as folder:
        found = {
            zone: of_calendars(spark, Path(folder), zone, chance, count)
            for zone in (*ZONES, *chance.sample(others, int(given[2])))
        }
        found["Java"] = by_java(spark, Path(folder), chance)
        found["types"] = of_types(spark, Path(folder))
    print(json.dumps({zone: each for zone, each in found.items() if each}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
