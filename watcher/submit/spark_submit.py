"""PySpark by `spark-submit` in client mode: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from anyio.to_thread import run_sync

from config.java_properties import read_properties, write_properties
from watcher.host.logs import event_logs
from watcher.submit.base import (
    Finding,
    Handle,
    Needs,
    Progress,
    SparkApplication,
    Submission,
    SubmitError,
    Workspace,
)
from watcher.submit.local.folder import TryFolder
from watcher.submit.shimmed import Command, ShimSubmitter
from watcher.submit.spark import command
from watcher.submit.spark.class_archive import archive_folder, find_archive
from watcher.submit.spark.command import ClassArchive
from watcher.submit.spark.linked_spark import linked_spark
from watcher.submit.spark.packages import packages_finding
from watcher.submit.spark.runtime import Runtime, find_runtime
from watcher.submit.spark.yarn import MARK, resource_managers
from watcher.submit.warm.driver import WARM_PROGRAM
from watcher.submit.warm.drivers import WarmDrivers

USUAL_HEAP_MB: Final = 512
"""The default of `driver_memory`, for which `driver_memory_mb` reckons."""
_UI_TIMEOUT: Final = 30.0
"""A driver that has much to do answers late, and one whose answer nobody awaits writes traces into the job's log."""
_UNITS_MB: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


