"""What the accounts of daemon and drivers must be allowed to do in the namespace: as Roles, and as questions to the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from watcher.features.kubernetes.api import PodApi
from watcher.submit.base import Finding

RIGHTS: Final[Mapping[str, Sequence[str]]] = {
    "pods": ("create", "get", "list", "watch", "patch", "delete"),
    "pods/log": ("get",),
    "secrets": ("create", "list", "patch", "delete", "deletecollection"),
    "events": ("list", "watch"),
}
"""The verbs of the daemon by resource of the core group."""
_ALL: Final = ("create", "get", "list", "watch", "patch", "delete", "deletecollection")
DRIVER_RIGHTS: Final[Mapping[str, Sequence[str]]] = dict.fromkeys(
    ("pods", "configmaps", "services", "persistentvolumeclaims"), _ALL
)
"""The verbs of a driver with executors: what Spark may do for them, by its options. It reads no Secret."""


def roles(namespace: str, account: str) -> Sequence[Mapping[str, Any]]:
    """Return the service account, Role and RoleBinding of the daemon, and those of drivers with executors. Pure."""
    return [*_role(namespace, account, RIGHTS), *_role(namespace, f"{account}-drivers", DRIVER_RIGHTS)]


def _role(namespace: str, account: str, rights: Mapping[str, Sequence[str]]) -> Sequence[Mapping[str, Any]]:
    metadata = {"name": account, "namespace": namespace}
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)} for resource, verbs in rights.items()]
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


async def driver_findings(api: PodApi, account: str | None) -> Sequence[Finding]:
    """Ask the cluster whether the account of drivers may do all that Spark needs for executors.

    Nothing is found where our own account may not ask for others: that is a right over the whole namespace.
    """
    name, missing = account or "default", []
    for resource, verb in ((resource, verb) for resource, verbs in DRIVER_RIGHTS.items() for verb in verbs):
        allowed = await api.may(name, verb, resource)
        if allowed is None:
            return ()
        if not allowed:
            missing.append(f"{verb} {resource}")
    if not missing:
        return ()
    problem = f"the drivers' account {name} may not {', '.join(missing)} in the namespace {api.namespace}"
    remedy = "apply what `watcher kubernetes manifest` prints, and name its account of drivers in spark.kubernetes.service_account"
    return [Finding(check="kubernetes", level="error", message=problem, remedy=remedy)]
