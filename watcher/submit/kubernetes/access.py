"""What the daemon's account must be allowed to do in the namespace: as a Role, and as questions to the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from watcher.submit.base import Finding
from watcher.submit.kubernetes.api import PodApi

RIGHTS: Final[Mapping[str, Sequence[str]]] = {
    "pods": ("create", "get", "list", "watch", "patch", "delete"),
    "pods/log": ("get",),
    "secrets": ("create", "list", "patch", "delete", "deletecollection"),
    "events": ("list", "watch"),
}
"""The verbs by resource of the core group."""
ACCOUNT: Final = "asset-watcher"


def role(namespace: str, account: str) -> Sequence[Mapping[str, Any]]:
    """Return the Role of the daemon, its service account, and what binds the two. Pure."""
    metadata = {"name": account, "namespace": namespace}
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)} for resource, verbs in RIGHTS.items()]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]


async def access_findings(api: PodApi) -> Sequence[Finding]:
    """Ask the cluster whether our account may do all that a try needs."""
    return [
        Finding(
            check="kubernetes",
            level="error",
            message=f"the daemon's account may not {verb} {resource} in the namespace {api.namespace}",
            remedy="apply what `watcher kubernetes manifest` prints",
        )
        for resource, verbs in RIGHTS.items()
        for verb in verbs
        if not await api.is_allowed(verb, resource)
    ]
