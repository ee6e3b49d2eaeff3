"""Executors as pods, which Spark itself creates and deletes: the properties that tell it how, and their pod template. Pure.

The driver's pod owns them, so the cluster deletes them with it. There is no service, because executors reach the driver by its
pod's address, and no config map. They get neither the try's Secret nor a token of an account.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from config.features.kubernetes.pod_template import driver_of, merged
from config.features.kubernetes.settings import DriverPod, PodSize, mebibytes
from watcher.submit.kubernetes import executor_start, names
from watcher.submit.kubernetes.manifest import POD_SECURITY, RESTRICTED, SECRET, Place

MASTER: Final = "k8s://https://kubernetes.default.svc"
"""The API server as pods reach it in every cluster, and Spark's own default."""
TEMPLATE: Final = "executor.json"
"""The file of the Secret with the executors' pod template."""
DRIVER_HOST: Final = ("--conf", "spark.driver.host={POD_IP}")
"""The words in which the wrapper puts the address of the driver's pod."""
_HOME: Final = PurePosixPath("/asset-watcher/home")
"""An empty folder on the node's disk, in which an executor works. Spark's scratch files are elsewhere, as for the driver."""
_CONTAINER: Final = "executor"
_PROGRAM: Final = inspect.getsource(executor_start)


def properties(job: DriverPod, size: PodSize, tag: str, place: Place) -> dict[str, str]:
    """What Spark has to be told. Heap and overhead fill the container exactly."""
    pull_policy = driver_of(job.template).get("imagePullPolicy")
    return {
        "spark.kubernetes.namespace": place.namespace,
        "spark.kubernetes.driver.pod.name": names.pod_name(tag),
        "spark.kubernetes.driver.service.deleteOnTermination": "false",  # there is none
        "spark.kubernetes.container.image": job.image,
        **({} if pull_policy is None else {"spark.kubernetes.container.image.pullPolicy": pull_policy}),
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.podTemplateFile": str(SECRET / TEMPLATE),
        "spark.kubernetes.executor.podTemplateContainerName": _CONTAINER,
        "spark.kubernetes.executor.request.cores": size.cpu,
        "spark.executor.memory": f"{size.heap}m",
        "spark.executor.memoryOverhead": f"{mebibytes(size.memory) - size.heap}m",
    }


def template(job: DriverPod, python: str, tag: str, place: Place) -> dict[str, Any]:
    """The pod that Spark makes executors from. The job's template holds for them too, but not its sidecars."""
    container = {
        "name": _CONTAINER,
        "command": [python, "-I", "-c", _PROGRAM],
        "workingDir": str(_HOME),
        "env": [{"name": name, "value": str(_HOME)} for name in ("HOME", "TMPDIR")],
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "asset-watcher-home", "mountPath": str(_HOME)}],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": names.labels(tag, place.installation)},
        "spec": {
            "automountServiceAccountToken": False,
            **({} if job.service_account is None else {"serviceAccountName": job.service_account}),
            "securityContext": POD_SECURITY,
            "containers": [container],
            "volumes": [{"name": "asset-watcher-home", "emptyDir": {}}],
        },
    }
    return merged(_without_sidecars(job.template), own)


def _without_sidecars(template: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = driver_of(template)
    return {**template, "spec": {**template.get("spec", {}), "containers": [driver] if driver else []}}
