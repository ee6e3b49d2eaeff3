"""What is created for a try: its Secret and its pod, in the shape that the API server takes. Pure.

The driver runs in client mode inside the pod, so the pod is all that a try needs: there is no service and no config map
that could be missing. It passes the Pod Security Standard *restricted*. `executors` has what Spark makes of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from config.features.kubernetes.pod_template import DRIVER, merged
from config.features.kubernetes.settings import DriverPod
from watcher.submit.base import Submission, SubmitError
from watcher.submit.kubernetes import names

MOST_BYTES: Final = 900_000
"""What a Secret may hold: the API server refuses more than 1 MiB of it."""
SECRET: Final = PurePosixPath("/asset-watcher/secret")
WORK: Final = PurePosixPath("/asset-watcher/work")
"""An empty folder on the node's disk: the start marker, and Spark's scratch files."""
PRIVATE: Final = PurePosixPath("/asset-watcher/private")
"""An empty folder in memory, to which the wrapper copies the context (0600): a Secret's files belong to root."""
_VOLUME: Final = "asset-watcher-secret"
WRAPPER: Final = "wrapper.py"
ORDER: Final = "order.json"
CONTEXT: Final = "context.json"
RESTRICTED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD_SECURITY: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
"""With `RESTRICTED` for each container, what the standard *restricted* asks of a pod."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where this installation's pods are."""

    namespace: str
    installation: str


@dataclass(frozen=True, kw_only=True)
class LeaseTimes:
    """When a driver's lease is renewed and ends, in seconds.

    `silent_for` is twice `ends_after`: clocks may differ, and a machine may be slow to kill.
    """

    renew_every: float = 10.0
    """The pause between two renewals."""
    ends_after: float = 60.0
    """The time without an answer of the API after which the wrapper ends the driver."""
    silent_for: float = 120.0
    """The time after the last renewal in which a driver that no node reports may still run."""


@dataclass(frozen=True, kw_only=True)
class DriverCommand:
    """What the wrapper starts in the container. Both belong in the Secret: an environment holds passwords."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    lease: LeaseTimes = field(default_factory=LeaseTimes)


def secret(submission: Submission, place: Place, command: DriverCommand, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The try's Secret, with the files for the driver by name. Raises `SubmitError` if they are too large."""
    pod = names.pod_name(submission.tag)
    contents = {**files, ORDER: json.dumps(_order(command)).encode(), CONTEXT: json.dumps(submission.context).encode()}
    size = sum(map(len, contents.values()))
    if size > MOST_BYTES:
        largest = max(files, key=lambda name: len(files[name]), default="")
        error = SubmitError(
            f"the files of the job are {size:,} bytes and a Secret holds {MOST_BYTES:,}; "
            f"put them, {largest} first, in the image (local:///…) or on S3"
        )
        error.retryable = False
        raise error
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": names.secret_name(pod, submission.context["token"]),
            "namespace": place.namespace,
            "labels": names.labels(submission.tag, place.installation),
            "annotations": _annotations(submission.tag, place),
        },
        "data": {name: base64.b64encode(content).decode() for name, content in contents.items()},
    }


def _order(command: DriverCommand) -> Mapping[str, Any]:
    lease = {"renew_every": command.lease.renew_every, "lease": command.lease.ends_after}
    return {"argv": command.argv, "environment": command.environment, **lease}


def owned_by(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The change of the Secret that has it deleted together with the pod, once the pod exists."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }
    return {"metadata": {"ownerReferences": [owner]}}


def pod(submission: Submission, place: Place, job: DriverPod) -> dict[str, Any]:
    """The try's pod, which names its Secret: without that Secret its container cannot start."""
    name = names.pod_name(submission.tag)
    driver = {
        "name": DRIVER,
        "image": job.image,
        "command": [submission.application.python or "python3", "-I", str(SECRET / WRAPPER)],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {
            "requests": {"cpu": job.driver.cpu, "memory": job.driver.memory},
            "limits": {"memory": job.driver.memory},
        },
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": _VOLUME, "mountPath": str(SECRET), "readOnly": True},
            {"name": "asset-watcher-work", "mountPath": str(WORK)},
            {"name": "asset-watcher-private", "mountPath": str(PRIVATE)},
        ],
    }
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": place.namespace,
            "labels": names.labels(submission.tag, place.installation),
            "annotations": {
                **_annotations(submission.tag, place),
                "asset-watcher/job": submission.key.instance.dag_id,
                names.DELETE_AFTER: f"{job.delete_after.total_seconds():g}",
                names.START_TIMEOUT: f"{job.start_timeout.total_seconds():g}",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "karpenter.sh/do-not-disrupt": "true",
            },
            "finalizers": [names.FINALIZER],
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": job.executor is not None,
            **({} if job.service_account is None else {"serviceAccountName": job.service_account}),
            "securityContext": POD_SECURITY,
            "containers": [driver],
            "volumes": [
                {"name": _VOLUME, "secret": {"secretName": _secret_of(submission), "optional": False}},
                {"name": "asset-watcher-work", "emptyDir": {}},
                {"name": "asset-watcher-private", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ],
        },
    }
    return merged(job.template, own)


def secret_of(pod: Mapping[str, Any]) -> str:
    """The name of the Secret that a try's pod names."""
    named = (each["secret"]["secretName"] for each in pod["spec"]["volumes"] if each["name"] == _VOLUME)
    return str(next(named))


def has_executors(pod: Mapping[str, Any]) -> bool:
    """Whether a driver's pod may create executors: only then it gets the token of its account."""
    return bool(pod["spec"].get("automountServiceAccountToken"))


def _secret_of(submission: Submission) -> str:
    return names.secret_name(names.pod_name(submission.tag), submission.context["token"])


def _annotations(tag: str, place: Place) -> dict[str, str]:
    return {names.TAG: tag, names.INSTALLATION: place.installation}
