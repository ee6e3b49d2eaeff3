"""The keys of a job for drivers on Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from config.features.kubernetes.settings import DriverPod, PodSize, mebibytes
from watcher.features.kubernetes.options import KubernetesOptions, refusals
from watcher.submit.base import SparkApplication


@pytest.mark.parametrize(
    ("quantity", "mb"), [("2Gi", 2048), ("1500Mi", 1500), ("2G", 1907), ("1073741824", 1024), ("1Ti", 1_048_576)]
)
def test_memory_is_read_as_kubernetes_writes_it(quantity: str, mb: int) -> None:
    assert mebibytes(quantity) == mb


@pytest.mark.parametrize(
    ("memory", "heap"), [("896Mi", 512), ("1Gi", 640), ("1344Mi", 960), ("2Gi", 1462), ("14Gi", 10240)]
)
def test_the_heap_and_sparks_overhead_fill_the_container(memory: str, heap: int) -> None:
    """Spark adds the larger of 384 MiB and 40 % of the heap for a Python program on Kubernetes."""
    assert PodSize(memory=memory).heap == heap
    assert heap + max(384, int(0.4 * heap)) <= mebibytes(memory)
    assert heap + 1 + max(384, 0.4 * (heap + 1)) > mebibytes(memory)


@pytest.mark.parametrize("memory", ["895Mi", "512m", "2 Gi", "1.5Gi", ""])
def test_memory_in_which_spark_cannot_start_is_refused(memory: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        PodSize(memory=memory)


@pytest.mark.parametrize("cpu", ["1", "500m", "1.5", "0.25", 2])
def test_cpu_is_read_as_kubernetes_writes_it(cpu: Any) -> None:
    assert PodSize(cpu=cpu).cpu == str(cpu)


@pytest.mark.parametrize("cpu", ["0", "0.0", "-1", "1k", "", "m"])
def test_cpu_that_is_none_is_refused(cpu: str) -> None:
    with pytest.raises(ValueError, match="amount of CPU"):
        PodSize(cpu=cpu)


def test_a_job_needs_an_image_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="image"):
        KubernetesOptions.model_validate({"kubernetes": {}})
    pod = KubernetesOptions.model_validate({"kubernetes": {"image": "watcher:1"}}).kubernetes
    assert (pod.driver.memory, pod.executor) == ("1Gi", None)
    assert (pod.start_timeout.total_seconds(), pod.delete_after.total_seconds()) == (1800, 3600)
    with pytest.raises(ValueError, match="start_timeout"):
        DriverPod.model_validate({"image": "x", "start_timeout": "0s"})


ALONE = DriverPod(image="x")
WITH_EXECUTORS = DriverPod.model_validate({"image": "x", "executor": {}})


@pytest.mark.parametrize(
    ("keys", "pod", "refused"),
    [
        ({}, ALONE, []),
        ({"master": "yarn"}, ALONE, ["master"]),
        ({"driver_memory": "2g"}, ALONE, ["driver_memory"]),
        ({"conf": {"spark.executor.instances": "3"}}, ALONE, ["conf.spark.executor.instances"]),
        ({"num_executors": 3, "executor_cores": 2, "dynamic_allocation": {"min": 1}}, WITH_EXECUTORS, []),
        ({"conf": {"spark.executor.instances": "3"}}, WITH_EXECUTORS, []),
        ({"executor_memory": "2g"}, WITH_EXECUTORS, ["executor_memory"]),
        ({"master": "k8s://https://x"}, WITH_EXECUTORS, ["master"]),
        ({"conf": {"spark.executor.pyspark.memory": "1g"}}, WITH_EXECUTORS, ["conf.spark.executor.pyspark.memory"]),
        ({"conf": {"spark.executor.memory": "1g"}}, WITH_EXECUTORS, ["conf.spark.executor.memory"]),
        (
            {
                "conf": {
                    "spark.kubernetes.executor.label.team": "x",
                    "spark.kubernetes.executor.label.asset-watcher/try": "x",
                }
            },
            WITH_EXECUTORS,
            ["conf.spark.kubernetes.executor.label.asset-watcher/try"],
        ),
        ({"executor_memory": "2g"}, ALONE, ["executor_memory"]),
        ({"num_executors": 3, "executor_cores": 2}, ALONE, ["executor_cores", "num_executors"]),
        ({"dynamic_allocation": True}, ALONE, ["dynamic_allocation"]),
        ({"conf": {"spark.driver.host": "x", "spark.sql.shuffle.partitions": "2"}}, ALONE, ["conf.spark.driver.host"]),
        ({"conf": {"spark.kubernetes.driver.pod.name": "x"}}, ALONE, ["conf.spark.kubernetes.driver.pod.name"]),
    ],
)
def test_what_a_pod_could_not_honour_is_refused(keys: dict[str, Any], pod: DriverPod, refused: list[str]) -> None:
    application = SparkApplication.model_validate({"application": "/a.py", "env": {}, **keys})
    assert [name for name, _ in refusals(application, pod)] == refused


@pytest.mark.parametrize(
    ("written", "meant"),
    [(2, "2Gi"), ("2", "2Gi"), ("2g", "2Gi"), ("2GB", "2Gi"), (2048, "2048Mi"), ("1500 MiB", "1500Mi")],
)
def test_memory_in_another_spelling_is_named_with_its_unit(written: object, meant: str) -> None:
    with pytest.raises(ValueError, match=f"such as `1500Mi` or `2Gi`: write `{meant}`"):
        PodSize.model_validate({"memory": written})
