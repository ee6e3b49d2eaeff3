"""A program for Spark: append frames with names, types and values of every kind, and say what became of each.

Its arguments are a folder for the tables and the file for its answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from asset_job.errors import AssetJobError
from asset_job.run_context import local_run

FORMATS = ("parquet", "delta", "iceberg")
FRAMES = {
    "awkward": "SELECT 1 AS id, 2 AS `_partition_0`, 'x' AS `a.b`, 'y' AS `q\"'`, 'z' AS `ä/=%2F`, 'p' AS `tick``s`",
    "alike": "SELECT 1 AS a, 2 AS A",
    "nested alike": "SELECT 1 AS id, struct(1 AS a, 2 AS A) AS v",
    "hidden": "SELECT 1 AS id, 'x' AS _p",
    "void": "SELECT 1 AS id, array(struct(null AS x)) AS v",
    "interval": "SELECT 1 AS id, interval '1' DAY AS v",
    "months": "SELECT 1 AS id, interval '1' YEAR AS v",
    "struct": "SELECT 1 AS id, named_struct() AS v",
    "empty": "SELECT 1 AS id, '' AS p",
    "texts": "SELECT id, p FROM VALUES (1, cast(null AS string)), (2, 'a'), (3, 'a/b=c%2F e\u0301.') AS t(id, p)",
    "null text": "SELECT 1 AS id, '__HIVE_DEFAULT_PARTITION__' AS p",
    "long": "SELECT 1 AS id, repeat('x', 300) AS p",
    "late": "SELECT 1 AS id, date'10000-01-01' AS p",
    "moment": "SELECT 1 AS id, timestamp'2026-01-01 00:00:00' AS p",
    "binary": "SELECT 1 AS id, cast('a' AS binary) AS p",
}
BY = {"awkward": "TICK`S", "hidden": "_p"}
KINDS = {
    "hidden": ("parquet",),
    "empty": ("parquet", "delta"),
    "null text": ("parquet",),
    "long": ("parquet",),
    "late": ("parquet", "iceberg"),
    "moment": ("parquet", "delta"),
}
"""The formats in which a frame is refused, where others take it."""
MOMENTS = [-62_135_596_800_000_000, -62_135_596_800_000_001, 253_402_300_799_999_999, 253_402_300_800_000_000, 0]


def main(folder: Path, answers: Path) -> None:
    ice = {"type": "iceberg", "catalog": "sql", "uri": f"sqlite:///{folder}/ice.db", "warehouse": folder.as_uri()}
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.caseSensitive", "true")
    said: dict[str, Any] = {}
    with local_run(folder) as r:
        r.connections = {"ice": ice}

        def append(frame: DataFrame, name: str, kind: str, by: list[str]) -> str:
            target = f"shop.{name.replace(' ', '_')}" if kind == "iceberg" else f"{folder}/{kind}/{name}"
            try:
                return str(r.append(frame, target, format=kind, partition_by=by).rows)
            except AssetJobError as error:
                return str(error)

        for name, query in FRAMES.items():
            frame = spark.sql(query)
            by = [BY[name]] if name in BY else [each for each in frame.columns if each == "p"]
            said[name] = {kind: append(frame, name, kind, by) for kind in KINDS.get(name, FORMATS)}
        moments = spark.createDataFrame([(each,) for each in MOMENTS], "id long")
        moments = moments.select(
            "id",
            sql.lit(-0.0).alias("zero"),
            sql.timestamp_micros("id").alias("v"),
            sql.timestamp_micros("id").cast("date").alias("d"),
        )
        settings = {"outputTimestampType": "INT96", "datetimeRebaseModeInWrite": "LEGACY"}
        for setting, value in settings.items():
            spark.conf.set(f"spark.sql.parquet.{setting}", value)
        append(moments, "moments", "parquet", [])
        said["settings"] = {each: spark.conf.get(f"spark.sql.parquet.{each}") for each in settings}
        read = spark.read.parquet(f"{folder}/parquet/moments")
        said["by Spark"] = {
            each: sorted(row.id for row in read.where(f"v = timestamp_micros({each})").select("id").collect())
            for each in MOMENTS
        }
        said["zeros"] = read.where("zero = 0.0D").count()
    answers.write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
