"""What travels to a pod: the job's local files by name, and Spark's command with their places there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from config.features.kubernetes.settings import DriverPod
from tests.unit.submit.plain import make_submission
from watcher.submit.kubernetes.driver_files import CarriedFiles, NotCarried, driver_command, in_pod
from watcher.submit.kubernetes.manifest import LeaseTimes, Place

PLACE = Place(namespace="spark", installation="0a-0b")
POD = DriverPod.model_validate({"image": "x", "driver": {"memory": "2Gi"}})


def carried(**more: Any) -> tuple[dict[str, Path], list[str], dict[str, str]]:
    """The files, the arguments of spark-submit and the environment of a job with these keys."""
    submission, files = make_submission("1", Path("/jobs/load.py"), "--day", "1", **more), CarriedFiles()
    application = in_pod(submission.application, POD, files)
    command, _ = driver_command(replace(submission, application=application), POD, PLACE, LeaseTimes())
    return files.by_name, list(command.argv), dict(command.environment)


def test_local_files_travel_and_the_command_names_them_in_the_pod() -> None:
    files, argv, _ = carried(py_files=("/jobs/lib.zip", "s3a://b/x.py"), archives=("/env/venv.tgz#env",))
    assert files == {
        "load.py": Path("/jobs/load.py"),
        "lib.zip": Path("/jobs/lib.zip"),
        "venv.tgz": Path("/env/venv.tgz"),
    }
    options = dict(pairwise(argv))
    secret = "/asset-watcher/secret"
    assert options["--py-files"] == f"{secret}/asset_job.zip,{secret}/lib.zip,s3a://b/x.py"
    assert options["--archives"] == f"{secret}/venv.tgz#env"
    assert options["--driver-memory"] == "1462m"  # 2048 MiB / 1.4, by Spark's rule for Python on Kubernetes
    assert argv[-3:] == [f"{secret}/load.py", "--day", "1"]
    assert argv[:2] == ["/bin/sh", "-c"]


def test_the_images_own_spark_is_used_unless_the_job_names_another() -> None:
    assert "SPARK_HOME" not in carried()[2]
    assert carried(env={"SPARK_HOME": "/opt/spark"})[2]["SPARK_HOME"] == "/opt/spark"
    environment = carried(env={"PASSWORD": "geheim"})[2]
    assert (environment["PASSWORD"], environment["PYSPARK_PYTHON"]) == ("geheim", "python3")
    assert environment["HOME"] == "/asset-watcher/work"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"jars": ("/jars/*.jar",)}, "wildcard"),
        ({"py_files": ("/a/load.py",)}, "name of another file"),
        ({"files": ("/a/wrapper.py",)}, "name of another file"),
        ({"files": ("/a/mit leer.txt",)}, "cannot be put into a Secret"),
    ],
)
def test_what_cannot_travel_is_refused_for_good(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotCarried, match=sentence) as refused:
        carried(**more)
    assert not refused.value.retryable
