"""PySpark by `spark-submit` in client mode: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watcher.submit.base import SparkApplication, SubmitError, TaskTry
from watcher.submit.class_archive import archive_folder, find_archive
from watcher.submit.command import (
    CLASS_PATH,
    LOG4J2,
    ClassArchive,
    Paths,
    arguments,
    configuration,
    environment,
    properties,
)
from watcher.submit.folder import TryFolder
from watcher.submit.runtime import Runtime, find_runtime
from watcher.submit.sdk_archive import sdk_archive
from watcher.submit.shimmed import Command, ShimSubmitter


@dataclass(frozen=True, kw_only=True)
class SparkSubmit(ShimSubmitter):
    """`environment` is the daemon's, of which a job gets little (`command.PASSED_ON`)."""

    home: Path
    python: str
    """The interpreter of jobs that name none."""
    environment: Mapping[str, str]

    def runtime_of(self, application: SparkApplication) -> Runtime:
        """Which interpreter, Spark and Java the job gets; blocking. Raises `SubmitError` when one is missing."""
        python, spark_home = application.python or self.python, application.env.get("SPARK_HOME")
        return find_runtime(python, spark_home, {**self.environment, **application.env})

    def _archive(self, runtime: Runtime, application: SparkApplication) -> ClassArchive | None:
        """None, too, where the site's own defaults have a class path, which the archive's would replace."""
        conf = Path(application.env.get("SPARK_CONF_DIR") or runtime.spark_home / "conf")
        return None if _site_has_class_path(conf) else find_archive(archive_folder(self.environment), runtime)

    def command(self, task_try: TaskTry, folder: TryFolder) -> Command:
        application = task_try.application
        _check_files(task_try.dag_id, application)
        runtime = self.runtime_of(application)
        paths = Paths(
            spark_home=runtime.spark_home,
            python=runtime.python,
            sdk=sdk_archive(self.home),
            context=folder.context,
            properties=folder.path / "spark.properties",
            log4j2=folder.path / "log4j2.properties",
            scratch=folder.scratch,
            class_archive=self._archive(runtime, application),
        )
        return Command(
            argv=arguments(task_try, paths),
            environment=environment(task_try, paths, self.environment),
            files={
                paths.properties.name: properties(configuration(task_try, paths)),
                paths.log4j2.name: LOG4J2,
            },
        )


def _site_has_class_path(conf: Path) -> bool:
    defaults = conf / "spark-defaults.conf"
    return defaults.exists() and CLASS_PATH in defaults.read_text(encoding="utf-8", errors="replace")


def _check_files(dag_id: str, application: SparkApplication) -> None:
    """Spark itself only warns of a jar that is not there. What has a scheme is looked up by Spark."""
    named = {"application": (application.application,), "jars": application.jars, "py_files": application.py_files}
    for option, paths in named.items():
        for path in paths:
            if ":" not in path and "*" not in path and not Path(path).exists():
                raise SubmitError(f"{path} does not exist: create it, or correct jobs.{dag_id}.spark.{option}")
