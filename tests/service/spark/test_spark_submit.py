from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from tests.contract.submitters import ended, log_of
from tests.effort import PATIENCE
from tests.unit.submit.plain import spark_submit
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Submission
from watcher.submit.spark.command import JAVA_OPTIONS
from watcher.submit.spark.runtime import linked_spark, spark_home_of

pytestmark = pytest.mark.spark

JOB = """
import os, re
import pyspark
from pyspark.sql import SparkSession
spark, port = SparkSession.builder.getOrCreate(), sys.argv[1]

def work(number):
    if number:
        call(port, f"task{number}")
    import pyspark
    return pyspark.__file__

found = spark.sparkContext.parallelize([0, 1, 2], 3).map(work).collect()
print(spark.range(10).count(), *{*found, pyspark.__file__})
maps = re.split(r"\\n(?=[0-9a-f]+-)", open(f"/proc/{os.getppid()}/smaps").read())
def megabytes(what):
    return sum(int(re.search(rf"{what}: +(\\d+)", each)[1]) for each in maps if ".jsa" in each) // 1024
print("of the archives:", megabytes("Rss"), megabytes("Private_Dirty"))
spark.range(3).select("amount")
"""


async def test_a_job_starts_from_the_archive_and_compiled_python_and_reports_progress_and_its_end(
    new_try: Callable[..., Submission], switchboard: Switchboard, tmp_path: Path
) -> None:
    submitter, began = spark_submit(tmp_path), datetime.now(UTC)
    loaded = tmp_path / "loaded.txt"
    hadoop = tmp_path / "hadoop"  # a job's own folders on the class path come after the jars
    hadoop.mkdir()
    (hadoop / "core-site.xml").write_text("<configuration/>")
    handle = await submitter.submit(
        new_try(JOB, conf={JAVA_OPTIONS: f"-Xlog:class+load=info:file={loaded}"}, env={"HADOOP_CONF_DIR": str(hadoop)})
    )
    first = await anyio.to_thread.run_sync(switchboard.next_caller)
    with anyio.fail_after(PATIENCE):
        while (progress := await submitter.progress(handle)) is None or progress.tasks_done < 1:
            await anyio.sleep(0.1)
    assert (progress.application_id or "").startswith("local-")
    assert (progress.stages, progress.tasks, progress.tasks_done) == (1, 3, 1)
    assert progress.first_action_at is not None
    assert began < progress.first_action_at < datetime.now(UTC)
    first.release()
    (await anyio.to_thread.run_sync(switchboard.next_caller)).release()
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert (status.exit_code, await submitter.progress(handle)) == (1, None), log
    assert status.reason.startswith("AnalysisException: [UNRESOLVED_COLUMN"), status.reason
    number = int(status.reason.rpartition("log line ")[2].removesuffix(")"))
    assert "`amount`" in log.split("\n")[number - 1]
    assert status.cpu_seconds is not None
    assert status.cpu_seconds > 1
    assert (status.peak_memory_mb or 0) > 100
    assert "Successfully started service" not in log
    spark = linked_spark(tmp_path, spark_home_of(submitter.workspace.python))
    assert f"10 {spark}/python/lib/pyspark.zip/pyspark/__init__.py" in log.splitlines(), "not the installed package"
    assert (spark / "python" / "lib" / "pyspark.zip").is_dir()
    lines = loaded.read_text().splitlines()
    archived = sum(line.endswith("source: shared objects file (top)") for line in lines)
    from_jars = sum("/jars/spark-" in line for line in lines)  # the UI's REST brings classes of others
    assert archived > 1000
    assert from_jars < archived / 10
    [sizes] = (line.split()[-2:] for line in log.splitlines() if line.startswith("of the archives:"))
    in_memory, of_its_own = map(int, sizes)
    assert of_its_own < in_memory / 2, "the rest is the file's, which all JVMs share"
