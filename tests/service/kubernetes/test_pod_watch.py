"""One list and one watch for all pods of an installation, and one for the warnings of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.kubernetes_api import ADMIN
from tests.service.kubernetes.conftest import namespace_of
from tests.stand_in_kubernetes import stand_in_kubernetes
from watcher.features.kubernetes import names
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.cluster import Cluster
from watcher.features.kubernetes.connection import ApiConnection
from watcher.features.kubernetes.pod_watch import EventWatch, PodWatch

SAFE: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
async def pods(connection: ApiConnection, api: httpx.Client) -> PodApi:
    return PodApi(connection, namespace_of(api))


def pod(name: str, installation: str) -> Mapping[str, Any]:
    metadata = {"name": name, "labels": {names.INSTALLATION: installation}}
    container = {"name": "driver", "image": "x", "securityContext": SAFE}
    return {"metadata": metadata, "spec": {"containers": [container]}}


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.02)


async def test_it_knows_what_was_there_what_comes_and_what_goes_and_no_strangers(pods: PodApi) -> None:
    await pods.create("pods", pod("before", "ours"))
    watch = PodWatch(pods, "ours")
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch.run)
        assert watch.get("before") is not None
        await pods.create("pods", pod("stranger", "theirs"))
        made = await pods.create("pods", pod("after", "ours"))
        await until(lambda: watch.get("after"))
        await pods.change("pods", "after", {"metadata": {"annotations": {"a": "b"}}})
        await until(lambda: (watch.get("after") or {})["metadata"].get("annotations") == {"a": "b"})
        await pods.delete("pods", "after", uid=made["metadata"]["uid"], grace=0)
        await until(lambda: watch.get("after") is None)
        executor = pod("executor", "ours")
        executor["metadata"]["labels"]["spark-role"] = "executor"
        await pods.create("pods", executor)
        await pods.create("pods", pod("last", "ours"))
        await until(lambda: watch.get("last"))
        assert (watch.get("stranger"), watch.get("executor")) == (None, None)
        tasks.cancel_scope.cancel()


def warning(namespace: str, pod: str, uid: str, message: str, **more: Any) -> Mapping[str, Any]:
    involved = {"kind": "Pod", "namespace": namespace, "name": pod, "uid": uid}
    about = {"involvedObject": involved, "message": message, "reason": "FailedMount", "type": "Warning", **more}
    return {"metadata": {"name": f"{pod}.{uuid4().hex[:8]}", "namespace": namespace}, **about}


async def test_it_knows_the_newest_warning_of_a_pod(pods: PodApi) -> None:
    of = partial(warning, pods.namespace)
    later = "2026-11-27T02:00:01Z"
    await pods.create("events", of("aw-1", "u1", "newer", lastTimestamp=later))
    await pods.create("events", of("aw-1", "u1", "older", lastTimestamp="2026-11-27T02:00:00Z"))
    await pods.create("events", of("stranger", "u2", "no pod of ours"))
    await pods.create("events", of("aw-3", "u3", "pulled", type="Normal"))
    await pods.create(
        "events",
        of(
            "aw-4",
            "u4",
            "a node",
            involvedObject={"kind": "Node", "namespace": pods.namespace, "name": "aw-4", "uid": "u4"},
        ),
    )
    watch = EventWatch(pods)
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch.run)
        assert [watch.warning(f"u{number}") for number in range(1, 5)] == ["newer", "", "", ""]
        made = await pods.create("events", of("aw-5", "u5", "secret not found"))
        await until(lambda: watch.warning("u5") == "secret not found")
        await pods.delete("events", made["metadata"]["name"], uid=made["metadata"]["uid"])
        await until(lambda: watch.warning("u5") == "")
        tasks.cancel_scope.cancel()


async def test_it_goes_on_when_the_server_restarts_and_when_it_has_forgotten_the_changes() -> None:
    with stand_in_kubernetes() as kubernetes:
        async with Cluster(server=kubernetes.address, token=ADMIN).connection() as connection:
            api = PodApi(connection, kubernetes.new_namespace())
            watch = PodWatch(api, "ours")
            async with anyio.create_task_group() as tasks:
                await tasks.start(watch.run)
                for number, compacts in enumerate((False, True)):
                    kubernetes.restart(compacts=compacts)
                    await api.create("pods", pod(f"after-{number}", "ours"))
                    await until(lambda number=number: watch.get(f"after-{number}"))
                tasks.cancel_scope.cancel()
