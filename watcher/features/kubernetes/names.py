"""Names, labels and annotations by which a try's objects are found again. All are functions of the try alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

FINALIZER: Final = "asset-watcher/try"
"""Keeps the pod readable after its end, whoever deletes it, until its end is committed."""
INSTALLATION: Final = "asset-watcher/installation"
"""The label, and the annotation, with the uuid of the metadata database. One namespace may have several installations."""
TRY: Final = "asset-watcher/try"
"""The label of everything that belongs to one try; its value is the pod's name."""
_ROLE: Final = "spark-role"
"""The label that Spark gives to the pods it makes; its value is `executor`."""
TAG: Final = "asset-watcher/tag"
"""The annotation with the whole tag: the name holds a part of its hash only."""
DELETE_AFTER: Final = "asset-watcher/delete-after"
"""The annotation with the seconds for which the pod is kept after its end was committed."""
START_TIMEOUT: Final = "asset-watcher/start-timeout"
"""The annotation with the seconds within which the driver's container must start."""
LATE: Final = "asset-watcher/late"
"""The annotation that says why the try failed before its container started. It is written before the pod is deleted."""
STOPPED: Final = "asset-watcher/stopped"
"""The annotation that says that the daemon asked the try to end. It is written before the pod is deleted."""

_PREFIX: Final = "aw-"


def pod_name(tag: str) -> str:
    """The name of the try's pod. The same tag always gives the same name, so a second pod of a try is refused."""
    return f"{_PREFIX}{hashlib.sha256(tag.encode()).hexdigest()[:24]}"


def secret_name(pod: str, token: str) -> str:
    """The name of the Secret for one submission of the try: another token, and thus a later submission, has another one."""
    return f"{pod}-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def is_pod_name(name: str) -> bool:
    """Whether a name could be one of a try's pod. A stranger's may look like it."""
    return name.startswith(_PREFIX)


def labels(tag: str, installation: str) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "asset-watcher", INSTALLATION: installation, TRY: pod_name(tag)}


def of_try(pod: str, installation: str) -> str:
    """The selector of everything that belongs to the try whose pod has this name."""
    return f"{TRY}={pod},{INSTALLATION}={installation}"


def drivers_of(installation: str) -> str:
    """The selector of an installation's drivers."""
    return f"{INSTALLATION}={installation},{_ROLE}!=executor"


def executors_of(pod: str, installation: str) -> str:
    """The selector of the executors of a try, whose driver's pod has this name."""
    return f"{INSTALLATION}={installation},{TRY}={pod},{_ROLE}=executor"


def is_executor(pod: Mapping[str, Any]) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(_ROLE) == "executor")


def is_of_try(metadata: Mapping[str, Any], tag: str, installation: str) -> bool:
    """Whether an object is the try's own. One with its name alone may be a stranger's, or another installation's."""
    annotations = metadata.get("annotations") or {}
    return (annotations.get(TAG), annotations.get(INSTALLATION)) == (tag, installation)
