"""Jobs on a real standalone cluster: what every submitter owes, and that a cluster keeps nothing of a job that ended."""

from __future__ import annotations

import os
import signal
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

from tests.contract.submitters import SubmitterContract, ended, log_of
from tests.service.spark.cluster import Cluster, wait_until
from tests.unit.submit.plain import workspace
from tests.unit.submit.switchboard import Switchboard
from tests.unit.submit.warm import starts_warm
from watcher.submit.base import Submission
from watcher.submit.command import SMALL
from watcher.submit.folder import TryFolder
from watcher.submit.processes import kill_tagged
from watcher.submit.shimmed import Command
from watcher.submit.spark_submit import SparkSubmit

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NewTry = Callable[..., Submission]
MASTER = "WATCHER_TEST_SPARK_MASTER"
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task starts before both executors are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.executor.extraJavaOptions": " ".join(SMALL),
    "spark.driver.host": "127.0.0.1",
}
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
tasks = spark.sparkContext.parallelize([0, 1], 2)
"""


class OnCluster(SparkSubmit):
    """Whatever is submitted runs on the cluster that the environment names, in this process and in one to be killed."""

    def command(self, submission: Submission, folder: TryFolder) -> Command:
        application = submission.application
        there = replace(
            application,
            master=os.environ[MASTER],
            conf={**CONF, **application.conf},
            env={"SPARK_LOCAL_IP": "127.0.0.1", **application.env},
        )
        return super().command(replace(submission, application=there), folder)


def on_cluster(home: Path) -> OnCluster:
    return OnCluster(workspace(home))


@pytest.fixture
def new_try(new_try: NewTry, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewTry]:
    """Every job that does anything has executors before; the cluster is idle again after the test."""
    monkeypatch.setenv(MASTER, cluster.master)

    def make(text: str, **more: Any) -> Submission:
        return new_try(text and f"{SESSION}assert tasks.sum() == 1\n{text}", **more)

    yield make
    wait_until(cluster.is_idle)


class TestOnCluster(SubmitterContract):
    factory = "tests.service.spark.test_cluster:on_cluster"


LOOKING = """
import time

def look(_):
    time.sleep(1)  # long enough for both executors to take one
    return os.environ.get("OWN"), os.getppid()

found = tasks.map(look).collect()
print("own:", [own for own, _ in found], "executors:", len({executor for _, executor in found}), flush=True)
port = sys.argv[1]
tasks.foreach(lambda number: call(port, f"task{number}"))
tasks.foreach(lambda number: call(port, f"later{number}"))
"""
KILLING = """
def kill_executor(_):
    daemon = open(f"/proc/{os.getppid()}/stat").read()
    os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)

tasks.foreach(kill_executor)
"""


async def test_executors_run_the_jobs_own_python_and_one_that_is_killed_costs_a_task_and_none_outlives_the_job(
    new_try: NewTry, switchboard: Switchboard, cluster: Cluster, tmp_path: Path
) -> None:
    """None outlives a job that is cancelled or fails either: `new_try` looks after each test of the contract."""
    python = tmp_path / "own-python"  # a name that tells, for the interpreter that has pyspark
    python.write_text(f'#!/bin/sh\nOWN=yes exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    submitter, submission = on_cluster(tmp_path), new_try(LOOKING, python=str(python))
    handle = await submitter.submit(submission)
    first, second = await run_sync(switchboard.callers, "task0", "task1")
    assert "own: ['yes', 'yes'] executors: 2" in (await log_of(submitter, handle)).splitlines()

    os.kill(cluster.executor_of(first.process), signal.SIGKILL)
    again = await run_sync(switchboard.next_caller)
    assert again.name == "task0"
    again.let_go()
    second.let_go()
    await run_sync(switchboard.callers, "later0", "later1")  # the job went on
    assert len(cluster.executors()) == 2

    await run_sync(kill_tagged, submission.tag)
    await run_sync(wait_until, cluster.is_idle)
    assert (await submitter.poll(handle)).phase == "exited"


async def test_executors_that_die_again_and_again_are_told_in_a_sentence(new_try: NewTry, tmp_path: Path) -> None:
    submitter = on_cluster(tmp_path)
    handle = await submitter.submit(new_try(KILLING, conf={"spark.task.maxFailures": "1"}))
    status = await ended(submitter, handle)
    assert status.exit_code == 1
    assert status.reason.startswith("Spark lost executor"), status.reason


async def test_a_warm_driver_has_its_executors_before_its_try_and_gives_them_back(
    new_try: NewTry, cluster: Cluster, tmp_path: Path
) -> None:
    there = {"master": cluster.master, "conf": CONF, "env": {"SPARK_LOCAL_IP": "127.0.0.1"}}
    submitter = starts_warm(tmp_path / "home")
    waiting = await run_sync(submitter.ready_driver, new_try("", **there))
    assert len(cluster.state()["activeapps"]) == 1
    await run_sync(waiting.end)
    await run_sync(wait_until, cluster.is_idle)
    handle = await submitter.submit(new_try(f"{SESSION}print('SUM', tasks.sum())", **there))
    assert handle["start"] == "warm"
    assert (await ended(submitter, handle)).exit_code == 0
    assert "SUM 1" in await log_of(submitter, handle)


WITH_FILES = """
def look(_):
    return open("lookup.csv").read(), os.environ.get("OWN"), os.path.exists("environment/bin/python")

print("found:", *set(tasks.map(look).collect()), "driver:", os.environ.get("OWN"))
"""


async def test_executors_have_the_jobs_files_and_its_packed_environment_and_an_event_log_is_kept(
    new_try: NewTry, tmp_path: Path
) -> None:
    python, lookup, packed = tmp_path / "python", tmp_path / "lookup.csv", tmp_path / "environment.tar.gz"
    python.write_text(f'#!/bin/sh\nOWN=yes exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    lookup.write_text("1,one")
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(python, "bin/python")
    submitter = OnCluster(replace(workspace(tmp_path), event_logs=True))
    submission = new_try(
        WITH_FILES,
        files=(str(lookup),),
        archives=(f"{packed}#environment",),
        conf={"spark.pyspark.python": "./environment/bin/python"},
    )
    handle = await submitter.submit(submission)
    status, log = await ended(submitter, handle), await log_of(submitter, handle)
    assert status.exit_code == 0, log
    assert "found: ('1,one', 'yes', True) driver: None" in log.splitlines()
    [event_log] = (tmp_path / "logs" / "spark-events").iterdir()
    assert event_log.name.startswith("app-")
