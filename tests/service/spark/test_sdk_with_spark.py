from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract.submitters import ended, log_of
from tests.pages import ROOT, run_block, shell_blocks
from tests.stand_in_spark import stand_in_spark
from tests.unit.sdk.execution_server import ExecutionServer, event, running_execution_server
from tests.unit.submit.plain import spark_submit, workspace
from watcher.submit.base import Submission
from watcher.submit.spark.command import SMALL
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.spark

ODD = 'C:\\new=x: "ü" #!'


@pytest.fixture
def daemon() -> Iterator[ExecutionServer]:
    with running_execution_server() as found:
        yield found


PAGE = "docs/writing-a-job.md"


def documented() -> tuple[str, str, str]:
    """The programs of the page: a first job, its test, and a longer job."""
    first, test, longer, *_ = re.findall(r"```python\n(.*?)```", (ROOT / PAGE).read_text(), re.DOTALL)
    return first, test, longer


async def test_the_documented_job_runs_as_documented(
    daemon: ExecutionServer, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    orders, began = tmp_path / "orders.json", datetime.now(UTC)
    orders.write_text('{"id": 1, "amount": 2.5}\n{"id": 2, "amount": 3}\n')
    daemon.claim = {
        "triggering_asset_events": {
            "inbox": [event(1, "inbox", "2026-11-20T09:00:00Z", files=[{"path": str(orders)}])]
        },
        "outlets": [{"name": "orders", "uri": f"file://{tmp_path}/data/orders"}],
    }
    looks = (
        f"print(r.spark.conf.get('spark.odd') == {ODD!r}, sorted(os.environ), os.listdir(os.environ['TMPDIR']) != [])"
    )
    environment = {**os.environ, "LAKE_SECRET": "s3cret"}
    submitter = SparkSubmit(workspace(tmp_path / "a höme %20", environment))
    submission = new_try(
        f"{documented()[2].replace('/data/', f'{tmp_path}/data/')}\n{looks}\n",
        context=daemon.context(),
        conf={"spark.odd": ODD},
        env={"STAGE": "test"},
    )
    handle = await submitter.submit(submission)
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert (status.exit_code, status.reason) == (0, ""), log
    *warnings, seen = log.splitlines()
    assert seen.startswith("True ['ASSET_JOB_CONTEXT',"), "a value of `conf` arrived as another one"
    assert "'STAGE'" in seen
    assert "LAKE_SECRET" not in seen
    assert seen.endswith("] True"), "Spark's temporary files are elsewhere"
    assert warnings == ["WARNING: Using incubator modules: jdk.incubator.vector"]
    assert not (submitter.folder(submission.key).path / "scratch").exists()

    assert daemon.finished == [
        {"state": "success", "outlet_events": [{"asset": "orders", "extra": {"row_count": 2}}], "message": ""}
    ]
    assert daemon.entries["orders", "total_rows"] == {"value": 2}
    assert daemon.entries["orders", "last_run_summary"]["value"]["rows_loaded"] == 2
    assert daemon.entries["orders", "last_file"]["value"] == str(orders)
    assert daemon.task_entries["spark_app_id"]["value"].startswith("local-")
    assert list((tmp_path / "data" / "orders").glob("run=manual__1/*.parquet"))
    assert daemon.progress[-1]["tasks"] == daemon.progress[-1]["tasks_done"] > 0
    assert began < datetime.fromisoformat(daemon.progress[-1]["first_action_at"]) < datetime.now(UTC)


async def test_a_second_driver_of_a_try_ends_before_any_spark_work(
    daemon: ExecutionServer, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    """A stand-in for Spark without a session shows that the driver ends before it needs one."""
    context, env = daemon.context(), {"SPARK_HOME": str(stand_in_spark(tmp_path))}
    daemon.claim_elsewhere()
    submitter = spark_submit(tmp_path)
    handle = await submitter.submit(
        new_try("from asset_job import run\nwith run() as r: print(r.spark)", context=context, env=env)
    )
    status = await ended(submitter, handle)
    assert (status.exit_code, status.reason) == (75, "another process had already claimed this try")
    log = await log_of(submitter, handle)
    assert "this process may not run the try: try 1 is claimed by another process" in log
    assert daemon.finished == []


@pytest.fixture
def first_job(tmp_path: Path) -> Path:
    """The folder of an author who has written the first job and its test."""
    program, test, _ = documented()
    (tmp_path / "load_orders.py").write_text(program)
    (tmp_path / "test_load_orders.py").write_text(test)
    return tmp_path


def output(folder: Path, block: str) -> str:
    """Run a shell block with the Python that has the SDK, without a daemon and without a path to the SDK."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return run_block(block, folder, {"PATH": path, "PYTHONPATH": "", "JAVA_TOOL_OPTIONS": " ".join(SMALL)})


def test_the_first_job_runs_locally_as_documented(first_job: Path) -> None:
    text = output(first_job, shell_blocks(PAGE)[1])
    assert '"row_count": 1' in text
    assert '"total_rows"' in text
    assert list((first_job / "work" / "orders").glob("run=local__1/*.parquet"))


def test_the_documented_test_of_the_first_job_passes(first_job: Path) -> None:
    assert "1 passed" in output(first_job, "python -m pytest -q -p no:cacheprovider --rootdir=.")


@pytest.mark.parametrize(
    ("key", "complete", "late"), [("2026-11-20|eu", True, False), ("2026-11-20|eu", False, True), (None, None, False)]
)
async def test_a_program_reads_the_partition_of_its_run(
    daemon: ExecutionServer,
    new_try: Callable[..., Submission],
    tmp_path: Path,
    key: str | None,
    complete: bool | None,
    late: bool,
) -> None:
    daemon.claim = {
        "asked": {"partition_key": key, "partition_complete": complete, "late": late},
        "triggering_asset_events": {
            "inbox": [{**event(1, "inbox", "2026-11-20T09:00:00Z", files=[]), "partition_key": key}]
        },
    }
    program = """
from asset_job import run

with run() as r:
    (event,) = r.triggering_asset_events["inbox"]
    rows = r.spark.range(3).count()
    print((r.partition_key, r.partition_complete, r.late, event.partition_key, rows))
"""
    submitter = SparkSubmit(workspace(tmp_path / "home", dict(os.environ)))
    handle = await submitter.submit(new_try(program, context=daemon.context()))
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert (status.exit_code, status.reason) == (0, ""), log
    assert log.splitlines()[-1] == str((key, complete, late, key, 3))
