"""A daemon reduced to submitting one try, to be killed: `python -m tests.unit.submit.starter FACTORY HOME TASK_INSTANCE APPLICATION PORT`.

FACTORY is `module:function`, a function of the home folder. Says "ready" before it submits and "submitted" after.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from tests.unit.submit.plain import make_submission
from watcher.features.kubernetes.options import KubernetesOptions
from watcher.submit.base import Submission, Submitter

OF_JOB = "STARTER_JOB"
"""The job's own keys and its context, as JSON."""


def start(factory: str, home: Path, submission: Submission) -> subprocess.Popen[str]:
    """Start the starter of this try, and return it once it is ready."""
    application = submission.application
    argv = [factory, str(home), submission.key.task_instance_id, application.application, *application.args]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.submit.starter", *argv],
        cwd=Path(__file__).parents[3],
        env={**os.environ, OF_JOB: json.dumps(_of_job(submission))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert said(process) == "ready"
    return process


def _of_job(submission: Submission) -> dict[str, Any]:
    application = submission.application
    options = application.options.model_dump(mode="json")
    return {
        "env": dict(application.env),
        "python": application.python,
        "context": submission.context,
        "options": options,
    }


def _given() -> dict[str, Any]:
    given: dict[str, Any] = json.loads(os.environ[OF_JOB])
    options = given.pop("options")
    return {**given, **({"options": KubernetesOptions.model_validate(options)} if options else {})}


def make(factory: str, home: Path) -> Submitter:
    """Return the submitter that FACTORY makes for the home."""
    module, _, function = factory.partition(":")
    submitter: Submitter = getattr(import_module(module), function)(home)
    return submitter


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def main(factory: str, home: str, task_instance_id: str, application: str, port: str) -> None:
    submitter = make(factory, Path(home))
    submission = make_submission(task_instance_id, Path(application), port, **_given())
    print("ready", flush=True)  # noqa: T201
    anyio.run(submitter.submit, submission)
    print("submitted", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
