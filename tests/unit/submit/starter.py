"""A daemon reduced to submitting one try, to be killed: `python -m tests.unit.submit.starter FACTORY HOME FOLDER APPLICATION PORT`.

FACTORY is `module:function`, a function of the home folder. Says "ready" before it submits and "submitted" after.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import anyio

from tests.unit.submit.plain import make_try
from watcher.submit.base import Submitter, TaskTry


def start(factory: str, home: Path, task_try: TaskTry) -> subprocess.Popen[str]:
    """For the test: the starter of this try, once it is ready."""
    application = task_try.application
    argv = [factory, str(home), str(task_try.folder), application.application, *application.args]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.submit.starter", *argv],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert said(process) == "ready"
    return process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def main(factory: str, home: str, folder: str, application: str, port: str) -> None:
    module, _, function = factory.partition(":")
    submitter: Submitter = getattr(import_module(module), function)(Path(home))
    task_try = make_try(Path(folder), Path(application), port)
    print("ready", flush=True)  # noqa: T201
    anyio.run(submitter.submit, task_try)
    print("submitted", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
