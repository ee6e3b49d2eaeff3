"""`spark-submit` with drivers that wait: a try is handed to one if it fits, and started cold otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

from watcher.features.warm.driver import WARM_PROGRAM
from watcher.features.warm.driver_pool import DriverPool
from watcher.submit.base import SparkApplication, Submission, Workspace
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.shim_submitter import Command
from watcher.submit.spark_submit import SparkSubmit, check_files


class WarmSparkSubmit(SparkSubmit):
    """A `SparkSubmit` with a pool of drivers. Its tries are like those of `SparkSubmit`, which can go on with them."""

    warm: DriverPool

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.warm = DriverPool(self)

    def waiting_command(self, submission: Submission, folder: TryFolder, tag: str) -> Command:
        """Return what to run for a driver that waits for such a try; folder and tag are the driver's. Blocking.

        Raises `SubmitError`, as `command` does.
        """
        program = submission.application.application
        check_files(submission.application, submission.key.instance.dag_id)
        application = submission.application.running(str(WARM_PROGRAM), (str(folder.path), urlsplit(program).path))
        context = {"connections": submission.context.get("connections", {})}
        return self.command_with(replace(submission, tag=tag, application=application, context=context), folder, None)

    def runtime_files(self, application: SparkApplication) -> Mapping[str, str]:
        """Return the files, and the times, that change when the runtime itself changes. Blocking. Raises `SubmitError`."""
        runtime = self.runtime(application)
        jars = runtime.spark_home / "jars"
        return {
            "java": f"{runtime.java}/release {runtime.java}/lib/server/libjvm.so",
            "python": str(Path(which(runtime.python) or runtime.python).resolve()),
            "spark": f"{runtime.spark_home}/RELEASE {runtime.spark_home}/python/pyspark/version.py",
            "jars": str(jars.stat().st_mtime_ns) if jars.exists() else "",
        }
