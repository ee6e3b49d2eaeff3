"""Whether a job's packages can be fetched: spark-submit itself fetches them, as for the job, for a program that does nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from config.java_properties import write_properties
from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from triggers.base import Finding
from watcher.submit.base import SparkApplication, Submission
from watcher.submit.failure_reasons import explain_log
from watcher.submit.spark import command
from watcher.submit.spark.runtime import Runtime

LONGEST: Final = 50.0
"""Seconds: less than a check may take."""
_IVYS: Final = re.compile(r"([^\s#;]+)#([^\s#;]+);([^\s#;:,]+)")
_MANY: Final = "they are many or large, and the first run fetches the rest; `watcher check --connect` again looks whether they came"
_REMEDY: Final = "correct spark.packages, or give the machine a way to Maven, or the jars themselves in spark.jars"


def packages_finding(application: SparkApplication, runtime: Runtime, daemon: Mapping[str, str]) -> Finding | None:
    """What is wrong; blocking. What was fetched is kept where the job looks for it, so that its first run finds it."""
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
    explained = explain_log(ended.stdout.decode(errors="replace"))
    sentence = explained.sentence if explained else f"spark-submit ended with exit code {ended.returncode}"
    message, _, remedy = _IVYS.sub(r"\1:\2:\3", sentence).partition(": correct the job's spark.packages")
    return Finding.error(
        "packages", message, _REMEDY if remedy else f"spark.packages: {', '.join(application.packages)}"
    )


def _command(
    folder: Path, application: SparkApplication, runtime: Runtime, daemon: Mapping[str, str]
) -> tuple[list[str], Mapping[str, str]]:
    program = folder / "nothing.py"
    program.touch()
    alone = replace(
        application, application=str(program), master="local[1]", args=(), jars=(), py_files=(), files=(), archives=()
    )
    instance = TaskInstanceKey(dag_id="packages", run_id="", task_id="")
    key = TryKey(instance=instance, task_instance_id=TaskInstanceId(""), try_number=0)
    submission = Submission(key=key, tag="packages", application=alone, context={})
    paths = command.Paths(
        spark_home=runtime.spark_home,
        python=runtime.python,
        sdk=None,
        context=folder / "context.json",
        properties=folder / "spark.properties",
        log4j2=folder / "log4j2.properties",
        scratch=folder,
        class_archive=None,
    )
    paths.properties.write_text(write_properties(command.configuration(submission, paths)), encoding="utf-8")
    paths.log4j2.write_text(command.LOG4J2, encoding="utf-8")
    return command.arguments(submission, paths), command.environment(submission, paths, daemon)
