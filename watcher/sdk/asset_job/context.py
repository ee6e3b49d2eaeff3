"""How a job learns which run it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def context_path(argv: list[str], environ: Mapping[str, str]) -> Path | None:
    """The context file as Spark's configuration names it, else the arguments, else the environment."""
    found = _from_spark(environ) or _from_arguments(argv) or environ.get("ASSET_JOB_CONTEXT")
    return Path(found) if found else None


def _from_spark(environ: Mapping[str, str]) -> str | None:
    """Only below spark-submit, whose JVM already runs: elsewhere asking would start one."""
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
