"""PySpark by `spark-submit` in client mode: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from anyio.to_thread import run_sync

from config.models.passing import property_fault
from config.models.spark import read_properties, write_properties
from watcher.host.logs import event_logs
from watcher.submit.base import (
    Finding,
    Handle,
    Needs,
    Progress,
    SparkApplication,
    Submission,
    SubmitError,
)
from watcher.submit.local.folder import TryFolder
from watcher.submit.local.shim_submitter import Command, ShimSubmitter
from watcher.submit.spark import command
from watcher.submit.spark.class_archive import archive_folder, find_archive
from watcher.submit.spark.command import ClassArchive
from watcher.submit.spark.packages import packages_finding
from watcher.submit.spark.runtime import JAVA_REMEDY, Runtime, find_runtime, java_fault, java_home, linked_spark
from watcher.submit.spark.ui import ask_spark_ui
from watcher.submit.spark.yarn import MARK, end_applications_left, resource_managers

DEFAULT_HEAP_MB: Final = 512
"""The default of `driver_memory`, which `driver_memory_mb` is meant for."""
_UNITS_MB: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


class SparkSubmit(ShimSubmitter):
    """A job gets little of the daemon's environment (`command.PASSED_ON`)."""

    def needs(self, application: SparkApplication) -> Needs:
        """Return `driver_memory_mb` plus what the heap (`512m`, `2g`) exceeds the default by."""
        heap_mb = int(application.driver_memory[:-1]) * _UNITS_MB[application.driver_memory[-1].lower()]
        return Needs(memory_mb=self.workspace.driver_memory_mb + max(0, round(heap_mb) - DEFAULT_HEAP_MB))

    def command(self, submission: Submission, folder: TryFolder) -> Command:
        return self.command_with(submission, folder, folder.context)

    def end_applications(self, folder: TryFolder, tag: str) -> None:
        """End what the try left on YARN. Raises `ApplicationsLeft`."""
        end_applications_left(folder.path, tag)

    def command_with(self, submission: Submission, folder: TryFolder, context: Path | None) -> Command:
        """Return what to run, with the file of the private context. Blocking. Raises `SubmitError`."""
        dag_id = submission.key.instance.dag_id
        check_files(submission.application, dag_id)
        application = with_properties(submission.application, f"jobs.{dag_id}.spark")
        submission = replace(submission, application=application)
        runtime = self.runtime(application)
        paths = command.Paths(
            spark_home=self._spark_home(runtime, application),
            python=runtime.python,
            sdk=self.workspace.sdk_archive(),
            context=context,
            properties=folder.path / "spark.properties",
            log4j2=folder.path / "log4j2.properties",
            scratch=folder.scratch,
            class_archive=self._archive(runtime, application),
            event_logs=self._event_logs(),
        )
        environment = command.environment(submission, paths, self.workspace.environment)
        properties = command.configuration(submission, paths)
        files = {paths.properties.name: write_properties(properties), paths.log4j2.name: command.LOG4J2}
        if application.master.startswith("yarn"):
            files[MARK] = resource_managers(environment, properties).to_json()
        return Command(argv=command.arguments(submission, paths), environment=environment, files=files)

    async def progress(self, handle: Handle) -> Progress | None:
        folder = TryFolder(Path(handle["folder"]))
        warm = folder.warm()
        scratch = folder.scratch if warm is None else TryFolder(warm.folder).scratch
        return await ask_spark_ui(scratch / command.ADDRESS_FILE, folder.started_at())

    async def check(self, application: SparkApplication) -> Sequence[Finding]:
        """Check files, Python with PySpark, Java, and packages. Spark itself finds files whose path has a scheme."""
        return await run_sync(lambda: list(self._findings(application)))

    def _findings(self, application: SparkApplication) -> Iterator[Finding]:
        missing = list(_missing_files(application))
        for option, path in missing:
            yield Finding(
                check=option, level="error", message=f"{path} does not exist", remedy="create it, or correct the path"
            )
        try:
            runtime = self.runtime(application)
        except SubmitError as error:
            problem, _, remedy = str(error).partition(": ")
            yield Finding(check="runtime", level="error", message=problem, remedy=remedy)
            return
        if fault := java_fault(runtime.java):
            yield Finding(check="java", level="error", message=fault, remedy=JAVA_REMEDY)
        if application.packages and "properties_file" not in dict(missing):
            whole = with_properties(application, "spark")
            if finding := packages_finding(whole, runtime, self.workspace.environment):
                yield finding

    @classmethod
    def lacks_here(cls, environment: Mapping[str, str]) -> str | None:
        try:
            java_home(environment)
        except SubmitError as error:
            return str(error)
        return None

    def runtime(self, application: SparkApplication) -> Runtime:
        """Find the interpreter, Spark and Java that the job gets. Blocking. Raises `SubmitError` if one is missing."""
        python, spark_home = application.python or self.workspace.python, application.env.get("SPARK_HOME")
        return find_runtime(python, spark_home, {**self.workspace.environment, **application.env})

    def _spark_home(self, runtime: Runtime, application: SparkApplication) -> Path:
        """The folder to run Spark from. For a cluster it is Spark's own folder, from which executors are served."""
        if "SPARK_HOME" in application.env or not application.master.startswith("local"):
            return runtime.spark_home
        try:
            return linked_spark(self.workspace.home, runtime.spark_home)
        except OSError:  # it only costs time
            return runtime.spark_home

    def _event_logs(self) -> Path | None:
        """The folder of event logs, if they are kept; it is made here, because Spark fails without it."""
        if not self.workspace.event_logs:
            return None
        folder = event_logs(self.workspace.logs)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SubmitError(f"the folder {folder} for Spark's event logs cannot be made: {error.strerror}") from error
        return folder

    def _archive(self, runtime: Runtime, application: SparkApplication) -> ClassArchive | None:
        """The archive, if any. None, too, if the site's own defaults have a class path, which the archive's would replace."""
        defaults = Path(application.env.get("SPARK_CONF_DIR") or runtime.spark_home / "conf") / "spark-defaults.conf"
        if defaults.exists() and command.CLASS_PATH in defaults.read_text(encoding="utf-8", errors="replace"):
            return None
        return find_archive(archive_folder(self.workspace.environment), runtime)


