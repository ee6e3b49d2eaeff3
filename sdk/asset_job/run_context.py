"""Open the run for which the program was started: through its context file, or in a folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asset_job.background import ProgressReporter, TokenRenewal
from asset_job.client import Client
from asset_job.errors import NoContext
from asset_job.local import LocalFolder
from asset_job.runs import Run


def run(local: str | os.PathLike[str] | None = None) -> Run:
    """The run for which this program was started; enter it by `with`. Raises `NoContext`.

    If Asset Watcher did not start the program, the folder `local`, or else ASSET_JOB_LOCAL, stands in for the daemon.
    """
    context = context_path(sys.argv, os.environ)
    folder = local or os.environ.get("ASSET_JOB_LOCAL")
    if context is not None:
        return submitted_run(json.loads(context.read_bytes()))
    if folder:
        return local_run(Path(folder))
    raise NoContext(
        "there is no run context: start the job through Asset Watcher, give --run-context FILE, or run it alone with "
        "ASSET_JOB_LOCAL=FOLDER"
    )


def submitted_run(context: Mapping[str, Any]) -> Run:
    """The run that a context file describes."""
    client = Client(context["api"], context["token"])
    return Run(
        client, connections=context.get("connections", {}), background=[TokenRenewal(client), ProgressReporter(client)]
    )


def local_run(folder: Path) -> Run:
    """A run without the daemon, whose tasks have this program's Python. Raises `AssetJobError` for a file that cannot be used."""
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # else it is the first python3 of the PATH, without this package
    client = LocalFolder(folder)
    return Run(client, connections=client.job.connections)


def context_path(argv: list[str], environ: Mapping[str, str]) -> Path | None:
    """The context file that Spark's configuration names, or else the arguments, or else the environment."""
    path = _from_spark(environ) or _from_arguments(argv) or environ.get("ASSET_JOB_CONTEXT")
    return Path(path) if path else None


def _from_spark(environ: Mapping[str, str]) -> str | None:
    """The context file in Spark's configuration. It is only read under spark-submit: elsewhere that would start a JVM."""
    if "PYSPARK_GATEWAY_PORT" not in environ:
        return None
    from pyspark import SparkConf  # noqa: PLC0415 - the module itself needs no Spark

    return SparkConf().get("spark.asset_job.context")


def _from_arguments(argv: list[str]) -> str | None:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option == "--run-context":
            return value if equals else following
    return None
