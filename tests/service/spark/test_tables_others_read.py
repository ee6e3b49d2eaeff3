"""Delta and Iceberg tables written by real Spark: `r.append` and `builtin:ingest` over several tries, in folders and on S3.

Read back by `deltalake`, `pyiceberg` and DuckDB. What a commit owes in all cases is in tests/contract/test_tables.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.submitters import ended, log_of
from tests.contract.tables import Delta, Iceberg, Kind, delta_in, delta_on, iceberg_on
from tests.servers import S3Server
from tests.unit.sdk.execution_server import event, running_execution_server, supersede_when_asked
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.slow]

JOB = """
import json, pathlib, time
from pyspark.sql import functions as sql
from asset_job import run
from asset_job.errors import describe
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.job import Ingest
from asset_job.ingest.plan import IngestJobOptions

found = []

with run() as r:
    def as_try(run_id, number):
        r.run_id, r.try_number = run_id, number
        r.appended_to.clear()
        r.task_store.clear()

    def rows(first, last):
        frame = r.spark.range(first, last, 1, 3).withColumn("ts", sql.timestamp_micros(sql.col("id") * 1_500_000))
        day = sql.when(sql.col("id") % 3 > 0, sql.date_add(sql.lit("2026-11-20").cast("date"), sql.col("id").cast("int") % 3))
        return frame.withColumn("Day", day).withColumn("tags", sql.array(sql.lit("a"), sql.lit(None).cast("string")))

    def append(run_id, number, target, frame, **more):
        target, words = target
        as_try(run_id, number)
        try:
            out = r.append(frame, target, **words, **more)
            found.append([out.rows, str(out.max("ts")), out.max("id")])
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    def ingest(run_id, number, files, options):
        as_try(run_id, number)
        event = {**EVENT, "extra": {"files": files}}
        r.triggering_asset_events = TriggeringAssetEvents({"landing": [event]})
        try:
            Ingest(run=r, options=IngestJobOptions.from_json(options)).execute()
            found.append(r.outlet_events["orders"].extra)
        except Exception as error:
            found.append(describe(error))

    for target in TARGETS:
        append("a:1", 1, target, rows(0, 10), partition_by="day")
        append("a:2", 1, target, rows(100, 102), partition_by=["day"])
        append("a:1", 2, target, rows(0, 4).where("raise_error('of a task') is null"), partition_by="day")
        append("a:1", 3, target, rows(0, 4), partition_by="day")
        append("a:2", 2, target, rows(0, 0), partition_by="day")
        append("a:1", 2, target, rows(50, 60), partition_by="day")
        wider = rows(200, 201).withColumn("colour", sql.lit("red"))
        append("a:3", 1, target, wider, partition_by="day")
        append("a:3", 1, target, wider, partition_by="day", schema_evolution="add_columns")
    append("a:1", 1, [PARQUET, {"format": "delta"}], rows(0, 1))
    for number, (run_id, files, options) in enumerate(INGESTIONS, start=1):
        ingest(run_id, number, files, options)
    append("a:4", 1, ["orders", {}], rows(0, 1))
    folder, ask = pathlib.Path(RESULT).parent, r.check_not_superseded
    (folder / "superseded?").touch()
    while not (folder / "superseded").exists():
        time.sleep(0.05)
    for target in TARGETS:
        append("a:5", 1, target, rows(300, 303), partition_by="day")
        asked = iter([lambda: None, ask])  # superseded while it wrote
        r.check_not_superseded = lambda: next(asked)()
        append("a:5", 1, target, rows(300, 303), partition_by="day")
        r.check_not_superseded = ask
    pathlib.Path(RESULT).write_text(json.dumps(found))