def with_properties(application: SparkApplication, where: str) -> SparkApplication:
    """Return the application with the properties of its file, below those of its `conf`. Raises `SubmitError`."""
    if application.properties_file is None:
        return application
    file = Path(application.properties_file.removeprefix("file:"))
    try:
        properties = read_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise SubmitError(f"{file} cannot be read ({error}): repair it, or correct {where}.properties_file") from error
    for name, text in properties.items():
        if fault := property_fault(text):
            raise SubmitError(f"{name} in {file} {fault}")
    return application.with_conf({**properties, **application.conf})


def check_files(application: SparkApplication, dag_id: str) -> None:
    """Raise `SubmitError` for the first file that does not exist."""
    if missing := next(_missing_files(application), None):
        option, path = missing
        raise SubmitError(f"{path} does not exist: create it, or correct jobs.{dag_id}.spark.{option}")


def _missing_files(application: SparkApplication) -> Iterator[tuple[str, str]]:
    """Yield option and path. Spark itself only warns of a missing jar, and finds files whose path has a scheme."""
    properties = application.properties_file
    options = {
        "application": (application.application,),
        "jars": application.jars,
        "py_files": application.py_files,
        "files": [file.partition("#")[0] for file in application.files],
        "archives": [archive.partition("#")[0] for archive in application.archives],
        "properties_file": () if properties is None else (properties,),
    }
    for option, paths in options.items():
        for path in paths:
            if ":" not in path and "*" not in path and not Path(path).exists():
                yield option, path
