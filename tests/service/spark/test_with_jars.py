"""A job that brings jars along: Spark's own readers read where they are asked for, and the newest table formats run.

With hadoop-aws and PostgreSQL's driver `reader="spark"` reads; without it, and in `builtin:ingest`, jars change nothing. The newest runtimes of Delta
and Iceberg resolve with the pinned PySpark, and Spark reads our Delta tables. One application has them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.submitters import ended, log_of
from tests.contract.tables import append, delta_in
from tests.servers import PostgresDatabase, S3Server
from tests.service.spark.ingestions import (
    COUNTS,
    INGEST,
    SCHEMA,
    Landing,
    cases_of,
    check,
    counts_of,
    make_tables,
    of_files,
)
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.maven, pytest.mark.slow]

JARS = (
    "org.apache.hadoop:hadoop-aws:3.4.2",  # of the Hadoop that Spark brings
    "org.postgresql:postgresql:42.7.7",
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
PASSWORD = "a-password-to-hide"
JOB = """
import contextlib, io, json, pathlib
from asset_job import run

with run() as r:
    new, spark = r.triggering_asset_events, r.spark
    frames = {
        "json": r.read(new["json"], schema="id long, amount double", reader="spark"),
        "csv": r.read(new.files("csv"), schema="id long, amount double", reader="spark"),
        "rows": r.read(new.ranges(), schema="id long, more string", reader="spark"),
        "keys": r.read(new["keys"], schema="id long, more string"),
    }
    found = {name: sorted(list(map(str, row)) for row in frame.collect()) for name, frame in frames.items()}
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen):
        for frame in frames.values():
            frame.explain(True)
    plans = seen.getvalue()

    spark.range(5).write.format("delta").save(f"{FOLDER}/delta")
    spark.range(6).writeTo("ice.shop.orders").using("iceberg").create()
    spark.sql("INSERT INTO ice.shop.orders VALUES (7)")
    ours = spark.read.format("delta").load(f"{FOLDER}/ours").select("id", "day", "run")
    tables = {
        "delta": spark.read.format("delta").load(f"{FOLDER}/delta").count(),
        "iceberg": spark.table("ice.shop.orders").count(),
        "ours": sorted(map(list, ours.collect())),
    }

    said = ingest(r, json.loads(pathlib.Path(f"{FOLDER}/cases.json").read_text()))
    seen = {"read": found, "plans": plans, "tables": tables, "ingested": said}
    pathlib.Path(f"{FOLDER}/result.json").write_text(json.dumps(seen))
"""


def formats(folder: Path) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([f"d{n}" for n in ids])})


def read_events(landing: Landing) -> dict[str, list[dict[str, Any]]]:
    def told(name: str, **extra: Any) -> list[dict[str, Any]]:
        return [event(1, name, "2026-11-20T09:00:00Z", **extra)]

    landing.put("in/not-of-the-event.json", '{"id": 666}')
    table = {"table": "public.shop", "column": "id"}
    return {
        "json": told("json", files=[landing.put("in/ü [1] {x}.json", '{"id": 1, "amount": 2}', '{"id": 2}')]),
        "csv": told("csv", files=[landing.put("in/a.csv", "id,amount", "3,4")]),
        "rows": told("rows", ranges=[[1, 2], [5, 5], [9, 2000]], **table),
        "keys": told("keys", keys=[7], **table),
    }


async def test_with_jars_spark_reads_by_itself_what_the_events_name_and_the_newest_formats_run(
    s3_server: S3Server,
    bucket: str,
    postgres_database: PostgresDatabase,
    new_try: Callable[..., Submission],
    tmp_path: Path,
) -> None:
    make_tables(postgres_database.dsn)
    landing, ours = Landing(s3_server, bucket), delta_in(str(tmp_path / "ours"))
    append(ours.table("manual__1", 1), rows(1, 2), ["day"])
    append(ours.table("manual__1", 2), rows(2, 3), ["day"])
    not_parquet = {"input_format": "parquet", "schema": SCHEMA}
    cases = cases_of(landing, tmp_path) | {"not Parquet": ("r:7", of_files(landing.one), not_parquet)}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    shop = {"type": "postgres", "dsn": postgres_database.dsn.replace("postgres@", f"postgres:{PASSWORD}@")}
    with running_execution_server() as daemon:
        daemon.claim = {
            "triggering_asset_events": read_events(landing),
            "outlets": [{"name": "orders", "uri": (tmp_path / "orders").as_uri()}],
        }
        submitter = spark_submit(tmp_path)
        submission = new_try(
            f"FOLDER = {str(tmp_path)!r}\n{INGEST}\n{JOB}",
            context=daemon.context(connections={"lake": landing.connection(), "shop": shop}),
            packages=JARS,
            conf=formats(tmp_path),
        )
        handle = await submitter.submit(submission)
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        entries = daemon.entries
    if "unresolved dependenc" in log or "UnknownHostException" in log:
        pytest.skip("Maven is not reachable from here")
    assert status.exit_code == 0, log
    seen = json.loads((tmp_path / "result.json").read_text())
    assert seen["read"] == {
        "json": [["1", "2.0"], ["2", "None"]],
        "csv": [["3", "4.0"]],
        "rows": [["1", "x"], ["10", "x"], ["2", "x"], ["5", "x"], ["9", "x"]],
        "keys": [["7", "x"]],
    }
    assert "s3a://" in seen["plans"]
    assert "JDBCRelation" in seen["plans"]
    assert "files_" not in seen["plans"]
    assert seen["plans"].count("pgrows") > 0, "JDBC does not read keys"
    assert PASSWORD not in seen["plans"] + log
    assert seen["tables"] == {
        "delta": 5,
        "iceberg": 7,
        "ours": [[2, "d2", "manual__1"], [3, "d3", "manual__1"]],
    }
    assert counts_of(seen["ingested"]) == COUNTS
    assert "is not a Parquet file" in seen["ingested"]["not Parquet"]
    check(landing, tmp_path, entries)
