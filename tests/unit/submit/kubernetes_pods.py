"""Makes the submitter of pods for the stand-in of Kubernetes, here or in a process to be killed."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from config.features.kubernetes.settings import KubernetesSettings
from tests.stand_in_kubernetes import TOKEN
from tests.unit.submit.plain import workspace
from watcher.installed import known_settings
from watcher.submit.kubernetes.submitter import KubernetesPods

NAMESPACE: Final = "STAND_IN_NAMESPACE"


@dataclass(frozen=True)
class SilentTries:
    """Every driver has been silent for so many seconds, and every try is still this home's."""

    seconds: float

    async def silence(self, tag: str) -> float:  # noqa: ARG002
        return self.seconds

    async def was_renewed(self, tag: str) -> bool:  # noqa: ARG002
        return False

    async def may_start(self, tag: str) -> bool:  # noqa: ARG002
        return True

    async def kept(self) -> Collection[str]:
        return ()


def write_kubeconfig(folder: Path, server: str, token: str = TOKEN, **cluster: str) -> Path:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.write_text(json.dumps(content))
    return path


def kubernetes_pods(
    home: Path, environment: Mapping[str, str] = os.environ, *, silence: float = 1000.0
) -> KubernetesPods:
    """`environment` has KUBECONFIG, and the namespace. `silence` is that of drivers in seconds: by default it is long enough."""
    pods = KubernetesSettings(context="test", namespace=environment[NAMESPACE])
    settings = known_settings(()).model.model_validate({"kubernetes": pods})
    lent = replace(workspace(home, environment), settings=settings, installation="0a-0b", tries=SilentTries(silence))
    return KubernetesPods(lent)
