"""A submitter of plain Python programs under the shim: everything of `spark-submit` but Spark, and quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from watcher.scheduling.tries.submissions import JobToStart, Submissions
from watcher.submit.base import Addresses, SparkApplication, Submission, Submitter, Workspace
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.shim_submitter import Command
from watcher.submit.spark_submit import SparkSubmit


class PlainPython(SparkSubmit):
    def command(self, submission: Submission, folder: TryFolder) -> Command:
        return Command(
            argv=[sys.executable, submission.application.application, *submission.application.args],
            environment={"PATH": os.environ["PATH"], "ASSET_JOB_CONTEXT": str(folder.context)},
        )


def workspace(home: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace that a daemon with this home would lend."""
    return Workspace(
        home=home, logs=home / "logs", python=sys.executable, environment=environment, driver_memory_mb=550
    )


def plain_python(home: Path) -> PlainPython:
    return PlainPython(workspace(home))


def spark_submit(home: Path) -> SparkSubmit:
    return SparkSubmit(workspace(home))


def make_submission(task_instance_id: str, application: Path, *args: str, **more: Any) -> Submission:
    """The same arguments give the same try in every process."""
    context: Mapping[str, Any] = more.pop("context", {"token": "secret-token"})
    instance = TaskInstanceKey(dag_id="load_orders", run_id="manual__1", task_id="load")
    return Submission(
        key=TryKey(instance=instance, task_instance_id=TaskInstanceId(task_instance_id), try_number=1),
        tag=f"run-{task_instance_id}-1",
        application=SparkApplication(
            application=str(application), args=args, **{"conf": {}, "env": {}, "master": "local[1]", **more}
        ),
        context=context,
    )


def submissions(jobs: Mapping[str, JobToStart], **submitters: Submitter) -> Submissions:
    """The submissions of these jobs, as a dispatcher takes them; a token names its try."""
    return Submissions(
        jobs=jobs,
        submitters={name.replace("spark_submit", "spark-submit"): each for name, each in submitters.items()},
        addresses=Addresses(local="http://127.0.0.1:1", public="http://127.0.0.1:1"),
        issue_token=lambda key, _trace_id: f"token-{key.task_instance_id}-{key.try_number}",
    )
