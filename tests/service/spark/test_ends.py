"""Ends of real Spark jobs that need a JVM of their own, each told in a sentence; a program's own end is in test_spark_submit.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.submitters import ended, log_of
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = pytest.mark.spark

SPARK = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"


@pytest.mark.parametrize(
    ("program", "spark", "sentence", "line"),
    [
        (
            SPARK + "spark.range(1).selectExpr('sequence(1, 100000000) x').collect()",
            {},
            "the driver ran out of memory (Java heap space): raise the job's driver_memory",
            "OutOfMemoryError",
        ),
        (SPARK, {"master": "sprak://nowhere"}, "Spark knows no such master: correct the job's spark.master", "Master"),
        (SPARK, {"driver_memory": "100m"}, "the driver's heap is too small for Spark", "System memory"),
    ],
)
async def test_the_end_is_told_with_its_line(
    new_try: Callable[..., Submission], tmp_path: Path, program: str, spark: dict[str, Any], sentence: str, line: str
) -> None:
    submitter = spark_submit(tmp_path)
    handle = await submitter.submit(new_try(program, **spark))
    status = await ended(submitter, handle)
    assert status.exit_code != 0
    assert status.reason.startswith(sentence), status.reason
    number = int(status.reason.rpartition("log line ")[2].removesuffix(")"))
    assert line in (await log_of(submitter, handle)).split("\n")[number - 1]
