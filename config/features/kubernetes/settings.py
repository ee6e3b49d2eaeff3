"""Drivers as pods: the `settings.kubernetes` section, a job's `kubernetes` keys, and the memory that they leave for a heap."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.errors import KeyPath
from config.features.kubernetes.pod_template import template_fault
from config.models.settings import NamedEntries, Settings, SettingsPart
from config.models.values import Address, Duration, PositiveDuration
from config.section import Section

_MIB: Final = 2**20
_UNITS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_OVERHEAD_FACTOR: Final = 0.4
"""Spark's `spark.driver.memoryOverheadFactor` for Python on Kubernetes; executors have the same."""
_LEAST_OVERHEAD: Final = 384
_LEAST_HEAP: Final = 512
_LARGEST_GIBIBYTES: Final = 64
"""The largest number without a unit that is taken for GiB in a suggestion."""
LEAST_MEMORY: Final = _LEAST_HEAP + _LEAST_OVERHEAD
"""MiB below which Spark would not start: it refuses a heap of less than 450 MiB."""


def mebibytes(quantity: str) -> int:
    """The whole MiB in a quantity of Kubernetes, such as `2Gi`."""
    match = re.fullmatch("([0-9]+)([A-Za-z]*)", quantity)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"must be an amount of memory such as `1500Mi` or `2Gi`{_remedy(quantity)}")
    return int(match[1]) * _UNITS[match[2]] // _MIB


def _remedy(written: str) -> str:
    """What to write for another spelling, such as `2g`, `2GB` or `512m`, which are `2Gi` and `512Mi`."""
    match = re.fullmatch(r"\s*([1-9][0-9]*)\s*([kmgt]?)(?:i?b)?\s*", written, re.IGNORECASE)
    if match is None:
        return ""
    unit = match[2].upper() or ("G" if int(match[1]) <= _LARGEST_GIBIBYTES else "M")
    return f": write `{match[1]}{unit}i`"


def heap_mb(memory_mb: int) -> int:
    """The largest heap that a container of this memory has room for beside Spark's own overhead."""
    return min(memory_mb - _LEAST_OVERHEAD, int(memory_mb / (1 + _OVERHEAD_FACTOR)))


def _check_memory(quantity: Any) -> Any:
    if not isinstance(quantity, str) or (quantity.isdigit() and int(quantity) < _MIB):
        raise ValueError(
            f"must be an amount of memory with its unit, such as `1500Mi` or `2Gi`{_remedy(str(quantity))}"
        )
    if mebibytes(quantity) < LEAST_MEMORY:
        raise ValueError(
            f"must be at least `{LEAST_MEMORY}Mi`: Spark needs a heap of {_LEAST_HEAP} MiB, and {_LEAST_OVERHEAD} MiB beside it"
        )
    return quantity


def _check_cpu(quantity: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*m|[1-9][0-9]*(\.[0-9]{1,3})?|0\.(?!0+$)[0-9]{1,3}", quantity):
        raise ValueError("must be an amount of CPU such as `500m`, `1` or `1.5`")
    return quantity


def _check_template(template: dict[str, Any]) -> dict[str, Any]:
    if fault := template_fault(template):
        raise ValueError(fault)
    return template


ContainerMemory: TypeAlias = Annotated[str, BeforeValidator(_check_memory)]
Cpu: TypeAlias = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(_check_cpu)]


class PodSize(Section):
    cpu: Cpu = "1"
    """CPU that is requested for the container."""
    memory: ContainerMemory = "1Gi"
    """Memory of the container, requested and at most. The heap is what Spark's overhead leaves of it."""

    @property
    def cores(self) -> int:
        """The number of tasks at a time: the CPU, rounded up."""
        return math.ceil(float(self.cpu.removesuffix("m")) / (1000 if self.cpu.endswith("m") else 1))

    @property
    def heap(self) -> int:
        return heap_mb(mebibytes(self.memory))


class DriverPod(Section):
    """The keys below `kubernetes` in a job's `spark` section."""

    image: Annotated[str, Field(min_length=1)]
    """The image of driver and executors. It has Python and PySpark."""
    service_account: str | None = None
    """The service account of the driver; null is the namespace's default. Only a driver with executors gets its token, and creates them
    by its rights."""
    template: Annotated[dict[str, Any], AfterValidator(_check_template)] = Field(default_factory=dict)
    """A pod template (`metadata` and `spec`), which the driver's pod is made from, and those of executors, without sidecars."""
    driver: PodSize = PodSize()
    """Size of the driver."""
    executor: PodSize | None = None
    """Size of each executor, which is a pod of its own; without it all tasks run in the driver's pod. An executor runs as many tasks at a
    time as it has CPU, rounded up, unless `executor_cores` says otherwise."""
    start_timeout: PositiveDuration = timedelta(minutes=30)
    """Time within which the container must start."""
    delete_after: Duration = timedelta(hours=1)
    """How long the pod is kept after its end was recorded."""


_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_namespace(name: str) -> str:
    if not _LABEL.fullmatch(name):
        raise ValueError("must be the name of a namespace: at most 63 of a-z, 0-9 and `-`, no `-` at its ends")
    return name


class KubernetesSettings(Section):
    context: Annotated[str, Field(min_length=1)] | None = None
    """A context of the kubeconfig (`KUBECONFIG`, or `~/.kube/config`). Give either it or `in_cluster`."""
    in_cluster: bool = False
    """Use the cluster that the daemon itself runs in, with the service account of its pod."""
    namespace: Annotated[str, AfterValidator(_check_namespace)]
    """The namespace of all drivers."""
    api_url: Address | None = None
    """The address at which pods reach the daemon's API; null is `settings.api.base_url`."""

    @model_validator(mode="after")
    def _one_cluster(self) -> Self:
        if (self.context is None) is not self.in_cluster:
            raise ValueError("needs either a `context` or `in_cluster: true`")
        return self


class KubernetesPart(SettingsPart):
    kubernetes: KubernetesSettings | None = None
    """The cluster and the namespace of drivers that run as pods (`submitter: kubernetes`); see docs/kubernetes.md."""

    @classmethod
    def is_configured(cls, settings: Settings) -> bool:
        return settings.part(cls).kubernetes is not None

    @classmethod
    def faults(cls, settings: Settings, entries: NamedEntries) -> Iterator[tuple[KeyPath, str]]:
        """Yield the jobs that run in pods although the settings name no cluster, or no address that pods reach."""
        kubernetes = settings.part(cls).kubernetes
        if kubernetes is None:
            sentence = "needs settings.kubernetes, which names cluster and namespace: add it"
        elif (kubernetes.api_url or settings.api.base_url) is None:
            sentence = (
                "needs an address of the API that pods reach: set settings.kubernetes.api_url, or settings.api.base_url"
            )
        else:
            return
        for name, job in entries.jobs.items():
            if job is not None and job.spark.submitter == "kubernetes":
                yield ("jobs", name, "spark", "submitter"), sentence
