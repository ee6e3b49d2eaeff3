"""Jobs on a real YARN, in client mode: found again after a crash, and whatever ends one leaves no application behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from anyio.to_thread import run_sync

from tests.contract.submitters import ProcessesContract
from tests.service.spark.cluster import quick_executors, wait_until
from tests.service.spark.yarn import ALIVE, Yarn, running_yarn
from tests.unit.submit.plain import workspace
from tests.unit.submit.switchboard import Switchboard
from watcher.submit.base import Attachment, Submission
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.processes import signal_tagged
from watcher.submit.local.shim_submitter import Command
from watcher.submit.spark.command import SMALL
from watcher.submit.spark_submit import SparkSubmit

pytestmark = [pytest.mark.spark, pytest.mark.maven, pytest.mark.slow]

NewTry = Callable[..., Submission]
CONFIGURATION = "WATCHER_TEST_HADOOP_CONF_DIR"
CONF = {
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "128m",
    "spark.yarn.am.memory": "200m",
    "spark.yarn.am.memoryOverhead": "128m",
    "spark.yarn.am.extraJavaOptions": " ".join(SMALL),
    "spark.driver.host": "127.0.0.1",
}
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize([0, 1], 2).sum() == 1
"""


class OnYarn(SparkSubmit):
    """Whatever is submitted runs on the cluster whose configuration the environment names."""

    def command(self, submission: Submission, folder: TryFolder) -> Command:
        application = submission.application
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "HADOOP_CONF_DIR": os.environ[CONFIGURATION], **application.env}
        jars = f"local:{self.runtime(application).spark_home}/jars/*"
        conf = {**CONF, **quick_executors(), "spark.yarn.jars": jars, **application.conf}
        there = application.model_copy(update={"master": "yarn", "conf": conf, "env": environment})
        return super().command(replace(submission, application=there), folder)


def on_yarn(home: Path) -> OnYarn:
    return OnYarn(workspace(home))


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with running_yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.fixture
def new_try(new_try: NewTry, yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewTry]:
    """The cluster is idle again after each test, and knows each application by its try's tag."""
    monkeypatch.setenv(CONFIGURATION, str(yarn.conf_dir))
    tags = []

    def make(text: str, **more: Any) -> Submission:
        submission = new_try(text and f"{SESSION}{text}", **more)
        tags.append(submission.tag)
        return submission

    yield make
    wait_until(yarn.is_idle)
    assert all(len(yarn.applications(tag)) == 1 for tag in tags)


class TestOnYarn(ProcessesContract):
    factory = "tests.service.spark.test_yarn:on_yarn"


async def test_an_application_whose_driver_was_killed_is_ended_before_the_try_is_lost(
    new_try: NewTry, switchboard: Switchboard, yarn: Yarn, tmp_path: Path
) -> None:
    submitter = on_yarn(tmp_path)
    submission = new_try("call(sys.argv[1], 'main')")
    handle = await submitter.submit(submission)
    await run_sync(switchboard.next_caller)
    [application] = yarn.applications(submission.tag)
    assert application["state"] == "RUNNING"
    signal_tagged(submission.tag, SIGKILL)
    while (attached := await submitter.attach(submission.key, submission.tag, handle)) != Attachment.LOST:
        assert attached == handle, "its lock is not free yet"
    [application] = yarn.applications(submission.tag)
    assert application["state"] not in ALIVE
