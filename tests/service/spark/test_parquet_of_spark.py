"""Parquet files of Spark are read as Spark's own reader reads them, in both calendars and whatever the writer's time zone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]


def test_days_moments_and_other_types_are_read_as_spark_reads_them() -> None:
    seed = random.randrange(10**6)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, Path(__file__).with_name("parquet_of_spark.py"), str(seed), "100", "2"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {}, f"seed {seed}"
