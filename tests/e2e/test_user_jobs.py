"""Jobs and files like those of users, with the real daemon and real Spark. Each run ends with its sentence or its rows.

tests/service/spark/test_ingest_cases.py tests which files `builtin:ingest` takes, rejects or refuses, case by case in one
Spark application. Here are the cases that each need a driver of their own.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from pyarrow import dataset
from ruamel.yaml import YAML

from tests.effort import LONG, PATIENCE, effort
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
RUN = "from asset_job import run\nfrom pyspark.sql.functions import udf\n\nwith run() as r:\n    "
ENDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "heap_used_up": (
        SPARK + "spark.range(1).selectExpr('sequence(1, 100000000) x').collect()",
        {},
        "the driver ran out of memory (Java heap space): raise the job's driver_memory, or collect less data in the driver (",
    ),
    "heap_too_small": (
        SPARK,
        {"driver_memory": "64m"},
        "the driver's heap is too small for Spark: raise the job's driver_memory; the default is 512m (log line ",
    ),
    "no_such_master": (
        SPARK,
        {"master": "sprak://nowhere"},
        "Spark knows no such master: correct the job's spark.master (local[*], spark://host:7077, yarn, ",
    ),
    "broken_function": (
        RUN + "r.spark.range(3).select(udf(lambda number: 1 // number)('id')).collect()",
        {},
        "ZeroDivisionError: integer division or modulo by zero (broken_function.py line 5; log line ",
    ),
    "wrong_path": (
        RUN + "r.spark.read.json('/data/landing/monday').count()",
        {},
        "AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/data/landing/monday.",
    ),
}
"""Jobs: the program, more keys of the `spark` section, and the beginning of the run's reason."""
IN_SPARK = {"broken_function", "wrong_path"}
"""The short form leaves these to unit/sdk/test_what_is_new.py and service/spark/test_spark_submit.py."""
TRIED = ENDS if LONG else {name: end for name, end in ENDS.items() if name not in IN_SPARK}
STREAM = (
    SPARK
    + """\
new = spark.readStream.schema("id long").json(sys.argv[1])
query = new.writeStream.format("parquet").option("checkpointLocation", sys.argv[2]).trigger(availableNow=True)
query.start(sys.argv[3]).awaitTermination()
"""
)
SMALL_FILES = effort(200, 2000)
LARGE_LINE = '%09d,"as ordered by telephone, to be paid on delivery, without a hurry, by whoever opens the door"\n'


def configuration(folder: Path, port: int) -> Path:
    jobs = {name: {"spark": {"application": f"{name}.py", **more}} for name, (_, more, _) in TRIED.items()}
    for name, (program, _, _) in TRIED.items():
        (folder / f"{name}.py").write_text(program)
    (folder / "stream.py").write_text(f"import sys\n{STREAM}")
    places = [str(folder / name) for name in ("landing", "checkpoint", "streamed")]
    jobs["stream"] = {"outlets": ["streamed"], "spark": {"application": "stream.py", "args": places}}
    ingest = {"application": "builtin:ingest", "master": "local[1]"}
    jobs["small"] = {"schedule": "inbox", "outlets": ["orders"], "batch": {"debounce": "3s"}, "spark": ingest}
    names = {"inbox": "inbox", "orders": "orders", "streamed": "streamed"}
    assets: dict[str, Any] = {name: {"uri": (folder / place).as_uri()} for name, place in names.items()}
    watcher = {"trigger": "file.new_files", "match": "*.csv", "interval": "1s", "min_age": "0s", "start": "all"}
    assets["inbox"]["watchers"] = {"inbox_files": watcher}
    settings = {"home": "home", "api": {"port": port, "auth": "none"}, "scheduler": {"parallelism": 2}}
    file = folder / "watchers.yaml"
    with file.open("w") as text:
        YAML().dump({"version": 1, "settings": settings, "assets": assets, "jobs": jobs}, text)
    return file


def fill_inbox(folder: Path) -> None:
    """Write many small files, one of them without a line, with byte order marks and names that are not ASCII."""
    (folder / "inbox").mkdir()
    (folder / "inbox" / "empty.csv").touch()
    for number in range(SMALL_FILES):
        (folder / "inbox" / f"{number}.csv").write_text(f"\ufeffid,größe\n{number},ü {number}\n", encoding="utf-8")
    (folder / "landing").mkdir()
    for number in range(3):
        (folder / "landing" / f"{number}.json").write_text(f'{{"id": {number}}}\n')


