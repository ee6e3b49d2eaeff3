"""What the cluster last reported of an installation's drivers, and what its events say of pods that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from watcher.features.kubernetes import names
from watcher.features.kubernetes.api import Kind, PodApi
from watcher.features.kubernetes.object_watch import ObjectWatch


class PodWatch(ObjectWatch):
    """The pods by name. One that is missing here may exist: only a read proves that it does not."""

    kind: ClassVar[Kind] = "pods"

    def __init__(self, api: PodApi, installation: str) -> None:
        super().__init__(api, names.drivers_of(installation))
        self._pods: dict[str, Mapping[str, Any]] = {}

    def get(self, name: str) -> Mapping[str, Any] | None:
        return self._pods.get(name)

    def _replace(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self._pods = {pod["metadata"]["name"]: pod for pod in objects}

    def _put(self, changed: Mapping[str, Any]) -> None:
        self._pods[changed["metadata"]["name"]] = changed

    def _drop(self, deleted: Mapping[str, Any]) -> None:
        self._pods.pop(deleted["metadata"]["name"], None)


class EventWatch(ObjectWatch):
    """The newest warning of each pod whose name is like ours. The cluster removes events after an hour."""

    kind: ClassVar[Kind] = "events"
    fields: ClassVar[str] = "involvedObject.kind=Pod,type=Warning"

    def __init__(self, api: PodApi) -> None:
        super().__init__(api)
        self._warnings: dict[str, Mapping[str, Any]] = {}

    def warning(self, uid: str) -> str:
        """What was last warned of the pod with this uid; '' for nothing."""
        event = self._warnings.get(uid)
        return "" if event is None else str(event.get("message") or event.get("reason") or "")

    def _replace(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self._warnings = {}
        for event in sorted(objects, key=_moment):
            self._put(event)

    def _put(self, changed: Mapping[str, Any]) -> None:
        if names.is_pod_name(changed["involvedObject"].get("name", "")):
            self._warnings[changed["involvedObject"].get("uid", "")] = changed

    def _drop(self, deleted: Mapping[str, Any]) -> None:
        uid = deleted["involvedObject"].get("uid", "")
        newest = self._warnings.get(uid)
        if newest is not None and newest["metadata"]["name"] == deleted["metadata"]["name"]:
            del self._warnings[uid]


def _moment(event: Mapping[str, Any]) -> str:
    """When it happened last. Newer components write one time, older ones the other."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    return str(next(filter(None, times), ""))
