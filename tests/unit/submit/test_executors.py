"""Executors as pods: what Spark is told of them, the template it makes them from, and what starts in their container."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from config.features.kubernetes.settings import DriverPod, PodSize, mebibytes
from config.models.spark import read_properties
from tests.unit.submit.plain import make_submission
from watcher.submit.kubernetes import names
from watcher.submit.kubernetes.driver_files import CarriedFiles, driver_command, in_pod
from watcher.submit.kubernetes.executor_start import command, spark_home
from watcher.submit.kubernetes.manifest import LeaseTimes, Place

PLACE = Place(namespace="spark", installation="0a0a0a0a-0000-4000-8000-000000000000")
OF_SPARK = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:4000",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1462m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_EXECUTOR_POD_NAME": "load-exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def started(keys: dict[str, Any], **more: Any) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """The words of spark-submit, Spark's properties and the executors' template of a job with these keys of `kubernetes`."""
    pod = DriverPod.model_validate({"image": "watcher:1", "executor": {"cpu": "1500m", "memory": "2Gi"}, **keys})
    submission = make_submission("1", Path("/jobs/load.py"), "--day", "1", **more)
    application = in_pod(submission.application, pod, CarriedFiles())
    order, files = driver_command(replace(submission, application=application), pod, PLACE, LeaseTimes())
    template = json.loads(files["executor.json"]) if "executor.json" in files else {}
    return list(order.argv), read_properties(files["spark.properties"].decode()), template


def test_spark_is_told_to_make_executors_that_the_drivers_pod_owns() -> None:
    argv, properties, _ = started({})
    words = dict(pairwise(argv))
    assert words["--master"] == "k8s://https://kubernetes.default.svc"
    assert words["--deploy-mode"] == "client"
    assert words["--conf"] == "spark.driver.host={POD_IP}"
    assert argv.index("spark.driver.host={POD_IP}") < argv.index("/asset-watcher/secret/load.py")
    assert properties["spark.kubernetes.namespace"] == "spark"
    assert properties["spark.kubernetes.driver.pod.name"] == names.pod_name("run-1-1")
    assert properties["spark.kubernetes.container.image"] == "watcher:1"
    assert properties["spark.kubernetes.executor.podTemplateFile"] == "/asset-watcher/secret/executor.json"
    assert properties["spark.kubernetes.executor.disableConfigMap"] == "true"


def test_without_executors_nothing_of_them_is_said() -> None:
    argv, properties, template = started({"executor": None}, master="local[*]")
    assert dict(pairwise(argv))["--master"] == "local[*]"
    assert not any(name.startswith(("spark.kubernetes.", "spark.executor.")) for name in properties)
    assert template == {}


def test_heap_and_overhead_fill_the_executors_container() -> None:
    _, properties, _ = started({})
    assert (properties["spark.executor.memory"], properties["spark.executor.memoryOverhead"]) == ("1462m", "586m")
    assert mebibytes("2Gi") == 1462 + 586
    assert properties["spark.kubernetes.executor.request.cores"] == "1500m"


@pytest.mark.parametrize(("cpu", "cores"), [("500m", 1), ("1", 1), ("1500m", 2), ("1.5", 2), ("3", 3)])
def test_an_executor_runs_as_many_tasks_as_it_has_cpu(cpu: str, cores: int) -> None:
    assert PodSize(cpu=cpu).cores == cores


def test_a_job_may_say_how_many_tasks_and_executors_there_are() -> None:
    assert started({})[1]["spark.executor.cores"] == "2"
    assert started({}, conf={"spark.executor.cores": "4"})[1]["spark.executor.cores"] == "4"
    words = dict(pairwise(started({}, executor_cores=3, num_executors=5)[0]))
    assert (words["--executor-cores"], words["--num-executors"]) == ("3", "5")


def test_a_properties_file_cannot_lead_executors_elsewhere() -> None:
    _, properties, _ = started({}, conf={"spark.kubernetes.namespace": "other", "spark.executor.memory": "9g"})
    assert (properties["spark.kubernetes.namespace"], properties["spark.executor.memory"]) == ("spark", "1462m")


def test_executors_are_found_by_their_try_and_have_no_token_and_no_secret() -> None:
    _, _, template = started({"service_account": "spark"})
    assert template["metadata"] == {"labels": names.labels("run-1-1", PLACE.installation)}
    spec = template["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "spark"
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    [container] = spec["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert "secret-token" not in json.dumps(template)
    assert not any("secret" in volume for volume in spec["volumes"])
    compile(container["command"][-1], "executor", "exec")


def test_the_jobs_template_holds_for_executors_but_its_sidecars_do_not() -> None:
    lake = {"name": "lake", "mountPath": "/lake"}
    template = {
        "metadata": {"labels": {"team": "orders"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "securityContext": {"fsGroup": 10001},
            "volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
            "containers": [
                {"name": "proxy", "image": "proxy:1"},
                {"name": "driver", "volumeMounts": [lake], "imagePullPolicy": "Never"},
            ],
        },
    }
    _, properties, made = started({"template": template})
    spec = made["spec"]
    assert made["metadata"]["labels"]["team"] == "orders"
    assert (spec["nodeSelector"], spec["securityContext"]["fsGroup"]) == ({"disk": "fast"}, 10001)
    assert [each["name"] for each in spec["volumes"]] == ["asset-watcher-home", "lake"]
    [container] = spec["containers"]
    assert (container["name"], lake in container["volumeMounts"]) == ("executor", True)
    assert properties["spark.kubernetes.container.image.pullPolicy"] == "Never", "Spark puts its own in the container"


def test_the_executor_is_started_as_sparks_own_images_start_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    more = {"JAVA_HOME": "/java", "SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=e", "SPARK_JAVA_OPT_3": "-Dx"}
    argv = command({**OF_SPARK, **more, "SPARK_EXTRA_CLASSPATH": "/more.jar"}, Path("/spark"))
    assert argv[:5] == ["/java/bin/java", "-Da=b c", "-Dd=e", "-Xms1462m", "-Xmx1462m"]
    words = dict(pairwise(argv))
    assert words["-cp"] == f"/spark/conf:/spark/jars/*:/more.jar:{tmp_path}"
    assert words["--driver-url"] == "spark://CoarseGrainedScheduler@10.1.2.3:4000"
    assert argv[-2:] == ["--podName", "load-exec-7"]
    assert command(OF_SPARK, Path("/spark"))[0] == "java"


def test_spark_is_found_where_the_driver_finds_it(tmp_path: Path) -> None:
    assert spark_home({"SPARK_HOME": "/opt/spark"}) == Path("/opt/spark")
    for folder in ("jars", "bin"):
        (tmp_path / "spark" / folder).mkdir(parents=True)
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.touch(0o755)
    (tmp_path / "spark-submit").symlink_to(program)
    assert spark_home({"PATH": str(tmp_path)}) == tmp_path / "spark"
    of_package = spark_home({"PATH": str(Path(sys.executable).parent)})
    assert (of_package / "jars").is_dir()
