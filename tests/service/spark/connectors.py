"""The jars with which Spark reads S3 and PostgreSQL by itself; they come from Maven."""

from __future__ import annotations

import pytest

CONNECTORS = ("org.apache.hadoop:hadoop-aws:3.4.2", "org.postgresql:postgresql:42.7.7")
"""Of the Hadoop that Spark brings."""


def skip_without_maven(log: str) -> None:
    """For a job that asked for `CONNECTORS` and could not get them, as its log says."""
    if "unresolved dependenc" in log or "UnknownHostException" in log:
        pytest.skip("Maven is not reachable from here")
