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
    defaults = SparkParameters(application="")
    if pod.executor is not None:
        yield "kubernetes.executor", "is not built yet: remove it; all tasks run in the driver's pod"
    if application.master != defaults.master:
        yield "master", "is set by `kubernetes`: remove it; `kubernetes.executor` makes executors"
    if application.driver_memory != defaults.driver_memory:
        yield "driver_memory", "is the rest of `kubernetes.driver.memory`: remove it"
    if application.executor_memory is not None:
        yield "executor_memory", "is the rest of `kubernetes.executor.memory`: remove it"
    of_executors = {
        "num_executors": application.num_executors,
        "executor_cores": application.executor_cores,
        "dynamic_allocation": application.dynamic_allocation or None,
    }
    for name, value in of_executors.items():
        if pod.executor is None and value is not None:
            yield name, "needs `kubernetes.executor`: add it"
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
