"""Delta and Iceberg through jars: the newest runtimes of both resolve and run with the pinned PySpark, and Spark reads our Delta tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.contract.submitters import ended, log_of
from tests.contract.tables import append, delta_in
from tests.service.spark.connectors import skip_without_maven
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.maven, pytest.mark.slow]

RUNTIMES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
JOB = """
import json, pathlib
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(5).write.format("delta").save(f"{FOLDER}/delta")
spark.range(6).writeTo("ice.shop.orders").using("iceberg").create()
spark.sql("INSERT INTO ice.shop.orders VALUES (7)")
tables = {
    "delta": spark.read.format("delta").load(f"{FOLDER}/delta").count(),
    "iceberg": spark.table("ice.shop.orders").count(),
    "ours": sorted(map(list, spark.read.format("delta").load(f"{FOLDER}/ours").select("id", "day", "run").collect())),
}
pathlib.Path(f"{FOLDER}/result.json").write_text(json.dumps(tables))
"""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([f"d{n}" for n in ids])})


async def test_the_newest_runtimes_run_and_read_what_was_appended_without_them(
    new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    ours = delta_in(str(tmp_path / "ours"))
    append(ours.table("manual__1", 1), rows(1, 2), ["day"])
    append(ours.table("manual__1", 2), rows(2, 3), ["day"])
    submitter = spark_submit(tmp_path)
    conf = {
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(tmp_path / "ice"),
    }
    handle = await submitter.submit(new_try(f"FOLDER = {str(tmp_path)!r}\n{JOB}", packages=RUNTIMES, conf=conf))
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    skip_without_maven(log)
    assert status.exit_code == 0, log
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "delta": 5,
        "iceberg": 7,
        "ours": [[2, "d2", "manual__1"], [3, "d3", "manual__1"]],
    }
