"""The check that a job's packages can be fetched: spark-submit fetches them, as for the job, for a program that does nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from config.models.spark import write_properties
from watcher.submit.base import Finding, SparkApplication, Submission
from watcher.submit.failure_reasons import explain_log
from watcher.submit.spark import command
from watcher.submit.spark.runtime import Runtime

LONGEST: Final = 50.0
"""Seconds; less than a check may take."""
_IVY_NAME: Final = re.compile(r"([^\s#;]+)#([^\s#;]+);([^\s#;:,]+)")
_MANY: Final = (
    "they are many or large, and the first run fetches the rest; run `watcher check --connect` again to see whether they "
    "are there"
)
_REMEDY: Final = (
    "correct spark.packages, or give the machine access to Maven, or list the jars themselves in spark.jars"
)


def packages_finding(application: SparkApplication, runtime: Runtime, daemon: Mapping[str, str]) -> Finding | None:
    """Return what is wrong, if anything. Blocking. What is fetched is kept where the job's first run finds it."""
    with TemporaryDirectory() as name:
        argv, environment = _command(Path(name), application, runtime, daemon)
        try:
            ended = subprocess.run(  # noqa: S603 - Spark's own script
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Finding.warning("packages", f"were not fetched within {LONGEST:g} s", _MANY)
    if ended.returncode == 0:
        return None
    reason = explain_log(ended.stdout.decode(errors="replace"))
    sentence = reason.sentence if reason else f"spark-submit ended with exit code {ended.returncode}"
    message, _, remedy = _IVY_NAME.sub(r"\1:\2:\3", sentence).partition(": correct the job's spark.packages")
    return Finding.error(
        "packages", message, _REMEDY if remedy else f"spark.packages: {', '.join(application.packages)}"
    )


def _command(
    folder: Path, application: SparkApplication, runtime: Runtime, daemon: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    program = folder / "nothing.py"
    program.touch()
    nothing_else = {"master": "local[1]", "jars": (), "py_files": (), "files": (), "archives": ()}
    alone = application.running(str(program), ()).model_copy(update=nothing_else)
    submission = Submission.without_try("packages", alone)
    paths = command.Paths.of_own_program(folder, runtime)
    paths.properties.write_text(write_properties(command.configuration(submission, paths)), encoding="utf-8")
    paths.log4j2.write_text(command.LOG4J2, encoding="utf-8")
    return command.arguments(submission, paths), command.environment(submission, paths, daemon)
