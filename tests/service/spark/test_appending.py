"""`r.append` over several tries of one run, on a local disk and on S3, read back by readers of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from obstore.store import LocalStore, S3Store
from pyarrow import parquet

from tests.contract.submitters import ended, log_of
from tests.servers import S3Server
from tests.unit.sdk.execution_server import running_execution_server, supersede_when_asked
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import json, pathlib, time
from pyspark.sql import functions as sql
from asset_job import run

found = []
result = pathlib.Path(RESULT)

with run() as r:
    def rows(first, last):
        frame = r.spark.range(first, last, 1, 3).withColumn("ts", sql.timestamp_micros(sql.col("id") * 1_500_000))
        rest = sql.col("id") % 3
        return frame.withColumn("day", sql.when(rest > 0, sql.concat(sql.lit("d/="), rest.cast("string"))))

    def append(run_id, target, frame, **more):
        \"\"\"As a new try of that run would.\"\"\"
        r.run_id = run_id
        r.appended_to.clear()
        again(target, frame, **more)

    def again(target, frame, **more):
        try:
            out = r.append(frame, target, **more)
            found.append([out.target, out.rows, str(out.max("ts")), str(out.max("id"))])
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    for target in TARGETS:
        append("plain:1", target, rows(0, 10))
        append("plain:1", target, rows(0, 4))
        append("plain:2", target, rows(100, 101))
        append("plain:3", target, rows(100, 109))
        append("plain:3", target, rows(100, 100))
        append("parted/1", f"{target}_parted", rows(0, 10), partition_by=["day"])
        append("parted/1", f"{target}_parted", rows(1, 3), partition_by=["day"])
        append("parted/2", f"{target}_parted", rows(10, 14), partition_by="day")
        append("parted/2", f"{target}_parted", rows(10, 14).where("raise_error('of a task') is null"))
    append("manual__1", LOCAL, rows(0, 1), partition_by=["colour"])
    append("manual__1", LOCAL, rows(0, 1).withColumnRenamed("id", "RUN"))
    append("manual__1", "elsewhere", rows(0, 1))
    append("manual__1", "shop_table", rows(0, 1))
    append("manual__1", "orders", rows(0, 1))
    again("orders", rows(0, 1))
    r.dag_id = "another_job"
    append("manual__1", "orders", rows(0, 1))
    r.dag_id = "load_orders"
    late = {"ts": sql.timestamp_micros(sql.lit(253_402_300_800_000_000)), "day": sql.date_from_unix_date(sql.lit(2_932_897))}
    late["local"] = sql.lit("+10000-01-01 00:00:00").cast("timestamp_ntz")
    append("late", f"{LOCAL}_late", rows(0, 2).withColumns(late))
    seen = [sorted(row.id for row in r.spark.read.parquet(path).collect()) for path in (LOCAL, f"{LOCAL}_parted")]
    (result.parent / "superseded?").touch()
    while not (result.parent / "superseded").exists():
        time.sleep(0.05)
    ask = r.check_not_superseded
    for target in TARGETS:
        append("plain:2", target, rows(0, 50))
        asked = iter([lambda: None, ask])  # superseded while it wrote
        r.check_not_superseded = lambda: next(asked)()
        append("plain:2", target, rows(0, 50))
        r.check_not_superseded = ask
    result.write_text(json.dumps({"found": found, "seen by Spark": seen}))
"""


def table(store: Any, root: str) -> dict[str, list[int]]:
    """The ids of each run's part and, where there are some, each partition, as a reader sees them who passes over `_…`."""
    ids: dict[str, list[int]] = {}
    for path in sorted(found["path"] for page in obstore.list(store, root) for found in page):
        *folders, name = path.removeprefix(f"{root}/").split("/")
        if not any(part.startswith(("_", ".")) for part in (*folders, name)):
            content = pa.BufferReader(bytes(obstore.get(store, path).bytes()))
            ids.setdefault("/".join(folders), []).extend(parquet.ParquetFile(content).read()["id"].to_pylist())
    return {folder: sorted(found) for folder, found in ids.items()}


def left_over(store: Any, root: str) -> list[str]:
    """What an earlier try was writing, and half of what it committed, before it was killed."""
    names = ["_staging/run=plain.1/earlier/part-0.parquet", "run=plain.1/day=x/part-0.parquet"]
    for name in names:
        obstore.put(store, f"{root}/{name}", b"not even Parquet")
    return [f"{root}/{name}" for name in names]


