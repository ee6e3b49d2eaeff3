"""Objects of one kind, kept up to date by one list and one watch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final

import anyio
import structlog
from anyio.abc import TaskStatus

from watcher.features.kubernetes.api import Kind, PodApi
from watcher.features.kubernetes.refusals import ApiRefused, WatchExpired
from watcher.host.loops import keep_going

_PAUSE: Final = 2.0
_FORBIDDEN_PAUSE: Final = 60.0

log = structlog.get_logger()


class ObjectWatch(ABC):
    """Follows the objects that its selectors choose. While it cannot watch, no object is known."""

    kind: ClassVar[Kind]
    fields: ClassVar[str] = ""

    def __init__(self, api: PodApi, labels: str = "") -> None:
        self._api = api
        self._labels = labels

    @abstractmethod
    def _replace(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Take these as all objects there are."""

    @abstractmethod
    def _put(self, changed: Mapping[str, Any]) -> None:
        """Take the new state of an object."""

    @abstractmethod
    def _drop(self, deleted: Mapping[str, Any]) -> None:
        """Forget a deleted object."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled. Reports started after the first list."""
        is_first = True
        while True:
            async with keep_going("kubernetes.watch_failed"):
                listed = await self._list()
                self._replace(listed["items"])
                if is_first:
                    task_status.started()
                    is_first = False
                await self._follow(listed["metadata"]["resourceVersion"])
            self._replace(())
            await anyio.sleep(_PAUSE)

    async def _list(self) -> Mapping[str, Any]:
        """List the objects, once our account may do so: a Role of an earlier release lacks what this one reads."""
        while True:
            try:
                return await self._api.list(self.kind, self._labels, self.fields)
            except ApiRefused as refusal:
                if refusal.code != HTTPStatus.FORBIDDEN:
                    raise
                remedy = "apply what `watcher kubernetes manifest` prints"
                log.warning("kubernetes.watch_forbidden", resource=self.kind, refusal=refusal.message, remedy=remedy)
            await anyio.sleep(_FORBIDDEN_PAUSE)

    async def _follow(self, version: str) -> None:
        """Apply changes for as long as the server remembers them. A watch that ends in time is begun again where it ended."""
        while True:
            try:
                async for event in self._api.watch(self.kind, self._labels, version, self.fields):
                    version = event["object"]["metadata"]["resourceVersion"]
                    (self._drop if event["type"] == "DELETED" else self._put)(event["object"])
            except WatchExpired:
                return
            except ApiRefused as refusal:
                if refusal.code != HTTPStatus.GONE:
                    raise
                return
