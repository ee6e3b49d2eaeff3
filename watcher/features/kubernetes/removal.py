"""Removes pods and Secrets: one pod, all of an installation, and what no try has any more. Nothing of others is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from watcher.features.kubernetes import names
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.refusals import ApiRefused

_ATTEMPTS: Final = 10


class RemovalDisturbed(Exception):
    """The pod was changed between each read and our change of it. Ask again later."""


async def remove(api: PodApi, pod: Mapping[str, Any]) -> None:
    """Take our finalizer off, and delete exactly this pod. Other finalizers stay."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    for _ in range(_ATTEMPTS):
        if await of_this_object(partial(api.change, "pods", name, _without_finalizer(pod["metadata"]))):
            await of_this_object(partial(api.delete, "pods", name, uid=uid))
            return
        # Its node reports something of it at the same time, or another pod has its name.
        now = await api.read("pods", name)
        if now is None or now["metadata"]["uid"] != uid:
            return
        pod = now
    raise RemovalDisturbed(f"the pod {name} changes all the time")


def _without_finalizer(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    others = [each for each in metadata.get("finalizers", ()) if each != names.FINALIZER]
    same = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
    return {"metadata": {"finalizers": others or None, **same}}


async def of_this_object(request: Callable[[], Awaitable[Any]]) -> bool:
    """Send a request about an object; return False if another one has its name by now."""
    try:
        await request()
    except ApiRefused as refusal:
        if refusal.reason not in {"Conflict", "Invalid"}:
            raise
        return False
    return True


async def sweep(api: PodApi, installation: str, kept: Callable[[], Awaitable[Collection[str]]]) -> int:
    """Remove the pods and Secrets of an installation that belong to no try of which something is kept; return how many.

    They are left by a daemon that was frozen, woke after the end of its try, and died before it could remove what it had
    created; by tries whose runs were deleted; and by Spark, where the cluster honours no owner references. `kept` returns
    the tags of all other tries. It is asked after the objects were listed: a try is recorded before anything is created
    for it.
    """
    selector = f"{names.INSTALLATION}={installation}"
    pods = [each for each in (await api.list("pods", selector))["items"] if _try_of(each["metadata"])]
    secrets = [metadata for metadata in await api.list_metadata("secrets", selector) if _try_of(metadata)]
    if not pods and not secrets:
        return 0
    kept_names = {names.pod_name(tag) for tag in await kept()}
    left_pods = [pod for pod in pods if _try_of(pod["metadata"]) not in kept_names]
    left_secrets = [metadata for metadata in secrets if _try_of(metadata) not in kept_names]
    for pod in left_pods:
        await remove(api, pod)
    for metadata in left_secrets:
        await of_this_object(partial(api.delete, "secrets", metadata["name"], uid=metadata["uid"]))
    return len(left_pods) + len(left_secrets)


def _try_of(metadata: Mapping[str, Any]) -> str:
    """The name of the pod of the try that an object belongs to; '' if it does not say."""
    return str((metadata.get("labels") or {}).get(names.TRY, ""))


async def remove_all(api: PodApi, installation: str) -> int:
    """Remove every pod and Secret of an installation; return the number of drivers. One that runs is stopped."""
    selector = f"{names.INSTALLATION}={installation}"
    pods = (await api.list("pods", selector))["items"]
    for pod in pods:
        await remove(api, pod)
    await api.delete_all("secrets", selector)
    return sum(not names.is_executor(pod) for pod in pods)
