"""The drivers' pods of an installation, kept up to date by one list and one watch for all its tries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
import httpx
from anyio.abc import TaskStatus

from watcher.host.loops import keep_going
from watcher.submit.kubernetes import names
from watcher.submit.kubernetes.api import ApiRefused, PodApi, WatchExpired

_PAUSE: Final = 2.0


class PodWatch:
    """What the API server last reported of each pod. A pod that is missing here may exist: only a read proves that it does not."""

    def __init__(self, api: PodApi, installation: str) -> None:
        self._api = api
        self._selector = names.drivers_of(installation)
        self._pods: dict[str, Mapping[str, Any]] = {}

    def get(self, name: str) -> Mapping[str, Any] | None:
        return self._pods.get(name)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled. Reports started after the first list. While it cannot watch, no pod is known."""
        is_first = True
        while True:
            async with keep_going("kubernetes.watch_failed"):
                version = await self._list()
                if is_first:
                    task_status.started()
                    is_first = False
                await self._follow(version)
            self._pods.clear()
            await anyio.sleep(_PAUSE)

    async def _list(self) -> str:
        listed = await self._api.list("pods", self._selector)
        self._pods = {pod["metadata"]["name"]: pod for pod in listed["items"]}
        version: str = listed["metadata"]["resourceVersion"]
        return version

    async def _follow(self, version: str) -> None:
        """Apply changes for as long as the server remembers them. A watch that ends in time is begun again where it ended."""
        while True:
            try:
                async for event in self._api.watch("pods", self._selector, version):
                    pod = event["object"]
                    version = pod["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        self._pods.pop(pod["metadata"]["name"], None)
                    else:
                        self._pods[pod["metadata"]["name"]] = pod
            except WatchExpired:
                return
            except ApiRefused as refusal:
                if refusal.code != httpx.codes.GONE:
                    raise
                return
