from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.effort import PATIENCE
from tests.service.spark.submitter_contract import SubmitterContract, ended, log_of
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Progress, TaskTry
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.spark


def spark_submit(home: Path) -> SparkSubmit:
    return SparkSubmit(home=home, python=sys.executable, environment=os.environ)


class TestSparkSubmit(SubmitterContract):
    factory = "tests.service.spark.test_spark_submit:spark_submit"
    make = spark_submit


async def test_spark_itself_says_how_far_a_job_without_the_sdk_is(
    new_try: Callable[..., TaskTry], switchboard: Switchboard, tmp_path: Path
) -> None:
    submitter = spark_submit(tmp_path)
    handle = await submitter.submit(
        new_try(
            """
from pyspark.sql import SparkSession
spark, port = SparkSession.builder.getOrCreate(), sys.argv[1]
spark.sparkContext.parallelize([0, 1, 2], 3).foreach(lambda number: number and call(port, f"task{number}"))
"""
        )
    )
    first = await anyio.to_thread.run_sync(switchboard.next_caller)
    with anyio.fail_after(PATIENCE):
        while (progress := await submitter.progress(handle)) != Progress(stages=1, tasks=3, tasks_done=1):
            assert progress is None or progress.tasks_done <= 1
            await anyio.sleep(0.1)
    first.let_go()
    (await anyio.to_thread.run_sync(switchboard.next_caller)).let_go()
    status = await ended(submitter, handle)
    assert (status.exit_code, await submitter.progress(handle)) == (0, None)
    assert "Successfully started service" not in await log_of(submitter, handle)
