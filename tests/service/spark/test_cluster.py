"""Jobs on a real standalone cluster: what it could break of what every submitter owes; it keeps nothing of a job that ended."""

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

from tests.contract.submitters import ProcessesContract, ended, log_of
from tests.service.spark.cluster import Cluster, quick_executors, wait_until
from tests.unit.submit.plain import workspace
from tests.unit.submit.switchboard import Switchboard
from tests.unit.submit.warm import starts_warm
from watcher.submit.base import Submission
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.shim_submitter import Command
from watcher.submit.spark.runtime import spark_home_of
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
        cluster = {
            "master": os.environ[MASTER],
            "conf": {**CONF, **quick_executors(), **application.conf},
            "env": {"SPARK_LOCAL_IP": "127.0.0.1", **application.env},
        }
        there = application.model_copy(update=cluster)
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


class TestOnCluster(ProcessesContract):
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

def kill_executor(_):
    daemon = open(f"/proc/{os.getppid()}/stat").read()
    os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)

tasks.foreach(kill_executor)
"""


async def test_executors_run_the_jobs_python_and_a_job_survives_one_killed_executor_but_not_many(
    new_try: NewTry, switchboard: Switchboard, cluster: Cluster, tmp_path: Path
) -> None:
    """No executor outlives a job: `new_try` looks after each test."""
    python = own_python(tmp_path / "own-python")  # a name that tells, for the interpreter that has pyspark
    submitter = on_cluster(tmp_path)
    submission = new_try(LOOKING, python=str(python), conf={"spark.task.maxFailures": "2"})
    handle = await submitter.submit(submission)
    first, second = await run_sync(switchboard.callers, "task0", "task1")
    assert "own: ['yes', 'yes'] executors: 2" in (await log_of(submitter, handle)).splitlines()

    os.kill(cluster.executor_of(first.process), signal.SIGKILL)
    again = await run_sync(switchboard.next_caller)
    assert again.name == "task0"
    again.release()
    second.release()
    later = await run_sync(switchboard.callers, "later0", "later1")  # the job went on
    assert len(cluster.executors()) == 2
    for caller in later:
        caller.release()

    status = await ended(submitter, handle)  # from here on each task kills its executor
    assert status.exit_code == 1
    assert status.reason.startswith("Spark lost executor"), status.reason


async def test_a_warm_driver_has_executors_before_its_try_and_releases_them(
    new_try: NewTry, cluster: Cluster, tmp_path: Path
) -> None:
    submitter = starts_warm(tmp_path / "home")
    there = {"master": cluster.master, "conf": {**CONF, **quick_executors()}, "env": {"SPARK_LOCAL_IP": "127.0.0.1"}}
    submission = new_try("print('SUM', tasks.sum())", **there)
    waiting = await run_sync(submitter.ready_driver, submission)
    assert len(cluster.state()["activeapps"]) == 1
    assert len(cluster.executors()) == 2
    await submitter.hand_over(waiting, submission)
    handle = await submitter.submit(submission)
    assert handle["start"] == "warm"
    assert (await ended(submitter, handle)).exit_code == 0
    assert "SUM 1" in await log_of(submitter, handle)


LAKE = {
    "type": "s3",
    "endpoint_url": "http://127.0.0.1:9000",
    "access_key_id": "the-access-key",
    "secret_access_key": "the-secret-key",
}
SHOP = {"type": "postgres", "dsn": "postgresql://me:the-password@db/shop"}
SECRETS = (b"the-access-key", b"the-secret-key", b"the-password", b"the-token")
WITH_FILES = """
import urllib.request

def look(_):
    return open("lookup.csv").read(), os.environ.get("OWN"), os.path.exists("environment/bin/python")

print("found:", *set(tasks.map(look).collect()), "driver:", os.environ.get("OWN"))
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
print(hadoop.get("fs.s3a.endpoint"), hadoop.get("fs.s3a.secret.key"), spark.conf.get("spark.hadoop.fs.s3a.secret.key", None))
address = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/environment"
open(SHOWN, "wb").write(urllib.request.urlopen(address, timeout=30).read())
spark.stop()
"""


async def test_executors_have_the_jobs_files_and_its_packed_environment_and_spark_shows_no_credentials(
    new_try: NewTry, tmp_path: Path
) -> None:
    """Neither in its UI's REST nor in its event log, and on a cluster more is shown than with a local master."""
    lookup, packed, shown = tmp_path / "lookup.csv", tmp_path / "environment.tar.gz", tmp_path / "environment.json"
    lookup.write_text("1,one")
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(own_python(tmp_path / "python"), "bin/python")
    submitter = OnCluster(replace(workspace(tmp_path), event_logs=True))
    submission = new_try(
        f"SHOWN = {str(shown)!r}\n{WITH_FILES}",
        files=(str(lookup),),
        archives=(f"{packed}#environment",),
        jars=(str(next((spark_home_of(sys.executable) / "jars").glob("commons-text-*.jar"))),),
        conf={
            "spark.pyspark.python": "./environment/bin/python",
            "spark.eventLog.compress": "false",
            "spark.redaction.regex": "nothing",
        },
        context={"token": "the-token", "connections": {"lake": LAKE, "shop": SHOP}},
    )
    handle = await submitter.submit(submission)
    status, log = await ended(submitter, handle), await log_of(submitter, handle)
    assert (status.exit_code, status.reason) == (0, ""), log
    assert "found: ('1,one', 'yes', True) driver: None" in log.splitlines()
    assert "http://127.0.0.1:9000 the-secret-key None" in log, "the job cannot reach its bucket"

    [event_log] = (tmp_path / "logs" / "spark-events").iterdir()
    assert event_log.name.startswith("app-")
    events = b"".join(file.read_bytes() for file in (event_log, *event_log.rglob("*")) if file.is_file())
    told = shown.read_bytes() + events
    assert told.count(b"jdbc:postgresql://db:5432/shop") >= 2
    assert [secret for secret in SECRETS if secret in told] == []
    left = b"".join(file.read_bytes() for file in submitter.folder(submission.key).path.rglob("*") if file.is_file())
    assert b"the-secret-key" not in left


def own_python(path: Path) -> Path:
    path.write_text(f'#!/bin/sh\nOWN=yes exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path
