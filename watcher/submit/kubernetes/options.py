"""A job's keys for drivers on Kubernetes, and those of its other keys that a pod could not honour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.features.kubernetes.settings import DriverPod
from config.models import SparkParameters
from config.section import Section


class KubernetesOptions(Section):
    kubernetes: DriverPod
    """The pod of the driver."""


def refusals(application: SparkParameters, pod: DriverPod) -> Iterator[tuple[str, str]]:
    """Yield each key of the `spark` section that a pod could not honour, and a sentence with the remedy."""
    defaults = SparkParameters(application="/")
    if application.master != defaults.master:
        yield "master", "is set for each pod: remove it"
    if application.driver_memory != defaults.driver_memory:
        yield "driver_memory", "is the rest of `kubernetes.driver.memory`: remove it"
    yield from _of_executors(application) if pod.executor is None else _of_their_memory(application)
    for name in sorted(application.conf):
        if name in OURS or name.startswith(_OURS_BELOW):
            yield f"conf.{name}", "is set for each pod: remove it"


def _of_executors(application: SparkParameters) -> Iterator[tuple[str, str]]:
    """Yield what is for executors of a job without any."""
    given = {
        "executor_memory": application.executor_memory,
        "executor_cores": application.executor_cores,
        "num_executors": application.num_executors,
        "dynamic_allocation": application.dynamic_allocation or None,
        **{f"conf.{name}": application.conf.get(name) for name in _COUNTS},
    }
    for name, value in given.items():
        if value is not None:
            yield (
                name,
                "is for executors, and all tasks run in the driver's pod: give `kubernetes.executor`, or remove it",
            )


def _of_their_memory(application: SparkParameters) -> Iterator[tuple[str, str]]:
    """Yield what would make an executor's memory another than `kubernetes.executor.memory`."""
    if application.executor_memory is not None:
        yield "executor_memory", "is the rest of `kubernetes.executor.memory`: remove it"
    for name in _ADDED:
        if name in application.conf:
            yield f"conf.{name}", "would be added to `kubernetes.executor.memory`: remove it"


_COUNTS: Final = ("spark.executor.instances", "spark.dynamicAllocation.enabled")
_ADDED: Final = ("spark.executor.pyspark.memory", "spark.memory.offHeap.enabled")
_OURS_BELOW: Final = (
    *("spark.kubernetes.driver.", "spark.kubernetes.authenticate."),
    "spark.kubernetes.executor.label.asset-watcher/",
)
OURS: Final = frozenset(
    {
        *("spark.master", "spark.driver.memory", "spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor"),
        *("spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"),
        *("spark.driver.host", "spark.driver.bindAddress", "spark.kubernetes.namespace"),
        *("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image", "spark.local.dir"),
        *("spark.kubernetes.executor.podTemplateFile", "spark.kubernetes.executor.podTemplateContainerName"),
        *("spark.kubernetes.executor.request.cores", "spark.kubernetes.executor.disableConfigMap"),
    }
)
"""The properties that the pod's own values decide."""