"""


def day(number: int) -> str | None:
    return f"2026-11-{20 + number % 3}" if number % 3 else None


async def test_each_row_is_in_its_table_once_and_every_column_is_read_back(
    s3_server: S3Server, bucket: str, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    ice_tables = iceberg_on(s3_server, bucket, tmp_path)
    tables: list[Kind] = [delta_on(s3_server, bucket), ice_tables]
    loaded = delta_in(str(tmp_path / "a b" / "loaded"))
    files = files_to_load(tmp_path)
    lake = {
        "type": "s3",
        "endpoint_url": s3_server.endpoint,
        "region": s3_server.region,
        "access_key_id": s3_server.access_key,
        "secret_access_key": s3_server.secret_key,
    }
    ice = {
        "type": "iceberg",
        "catalog": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{bucket}/warehouse",
        "storage": "lake",
    }
    (tmp_path / "parquet" / "run=x").mkdir(parents=True)
    options = {"format": "delta", "schema": "id long, amount double", "dedupe_key": "id"}
    evolving = {**options, "schema_evolution": "add_columns"}
    into_iceberg = {**options, "format": "iceberg", "target": "shop.loaded", "bad_records": str(tmp_path / "ice_bad")}
    words = {
        "TARGETS": [
            [f"s3://{bucket}/tables/orders", {"format": "delta"}],
            ["shop.orders", {"format": "iceberg", "connection": "ice"}],
        ],
        "PARQUET": str(tmp_path / "parquet"),
        "EVENT": event(1, "landing", "2026-11-20T09:00:00Z"),
        "INGESTIONS": [
            ["i:1", [files["old.json"], files["bad.json"]], options],
            ["i:2", [files["new.json"]], options],
            ["i:2", [files["new.json"]], evolving],
            ["i:3", [files["new.csv"], files["old.csv.json"]], evolving],
            ["i:3", [files["new.csv"]], evolving],
            ["i:4", [files["old.json"], files["changed.json"]], evolving],
            ["i:1", [files["old.json"], files["bad.json"]], into_iceberg],
            ["i:1", [files["new.json"]], into_iceberg],
        ],
        "RESULT": str(tmp_path / "result.json"),
    }
    with running_execution_server() as daemon:
        daemon.claim = {"outlets": [{"name": "orders", "uri": (tmp_path / "a b" / "loaded").as_uri()}]}
        submitter = spark_submit(tmp_path)
        text = "\n".join(f"{name} = {value!r}" for name, value in words.items())
        handle = await submitter.submit(
            new_try(f"{text}\n{JOB}", context=daemon.context(connections={"lake": lake, "ice": ice}))
        )
        await supersede_when_asked(daemon, tmp_path)
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        assert status.exit_code == 0, log
        message = daemon.finished[-1]["message"]
    found = json.loads((tmp_path / "result.json").read_text())
    for at, table in enumerate(tables):
        check_appended(found[at * 8 : at * 8 + 8], table)
    assert found[16].startswith(f"TargetFailed: {tmp_path}/parquet holds a table of the format parquet, and delta is")
    check_ingested(found[17:23], loaded, tmp_path / "a b")
    assert f"{loaded.location} got the new column colour" in message
    check_loaded_into_iceberg(found[23:25], ice_tables, tmp_path)
    assert found[25].startswith(
        f"TargetFailed: {tmp_path}/a b/loaded holds a table of the format delta, and parquet is"
    )
    assert found[26:] == ["Fenced: The try is superseded."] * 4


def check_appended(said: list[Any], table: Kind) -> None:
    assert said[0] == [10, "1970-01-01 00:00:13.500000+00:00", 9]
    assert said[1] == [2, "1970-01-01 00:02:31.500000+00:00", 101]
    assert "of a task" in said[2]
    assert said[3][0] == 4
    assert said[4] == [0, "None", None]
    assert said[5].startswith("Fenced: try 3 of this run has written the table already")
    assert "has no column colour: drop it from the frame" in said[6]
    assert said[7][0] == 1
    for rows in (table.by_library(), table.by_duckdb()):
        seen = sorted(rows.to_pylist(), key=lambda row: row["id"])
        assert [row["id"] for row in seen] == [0, 1, 2, 3, 200]
        assert [str(row["Day"]) for row in seen] == [str(day(row["id"])) for row in seen]
        assert [row["ts"].timestamp() for row in seen] == [row["id"] * 1.5 for row in seen]
        assert [row["tags"] for row in seen] == [["a", None]] * 5
        assert [row["run"] for row in seen] == ["a:1"] * 4 + ["a:3"]
        assert [row["colour"] for row in seen] == [None] * 4 + ["red"]
    assert max(table.smallest_ids()) == 200


def check_loaded_into_iceberg(said: list[Any], catalog: Iceberg, folder: Path) -> None:
    assert [each["row_count"] for each in said] == [2, 2]
    rows = catalog.catalog().load_table(("shop", "loaded")).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["run"]) for row in rows) == [(1, "i:1"), (3, "i:1")]
    assert not list((folder / "ice_bad").glob("run=*"))


def files_to_load(folder: Path) -> dict[str, dict[str, Any]]:
    contents = {
        "old.json": '{"id": 1, "amount": 1}\n{"id": 2, "amount": 2, "colour": "green"}\n',
        "bad.json": '{"id": "x"}\n',
        "new.json": '{"id": 3, "amount": 3, "colour": "red"}\n{"id": 1, "amount": 9}\n',
        "new.csv": "amount,id,size\n4.5,4,7\n",
        "old.csv.json": '{"id": 5}\n',
        "changed.json": '{"id": 6, "amount": "many"}\n{"id": 7, "amount": 7, "colour": "blue"}\n',
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
    return {name: {"path": str(folder / name), "size": len(content)} for name, content in contents.items()}


def check_ingested(said: list[Any], table: Delta, folder: Path) -> None:
    counts = [{name: each[name] for name in ("row_count", "bad_records", "duplicates")} for each in said]
    assert counts == [
        {"row_count": 2, "bad_records": 1, "duplicates": 0},
        {"row_count": 1, "bad_records": 0, "duplicates": 1},
        {"row_count": 1, "bad_records": 0, "duplicates": 1},
        {"row_count": 2, "bad_records": 0, "duplicates": 0},
        {"row_count": 1, "bad_records": 0, "duplicates": 0},
        {"row_count": 1, "bad_records": 1, "duplicates": 2},
    ]
    for rows in (table.by_library(), table.by_duckdb()):
        seen = sorted(rows.to_pylist(), key=lambda row: row["id"])
        assert [(row["id"], row["amount"], row["colour"], row["size"]) for row in seen] == [
            (1, 1.0, None, None),
            (2, 2.0, None, None),
            (3, 3.0, "red", None),
            (4, 4.5, None, 7),
            (7, 7.0, "blue", None),
        ]
    assert sorted(path.name for path in (folder / "loaded_bad").glob("run=*")) == ["run=i.1", "run=i.4"]