async def test_each_run_has_one_part_which_its_last_try_wrote(
    s3_server: S3Server, bucket: str, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    local = LocalStore(tmp_path)
    keys = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key, "region": "us-east-1"}
    options: Any = {"endpoint": s3_server.endpoint, **keys}
    remote = S3Store(bucket, config=options, client_options={"allow_http": True})
    lake = {"type": "s3", "endpoint_url": s3_server.endpoint, "addressing_style": "path", **keys}
    result = tmp_path / "result.json"
    folder = tmp_path / "a b%20c" / "orders"
    targets = {"TARGETS": [str(folder), f"s3://{bucket}/tables/orders"], "LOCAL": str(folder), "RESULT": str(result)}
    stores = [(local, "a b%20c/orders"), (remote, "tables/orders")]
    for store, root in stores:
        left_over(store, root)
    with running_execution_server() as daemon:
        daemon.claim = {
            "outlets": [
                {"name": "orders", "uri": (tmp_path / "outlet").as_uri()},
                {"name": "shop_table", "uri": "postgres://shop/shop/public/orders"},
            ]
        }
        submitter = spark_submit(tmp_path)
        text = "\n".join(f"{name} = {value!r}" for name, value in targets.items())
        handle = await submitter.submit(new_try(f"{text}\n{JOB}", context=daemon.context(connections={"lake": lake})))
        await supersede_when_asked(daemon, tmp_path)
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        assert status.exit_code == 0, log

    found = json.loads(result.read_text())
    said = found["found"]
    for at, (store, root) in enumerate(stores):
        target = targets["TARGETS"][at]
        assert said[at * 9 : at * 9 + 8] == [
            [target, 10, "1970-01-01 00:00:13.500000+00:00", "9"],
            [target, 4, "1970-01-01 00:00:04.500000+00:00", "3"],
            [target, 1, "1970-01-01 00:02:30+00:00", "100"],
            [target, 9, "1970-01-01 00:02:42+00:00", "108"],
            [target, 0, "None", "None"],
            [f"{target}_parted", 10, "1970-01-01 00:00:13.500000+00:00", "9"],
            [f"{target}_parted", 2, "1970-01-01 00:00:03+00:00", "2"],
            [f"{target}_parted", 4, "1970-01-01 00:00:19.500000+00:00", "13"],
        ]
        assert "of a task" in said[at * 9 + 8]
        assert table(store, root) == {"run=plain.1": [0, 1, 2, 3], "run=plain.2": [100]}
        assert table(store, f"{root}_parted") == {
            "run=parted.1/day=d%2F%3D1": [1],
            "run=parted.1/day=d%2F%3D2": [2],
            "run=parted.2/day=__HIVE_DEFAULT_PARTITION__": [12],
            "run=parted.2/day=d%2F%3D1": [10, 13],
            "run=parted.2/day=d%2F%3D2": [11],
        }
    assert table(local, "a b%20c/orders_late") == {"run=late": [0, 1]}
    assert found["seen by Spark"] == [[0, 1, 2, 3, 100], [1, 2, 10, 11, 12, 13]]
    sentences = [
        "AssetJobError: partition_by names colour, but the columns are id, ts, day: correct partition_by",
        "AssetJobError: a column is named 'run', like the folders of the runs' parts: rename the column",
        "TargetFailed: 'elsewhere' is neither an outlet of this job nor an absolute path, a file: or an s3: URL: name one of these",
        "TargetFailed: the outlet shop_table has the uri postgres://shop/shop/public/orders, where no table can be",
        [str(tmp_path / "outlet"), 1, "1970-01-01 00:00:00+00:00", "0"],
        f"AssetJobError: {tmp_path}/outlet was appended to before, and a run has one part of a table",
        f"TargetFailed: run=manual__1 of {tmp_path}/outlet was written by the job load_orders, run manual__1: give each",
        "AssetJobError: the largest ts is outside of the years 1 to 9999, which are all that Python has: compute it with Spark",
        *["Fenced: The try is superseded."] * 4,
    ]
    for wanted, sentence in zip(sentences, said[18:], strict=True):
        assert sentence == wanted or sentence.startswith(wanted)
