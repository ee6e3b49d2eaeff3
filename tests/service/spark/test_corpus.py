"""The corpus of values by a real Spark, from S3 and folders, out of PostgreSQL and into tables: some of its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import LONG

pytestmark = [pytest.mark.spark, pytest.mark.service]


def test_values_by_way_of_spark_are_those_of_the_source() -> None:
    """A process of its own, because it has a Spark and a time zone of its own."""
    ways = "rows,event,pgrows,folder,s3,append delta,append parquet,ingest parquet"
    command = [sys.executable, "-m", "tests.corpus.run", *([] if LONG else ["--short", "--ways", ways])]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
