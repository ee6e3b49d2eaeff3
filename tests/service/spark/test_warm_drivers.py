"""A try that was handed to a waiting driver meets what it would meet in one of its own, and is told what it cannot have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from tests.contract.submitters import ended, log_of
from tests.unit.submit.plain import spark_submit, workspace
from tests.unit.submit.warm import StartsWarm, starts_warm
from watcher.host.logs import event_logs
from watcher.submit.base import Submission
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.spark
NewTry = Callable[..., Submission]

CONTEXT = {"token": "secret-token", "trace_id": "0af7651916cd43dd8448eb211c80319c", "connections": {}}
ISOLATION = """
import json, multiprocessing
import helper
from pyspark import SparkConf
from pyspark.sql import SparkSession, functions

spark = SparkSession.builder.appName("my own name").config("spark.sql.shuffle.partitions", 3).getOrCreate()

class Plus:
    def __init__(self, number): self.number = number
    def __call__(self, value): return value + self.number

rows = spark.createDataFrame([(1,), (2,)], "id long").select(functions.udf(Plus(1), "long")("id")).collect()
open("mine.txt", "w").write("here")
names = ("ASSET_JOB_CONTEXT", "OWN", "PYSPARK_PYTHON", "SPARK_HOME", "ASSET_WATCHER_TRY")
import asset_job.run_context
print("SEEN", json.dumps({
    "argv": sys.argv, "name": __name__, "file": __file__, "main": sys.modules["__main__"].__name__,
    "cwd": os.getcwd(), "path": sys.path[0], "helper": helper.WHO,
    "env": sorted(set(os.environ) - {"SPARK_AUTH_SOCKET_TIMEOUT"}),
    "context": str(asset_job.run_context.context_path(sys.argv, os.environ)),
    "trace": [SparkConf().get("spark.asset_job.trace_id"), spark.conf.get("spark.asset_job.trace_id")],
    "rows": [row[0] for row in rows], "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "read": spark.read.text("mine.txt").count(), "views": len(spark.catalog.listTables()),
    "group": spark.sparkContext.getLocalProperty("spark.jobGroup.id"),
    "globals": sorted(set(globals()) - {"__annotations__", "__conditional_annotations__"}),
}))
"""


@pytest.fixture
def submitter(tmp_path: Path) -> StartsWarm:
    return starts_warm(tmp_path / "home")


@pytest.fixture
def _helper(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "helper.py").write_text("WHO = 'beside the application'\n")
    yield
    (tmp_path / "helper.py").unlink()


async def seen(submitter: SparkSubmit, submission: Submission) -> dict[str, object]:
    handle = await submitter.submit(submission)
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert status.exit_code == 0, log
    *_, line = re.findall("^SEEN (.*)$", log, re.MULTILINE)  # both tries have one log
    content: dict[str, object] = json.loads(line)
    return {name: _without(value, submission.key.task_instance_id) for name, value in content.items()}


def _without(value: object, task_instance_id: str) -> object:
    """Two tries of two applications differ in these names only."""
    text = json.dumps(value).replace(task_instance_id, "ID")
    return json.loads(re.sub(r"application_\d", "application", text))


@pytest.mark.usefixtures("_helper")
async def test_a_program_sees_what_it_would_see_in_a_cold_start(
    submitter: StartsWarm, new_try: NewTry, tmp_path: Path
) -> None:
    env = {"OWN": "value"}
    warm = new_try(ISOLATION, env=env, context=CONTEXT)
    cold = new_try(ISOLATION, env=env, context=CONTEXT)
    of_warm, of_cold = await seen(submitter, warm), await seen(spark_submit(tmp_path / "home"), cold)
    assert of_warm == of_cold
    assert of_warm["rows"] == [2, 3]
    assert (submitter.folder(warm.key).path / "work" / "mine.txt").read_text() == "here"
    assert not list((tmp_path / "home" / "warm").iterdir()), "scratch and event log end with the try"


async def test_an_unused_driver_leaves_no_event_log(new_try: NewTry, tmp_path: Path) -> None:
    """A history server would show an application that goes on for ever."""
    submitter = StartsWarm(replace(workspace(tmp_path / "home"), event_logs=True))
    driver = await run_sync(submitter.ready_driver, new_try(""))
    kept = event_logs(tmp_path / "home" / "logs")
    assert list(kept.iterdir())
    await run_sync(driver.end)
    assert not list(kept.iterdir())


PROGRESS = """
import sys, time
assert "asset_job.sources.readers" in sys.modules, "the SDK is there before the try"
from datetime import datetime
from asset_job.background import ProgressReporter, _first_action
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
before = time.time()
progress = ProgressReporter(None)
progress.count_stages(spark.sparkContext.statusTracker())
assert not progress._stages, progress._stages
assert _first_action(spark.sparkContext) == {}
spark.range(10).count()
assert datetime.fromisoformat(_first_action(spark.sparkContext)["first_action_at"]).timestamp() >= before - 0.01
progress.count_stages(spark.sparkContext.statusTracker())
print("COUNTS", progress.counts())
open("three.csv", "w").write("id\\n1\\n2\\n3\\n")
spark.read.csv("three.csv", header=True, schema="id long").write.parquet("three.parquet")
progress._add_costs(spark.sparkContext, progress.count_stages(spark.sparkContext.statusTracker()))
print("COSTS", progress._costs["rows_read"], progress._costs["rows_written"], progress._costs["bytes_written"] > 0)
"""
REFUSED = """
from pyspark import SparkContext

def refusal(work):
    try:
        work()
    except Exception as error:
        print("REFUSED", error)

refusal(lambda: SparkContext("local"))
refusal(lambda: SparkSession.builder.master("local[7]").getOrCreate())
SparkSession.builder.config("spark.executor.memory", "9g").getOrCreate()
"""


async def test_progress_counts_from_the_hand_over_and_settings_that_a_warm_driver_cannot_give_are_refused(
    submitter: StartsWarm, new_try: NewTry
) -> None:
    """The rehearsal is nobody's: not the SDK's, and not that of who asks Spark's UI."""
    handle = await submitter.submit(new_try(PROGRESS + REFUSED))
    assert handle["start"] == "warm"
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert "COUNTS {'stages': 1, 'tasks': 1" in log, log
    assert "COSTS 3 3 True" in log, log

    context, master = (line for line in log.splitlines() if line.startswith("REFUSED"))
    assert re.search("makes its own SparkContext.*`warm: 0`", context)
    assert re.search(r"asks for spark.master=local\[7\].*started with local\[1\].*`conf`", master)
    assert status.exit_code == 1
    told = re.search(
        r"asks for spark.executor.memory=9g.*no such setting.*`conf`.*`warm: 0`.*"
        r"\(application_0.py line \d+; log line (\d+)\)$",
        status.reason,
    )
    assert told is not None, status.reason
    assert "spark.executor.memory=9g" in log.split("\n")[int(told[1]) - 1]
    assert "warm_program" not in log
