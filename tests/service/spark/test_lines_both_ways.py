"""Lines of JSON and CSV mean the same whether `s3files` reads them, for the most part by Arrow, or Spark alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
SDK = Path(__file__).parents[3] / "watcher" / "sdk"
LINES = 4_000


@pytest.mark.parametrize("program", ["json_both_ways.py", "csv_both_ways.py"])
def test_odd_lines_are_read_as_sparks_own_reader_reads_them(program: str) -> None:
    seed = random.randrange(10**6)
    environment = {
        **os.environ,
        "PYTHONPATH": str(SDK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, Path(__file__).with_name(program), str(seed), str(LINES)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["differing"] == [], f"seed {seed}"
    assert found["read by Arrow"] > LINES / 10
