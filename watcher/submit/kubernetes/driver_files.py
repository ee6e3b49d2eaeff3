"""What a driver gets in its pod: the files of its Secret, by name, and the command that its wrapper starts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from config.features.kubernetes.settings import DriverPod
from config.models.spark import write_properties
from watcher.submit.base import SparkApplication, Submission, SubmitError
from watcher.submit.kubernetes import executors
from watcher.submit.kubernetes.manifest import (
    CONTEXT,
    ORDER,
    PRIVATE,
    SECRET,
    WORK,
    WRAPPER,
    DriverCommand,
    LeaseTimes,
    Place,
)
from watcher.submit.spark import command

SHIM: Final = "shim.py"
SDK: Final = "asset_job.zip"
_PROPERTIES: Final = "spark.properties"
_LOG4J2: Final = "log4j2.properties"
_OURS: Final = frozenset({WRAPPER, SHIM, SDK, ORDER, CONTEXT, _PROPERTIES, _LOG4J2, executors.TEMPLATE})
_SPARK_SUBMIT: Final = ("/bin/sh", "-c", 'exec "${SPARK_HOME:+$SPARK_HOME/bin/}spark-submit" "$@"', "spark-submit")
"""The image says where Spark is: by SPARK_HOME, or else by PATH."""


class NotCarried(SubmitError):
    """A file of the job cannot be put into its Secret; the sentence names the remedy."""

    retryable = False


@dataclass
class CarriedFiles:
    """The local files of a job, each by its name in the Secret."""

    by_name: dict[str, Path] = field(default_factory=dict)

    def carry(self, place: str) -> str:
        """Return the place in the pod of a file; one with another scheme stays where it is. Raises `NotCarried`."""
        path, mark, alias = place.partition("#")
        if ":" in path and not path.startswith("file:"):
            return place
        here = Path("/" + path.removeprefix("file:").lstrip("/"))
        name = here.name
        if "*" in path:
            raise NotCarried(f"{place} has a wildcard, and files are put into the pod one by one; name each of them")
        if name in _OURS or self.by_name.setdefault(name, here) != here:
            raise NotCarried(f"{here} would have the name of another file in the pod; rename it")
        if not _is_key(name):
            raise NotCarried(f"{here} cannot be put into a Secret: use letters, digits, `-`, `_` and `.` for its name")
        return f"{SECRET / name}{mark}{alias}"

    def carry_all(self, places: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.carry, places))


def _is_key(name: str) -> bool:
    return name.isascii() and all(letter.isalnum() or letter in "-_." for letter in name)


def in_pod(application: SparkApplication, pod: DriverPod, files: CarriedFiles) -> SparkApplication:
    """Return the application with its paths, the memory and Spark's master in the pod; its local files are added to `files`."""
    lists = {
        "jars": files.carry_all(application.jars),
        "py_files": files.carry_all(application.py_files),
        "files": files.carry_all(application.files),
        "archives": files.carry_all(application.archives),
    }
    conf = {"spark.jars.ivy": str(WORK / "ivy"), **application.conf}
    more = {"application": files.carry(application.application), "conf": conf, "properties_file": None}
    size = {"driver_memory": f"{pod.driver.heap}m"}
    if pod.executor is not None:
        size["master"] = executors.MASTER
    return application.model_copy(update={**lists, **more, **size})


def driver_command(
    submission: Submission, pod: DriverPod, place: Place, lease: LeaseTimes
) -> tuple[DriverCommand, Mapping[str, bytes]]:
    """Return what the wrapper starts for a submission whose paths are in the pod, and the files that Spark reads."""
    paths = command.Paths(
        spark_home=Path("/"),
        python=submission.application.python or "python3",
        sdk=Path(SECRET / SDK),
        context=Path(PRIVATE / CONTEXT),
        properties=Path(SECRET / _PROPERTIES),
        log4j2=Path(SECRET / _LOG4J2),
        scratch=Path(WORK),
        class_archive=None,
    )
    _, *arguments = command.arguments(submission, paths)
    configuration = command.configuration(submission, paths)
    files = {_LOG4J2: command.LOG4J2.encode()}
    if pod.executor is not None:
        cores = {"spark.executor.cores": str(pod.executor.cores)}
        configuration = {**cores, **configuration, **executors.properties(pod, pod.executor, submission.tag, place)}
        template = executors.template(pod, paths.python, submission.tag, place)
        files[executors.TEMPLATE] = json.dumps(template).encode()
        arguments = [*executors.DRIVER_HOST, *arguments]
    files[_PROPERTIES] = write_properties(configuration).encode()
    argv = [*_SPARK_SUBMIT, *arguments]
    return DriverCommand(argv=argv, environment=_environment(submission, paths), lease=lease), files


def _environment(submission: Submission, paths: command.Paths) -> Mapping[str, str]:
    """The image's own SPARK_HOME stays, unless the job gives another one."""
    own = submission.application.env
    environment = {"HOME": str(WORK), **command.environment(submission, paths, {})}
    del environment["SPARK_HOME"]
    return {**environment, **({"SPARK_HOME": own["SPARK_HOME"]} if "SPARK_HOME" in own else {})}