class SparkSubmit(ShimSubmitter):
    """A job gets little of the daemon's environment (`command.PASSED_ON`). A try is handed to a warm driver, if one waits."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.warm = WarmDrivers(self)

    async def submit(self, submission: Submission) -> Handle:
        if await self.warm.hand_over(submission):
            return self.handle(submission.key, submission.tag)
        return await super().submit(submission)

    def needs(self, application: SparkApplication) -> Needs:
        """By how much the heap (`512m`, `2g`) is larger than usual comes on top of `driver_memory_mb`."""
        heap_mb = int(application.driver_memory[:-1]) * _UNITS_MB[application.driver_memory[-1].lower()]
        return Needs(memory_mb=self.workspace.driver_memory_mb + max(0, round(heap_mb) - USUAL_HEAP_MB))

    def command(self, submission: Submission, folder: TryFolder) -> Command:
        return self._command(submission, folder, folder.context)

    def waiting_command(self, submission: Submission, folder: TryFolder, tag: str) -> Command:
        """What to run for a driver that waits for such a try; folder and tag are its own. As `command`."""
        application, program = submission.application, submission.application.application
        _check_files(application, submission.key.instance.dag_id)
        waiting = replace(application, application=str(WARM_PROGRAM), args=(str(folder.path), urlsplit(program).path))
        context = {"connections": submission.context.get("connections", {})}
        return self._command(replace(submission, tag=tag, application=waiting, context=context), folder, None)

    def _command(self, submission: Submission, folder: TryFolder, context: Path | None) -> Command:
        dag_id = submission.key.instance.dag_id
        _check_files(submission.application, dag_id)
        application = _with_properties(submission.application, f"jobs.{dag_id}.spark")
        submission = replace(submission, application=application)
        runtime = self._runtime(application)
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
            files[MARK] = json.dumps(asdict(resource_managers(environment, properties)))
        return Command(argv=command.arguments(submission, paths), environment=environment, files=files)

    def runtime_files(self, application: SparkApplication) -> Mapping[str, str]:
        """By which a change of the runtime itself is seen. Blocking. Raises `SubmitError`."""
        runtime = self._runtime(application)
        jars = runtime.spark_home / "jars"
        return {
            "java": f"{runtime.java}/release {runtime.java}/lib/server/libjvm.so",
            "python": str(Path(which(runtime.python) or runtime.python).resolve()),
            "spark": f"{runtime.spark_home}/RELEASE {runtime.spark_home}/python/pyspark/version.py",
            "jars": str(jars.stat().st_mtime_ns) if jars.exists() else "",
        }

    async def progress(self, handle: Handle) -> Progress | None:
        folder = TryFolder(Path(handle["folder"]))
        warm = folder.warm()
        scratch = folder.scratch if warm is None else TryFolder(warm.folder).scratch
        return await ask_spark_ui(scratch / command.ADDRESS_FILE, folder.started_at())

    async def check(self, application: SparkApplication) -> Sequence[Finding]:
        """Files, Python with PySpark, Java, packages; Spark itself looks up what has a scheme."""
        return await run_sync(lambda: list(self._findings(application)))

    def _findings(self, application: SparkApplication) -> Iterator[Finding]:
        missing = list(_missing_files(application))
        for option, path in missing:
            yield Finding(
                check=option, level="error", message=f"{path} does not exist", remedy="create it, or correct the path"
            )
        try:
            runtime = self._runtime(application)
        except SubmitError as error:
            problem, _, remedy = str(error).partition(": ")
            yield Finding(check="runtime", level="error", message=problem, remedy=remedy)
            return
        if application.packages and "properties_file" not in dict(missing):
            whole = _with_properties(application, "spark")
            if finding := packages_finding(whole, runtime, self.workspace.environment):
                yield finding

    def _runtime(self, application: SparkApplication) -> Runtime:
        """Which interpreter, Spark and Java the job gets; blocking. Raises `SubmitError` when one is missing."""
        python, spark_home = application.python or self.workspace.python, application.env.get("SPARK_HOME")
        return find_runtime(python, spark_home, {**self.workspace.environment, **application.env})

    def _spark_home(self, runtime: Runtime, application: SparkApplication) -> Path:
        """What goes to a cluster is taken from Spark as it is."""
        if "SPARK_HOME" in application.env or not application.master.startswith("local"):
            return runtime.spark_home
        try:
            return linked_spark(self.workspace.home, runtime.spark_home)
        except OSError:  # it only costs time
            return runtime.spark_home

    def _event_logs(self) -> Path | None:
        """Spark makes no such folder, and fails without it."""
        if not self.workspace.event_logs:
            return None
        folder = event_logs(self.workspace.logs)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SubmitError(f"the folder {folder} for Spark's event logs cannot be made: {error.strerror}") from error
        return folder

    def _archive(self, runtime: Runtime, application: SparkApplication) -> ClassArchive | None:
        """None, too, where the site's own defaults have a class path, which the archive's would replace."""
        defaults = Path(application.env.get("SPARK_CONF_DIR") or runtime.spark_home / "conf") / "spark-defaults.conf"
        if defaults.exists() and command.CLASS_PATH in defaults.read_text(encoding="utf-8", errors="replace"):
            return None
        return find_archive(archive_folder(self.workspace.environment), runtime)


def _with_properties(application: SparkApplication, where: str) -> SparkApplication:
    """With the properties of its file under its own."""
    if application.properties_file is None:
        return application
    file = Path(application.properties_file.removeprefix("file:"))
    try:
        properties = read_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise SubmitError(f"{file} cannot be read ({error}): mend it, or correct {where}.properties_file") from error
    return replace(application, conf={**properties, **application.conf})


def _check_files(application: SparkApplication, dag_id: str) -> None:
    """Raises `SubmitError`."""
    if missing := next(_missing_files(application), None):
        option, path = missing
        raise SubmitError(f"{path} does not exist: create it, or correct jobs.{dag_id}.spark.{option}")


def _missing_files(application: SparkApplication) -> Iterator[tuple[str, str]]:
    """Option and path. Spark itself only warns of a jar that is not there; what has a scheme is looked up by Spark."""
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


async def ask_spark_ui(log: Path, since: datetime | None = None) -> Progress | None:
    """How far the application is, by its own UI; None when there is none that answers from this machine's loopback.

    What a warm driver did before the try is left out: `since` is when that began.

    The UI takes any free port. Spark logs which, and `command.LOG4J2` has that line written into the try's scratch folder.
    """
    port = ui_port(log)
    if port is None:
        return None
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        # It speaks no TLS, and the authorities' certificates take 20 ms to read, of every watcher here.
        async with httpx.AsyncClient(timeout=_UI_TIMEOUT, trust_env=False, verify=False) as client:  # noqa: S501
            applications = (await client.get(address)).raise_for_status().json()
            stages = await client.get(f"{address}/{applications[0]['id']}/stages", params={"withSummaries": "false"})
            progress = progress_of(stages.raise_for_status().json(), since)
            return progress and replace(progress, application_id=applications[0]["id"])
    except (httpx.HTTPError, ValueError, LookupError):
        return None


def ui_port(log: Path) -> int | None:
    try:
        ports = re.findall(r"'SparkUI' on port (\d+)", log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(ports[-1]) if ports else None


def _moment(text: str) -> datetime:
    """Spark writes `2026-11-20T09:00:00.123GMT`."""
    return datetime.fromisoformat(text.removesuffix("GMT")).replace(tzinfo=UTC)


def progress_of(stages: Iterable[Mapping[str, Any]], since: datetime | None = None) -> Progress | None:
    """Of the newest attempt of each stage; what a stage that has ended did not do never will be done."""
    newest: dict[int, Mapping[str, Any]] = {}
    for stage in sorted(stages, key=lambda attempt: int(attempt["attemptId"])):
        began_at = stage.get("submissionTime")
        if since is None or began_at is None or _moment(began_at) >= since:
            newest[stage["stageId"]] = stage
    counted = [stage for stage in newest.values() if stage["status"] != "SKIPPED"]
    if not counted:
        return None
    going_on = ("ACTIVE", "PENDING")
    began = (_moment(stage["submissionTime"]) for stage in newest.values() if stage.get("submissionTime"))
    return Progress(
        stages=len(counted),
        tasks=sum(stage["numTasks" if stage["status"] in going_on else "numCompleteTasks"] for stage in counted),
        tasks_done=sum(stage["numCompleteTasks"] for stage in counted),
        first_action_at=min(began, default=None),
        rows_read=sum(stage.get("inputRecords", 0) for stage in counted),
        bytes_read=sum(stage.get("inputBytes", 0) for stage in counted),
        rows_written=sum(stage.get("outputRecords", 0) for stage in counted),
        bytes_written=sum(stage.get("outputBytes", 0) for stage in counted),
    )
