"""A submitter of plain Python programs under the shim: everything of `spark-submit` but Spark, and quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watcher.submit.base import SparkApplication, TaskTry
from watcher.submit.folder import TryFolder
from watcher.submit.shimmed import Command, ShimSubmitter


class PlainPython(ShimSubmitter):
    def command(self, task_try: TaskTry, folder: TryFolder) -> Command:
        return Command(
            argv=[sys.executable, task_try.application.application, *task_try.application.args],
            environment={"PATH": os.environ["PATH"], "ASSET_JOB_CONTEXT": str(folder.context)},
        )


def plain_python(_home: Path) -> PlainPython:
    return PlainPython()


def make_try(folder: Path, application: Path, *args: str, **more: Any) -> TaskTry:
    """The try whose folder this is; the same arguments give the same try in every process."""
    context: Mapping[str, Any] = more.pop("context", {"token": "secret-token"})
    return TaskTry(
        task_instance_id="6f3a0c5e-7c0a-4f0e-9a51-6d8a1f7c2b10",
        dag_id="load_orders",
        run_id="manual__1",
        task_id="load",
        map_index=-1,
        try_number=1,
        tag=f"run-{folder.parent.name}-{folder.name}",
        folder=folder,
        log=folder.with_suffix(".log"),
        application=SparkApplication(
            application=str(application), args=args, **{"conf": {}, "env": {}, "master": "local[1]", **more}
        ),
        context=context,
    )
