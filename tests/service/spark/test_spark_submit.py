from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.service.spark.submitter_contract import SubmitterContract
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.spark


def spark_submit(home: Path) -> SparkSubmit:
    return SparkSubmit(home=home, python=sys.executable, environment=os.environ)


class TestSparkSubmit(SubmitterContract):
    factory = "tests.service.spark.test_spark_submit:spark_submit"
    make = spark_submit
