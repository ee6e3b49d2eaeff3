from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.contract.submitters import ended, log_of
from tests.effort import PATIENCE
from tests.unit.submit.plain import spark_submit
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Progress, Submission

pytestmark = pytest.mark.spark


async def test_spark_itself_says_how_far_a_job_without_the_sdk_is(
    new_try: Callable[..., Submission], switchboard: Switchboard, tmp_path: Path
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
