"""PySpark by `spark-submit` in client mode: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.submit.base import SparkApplication, SubmitError, TaskTry
from watcher.submit.command import LOG4J2, Paths, arguments, configuration, environment, properties
from watcher.submit.folder import TryFolder
from watcher.submit.java import class_archive, java_home
from watcher.submit.sdk_archive import sdk_archive
from watcher.submit.shimmed import Command, ShimSubmitter

_LOCATE = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s and s.origin else '')"


@dataclass(frozen=True, kw_only=True)
class SparkSubmit(ShimSubmitter):
    """`environment` is the daemon's, of which a job gets little (`command.PASSED_ON`)."""

    home: Path
    python: str
    """The interpreter of jobs that name none."""
    environment: Mapping[str, str]

    def command(self, task_try: TaskTry, folder: TryFolder) -> Command:
        application = task_try.application
        _check_files(task_try.dag_id, application)
        python = application.python or self.python
        spark_home = Path(application.env.get("SPARK_HOME") or _spark_home_of(python))
        java = java_home({**self.environment, **application.env})
        archive = class_archive(self.home, java, spark_home)
        paths = Paths(
            spark_home=spark_home,
            python=python,
            sdk=sdk_archive(self.home),
            context=folder.context,
            properties=folder.path / "spark.properties",
            log4j2=folder.path / "log4j2.properties",
            scratch=folder.scratch,
            class_archive=archive if archive.exists() else None,
        )
        return Command(
            argv=arguments(task_try, paths),
            environment=environment(task_try, paths, self.environment),
            files={
                paths.properties.name: properties(configuration(task_try, paths)),
                paths.log4j2.name: LOG4J2,
            },
        )


def _check_files(dag_id: str, application: SparkApplication) -> None:
    """Spark itself only warns of a jar that is not there. What has a scheme is looked up by Spark."""
    named = {"application": (application.application,), "jars": application.jars, "py_files": application.py_files}
    for option, paths in named.items():
        for path in paths:
            if ":" not in path and "*" not in path and not Path(path).exists():
                raise SubmitError(f"{path} does not exist: create it, or correct jobs.{dag_id}.spark.{option}")


def _spark_home_of(python: str) -> Path:
    """The Spark inside the interpreter's own pyspark package. Raises `SubmitError`."""
    try:
        found = subprocess.run(  # noqa: S603 - the interpreter that the configuration names
            [python, "-I", "-c", _LOCATE], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmitError(f"the Python {python} does not run: correct the job's spark.python") from error
    spark_home = Path(found).parent
    if not found or not (spark_home / "bin" / "spark-submit").exists():
        raise SubmitError(f"the Python {python} has no pyspark with Spark in it: {python} -m pip install 'pyspark>=4'")
    return spark_home