async def ended(client: httpx.AsyncClient, job: str, patience: float = PATIENCE) -> dict[str, Any]:
    """Wait until the job's only run has ended, and return it."""
    with anyio.fail_after(patience):
        while True:
            runs = (await get(client, f"/api/v2/dags/{job}/dagRuns"))["dag_runs"]
            if runs and runs[0]["state"] in {"success", "failed"}:
                [only] = runs
                return dict(only)
            await anyio.sleep(0.2)


async def test_each_job_ends_with_its_sentence_or_its_rows(tmp_path: Path) -> None:
    fill_inbox(tmp_path)
    port = free_port()
    file = configuration(tmp_path, port)
    async with (
        running_daemon(file, f"http://127.0.0.1:{port}", os.environ) as daemon,
        httpx.AsyncClient(base_url=daemon.url, timeout=60) as client,
    ):
        for job in [*TRIED, "stream"]:
            answer = await client.post(f"/api/v2/dags/{job}/dagRuns", json={"logical_date": None})
            answer.raise_for_status()
        for job, (_, _, sentence) in TRIED.items():
            run = await ended(client, job)
            assert (run["state"], run["reason"][: len(sentence)]) == ("failed", sentence), job
        streamed, small = await ended(client, "stream"), await ended(client, "small")
        events = (await get(client, "/api/v2/assets/events"))["asset_events"]
        assert await daemon.stop() == 0

    assert streamed["state"] == "success", streamed
    assert streamed["warning"].startswith("the job never used the SDK: its exit code 0 is all that is known")
    assert sorted(rows(tmp_path / "streamed")["id"]) == [0, 1, 2]
    assert small["state"] == "success", small
    loaded = rows(tmp_path / "orders")
    assert Counter(loaded["id"]) == Counter(range(SMALL_FILES))
    assert loaded["größe"][loaded["id"].index(7)] == "ü 7"
    extras = {event["source_dag_id"]: event["extra"] for event in events if event["source_dag_id"]}
    assert extras["stream"] == {}
    assert (extras["small"]["row_count"], extras["small"]["bad_records"]) == (SMALL_FILES, 0)


def rows(folder: Path) -> dict[str, list[Any]]:
    paths = [path for path in folder.rglob("*.parquet") if "_staging" not in path.parts]
    return dict(dataset.dataset(paths).to_table().to_pydict())


@pytest.mark.skipif(not LONG, reason="WATCHER_TEST_LONG")
async def test_a_gigabyte_of_csv_is_loaded_within_a_gigabyte_of_memory(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "landing").mkdir()
    count = (1 << 30) // len(LARGE_LINE % 0) + 1
    with (tmp_path / "inbox" / "large.csv.part").open("w") as large:
        large.write("id,note\n")
        for first in range(0, count, 100_000):
            large.writelines(LARGE_LINE % number for number in range(first, min(first + 100_000, count)))
    (tmp_path / "inbox" / "large.csv.part").rename(tmp_path / "inbox" / "large.csv")
    port = free_port()
    file = configuration(tmp_path, port)
    async with (
        running_daemon(file, f"http://127.0.0.1:{port}", os.environ) as daemon,
        httpx.AsyncClient(base_url=daemon.url, timeout=60) as client,
    ):
        run = await ended(client, "small", 6 * PATIENCE)
        of_run = f"/api/v2/dags/small/dagRuns/{run['dag_run_id']}/taskInstances"
        with anyio.fail_after(
            PATIENCE
        ):  # the job has reported its success; what its processes took is known when they have ended
            while (task := (await get(client, of_run))["task_instances"][0])["exit_code"] is None:
                await anyio.sleep(0.2)
        assert await daemon.stop() == 0
    assert run["state"] == "success", run
    assert dataset.dataset([*(tmp_path / "orders").rglob("run=*/*.parquet")]).count_rows() == count
    assert task["cost"]["peak_memory_mb"] < 1024, task["cost"]
