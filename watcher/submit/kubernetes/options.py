"""A job's keys for drivers on Kubernetes, and those of its other keys that a pod could not honour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.models import SparkParameters
from config.models.kubernetes import DriverPod
from config.section import Section


class KubernetesOptions(Section):
    kubernetes: DriverPod
    """The pod of the driver."""


def refusals(application: SparkParameters, pod: DriverPod) -> Iterator[tuple[str, str]]:
    """Yield each key of the `spark` section that a pod could not honour, and a sentence with the remedy."""
    defaults = SparkParameters(application="/")
    if pod.executor is not None:
        yield "kubernetes.executor", "is not built yet: remove it; all tasks run in the driver's pod"
    if application.master != defaults.master:
        yield "master", "is set for each pod: remove it"
    if application.driver_memory != defaults.driver_memory:
        yield "driver_memory", "is the rest of `kubernetes.driver.memory`: remove it"
    of_executors = {
        "executor_memory": application.executor_memory,
        "executor_cores": application.executor_cores,
        "num_executors": application.num_executors,
        "dynamic_allocation": application.dynamic_allocation or None,
    }
    for name, value in of_executors.items():
        if value is not None:
            yield name, "is for executors, and all tasks run in the driver's pod: remove it"
    for name in sorted(application.conf):
        if name in OURS or name.startswith(("spark.kubernetes.driver.", "spark.kubernetes.authenticate.")):
            yield f"conf.{name}", "is set for each pod: remove it"


OURS: Final = frozenset(
    {
        *("spark.master", "spark.driver.memory", "spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor"),
        *("spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"),
        *("spark.driver.host", "spark.driver.bindAddress", "spark.kubernetes.namespace"),
        *("spark.kubernetes.container.image", "spark.kubernetes.executor.podTemplateFile"),
        *("spark.kubernetes.executor.request.cores", "spark.local.dir"),
    }
)
"""The properties that the pod's own values decide."""
