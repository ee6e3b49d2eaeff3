"""The class archive that a real JVM made is one that jobs really use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.submitters import ended, log_of
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission
from watcher.submit.command import JAVA_OPTIONS

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import SparkSession
print(SparkSession.builder.getOrCreate().range(10).count())
"""


async def test_a_job_takes_its_classes_from_the_archive(new_try: Callable[..., Submission], tmp_path: Path) -> None:
    submitter = spark_submit(tmp_path)
    loaded = tmp_path / "loaded.txt"
    hadoop = tmp_path / "hadoop"  # a job's own folders on the class path come after the jars
    hadoop.mkdir()
    (hadoop / "core-site.xml").write_text("<configuration/>")
    handle = await submitter.submit(
        new_try(JOB, conf={JAVA_OPTIONS: f"-Xlog:class+load=info:file={loaded}"}, env={"HADOOP_CONF_DIR": str(hadoop)})
    )
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert (status.exit_code, log.splitlines()[-1]) == (0, "10"), log
    lines = loaded.read_text().splitlines()
    archived = sum(line.endswith("source: shared objects file (top)") for line in lines)
    from_jars = sum("/jars/" in line for line in lines)
    assert archived > 1000
    assert from_jars < archived / 10
