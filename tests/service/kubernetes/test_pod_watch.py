"""One list and one watch for all pods of an installation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.kubernetes_api import ADMIN
from tests.service.kubernetes.conftest import namespace_of
from watcher.submit.kubernetes import names
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.pod_watch import PodWatch

SAFE: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
async def pods(api: httpx.Client) -> AsyncIterator[PodApi]:
    host = f"{api.base_url.scheme}://{api.base_url.netloc.decode()}"
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(base_url=host, verify=False, headers=headers) as client:  # noqa: S501  a test's own server
        yield PodApi(client, namespace_of(api))


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
