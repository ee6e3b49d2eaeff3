"""Requests to Kubernetes' API for pods, Secrets and events of one namespace."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from config.features.kubernetes.pod_template import DRIVER
from watcher.submit.kubernetes.refusals import ApiRefused, WatchExpired

if TYPE_CHECKING:  # it imports aiohttp, and most daemons have no pods
    from watcher.submit.kubernetes.connection import ApiConnection

Kind: TypeAlias = Literal["pods", "secrets", "events"]
_REVIEWS: Final = "authorization.k8s.io/v1"
_OF_LISTS: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
_OF_ONE: Final = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
WATCHED_FOR: Final = 300
"""Seconds after which the server ends a watch, which is then begun again."""


@dataclass(frozen=True)
class PodApi:
    """One namespace. What is raised, apart from `ApiRefused`, is a temporary failure."""

    connection: ApiConnection
    namespace: str

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create the object, and return it as it was stored; of a Secret the metadata alone."""
        return await self._call("POST", self._path(kind), body=body, headers=_accept(kind))

    async def read(self, kind: Kind, name: str) -> Mapping[str, Any] | None:
        """The object as it is now, by a quorum read; None if there is none of this name."""
        return await self._existing("GET", self._path(kind, name))

    async def list(self, kind: Kind, labels: str, fields: str = "") -> Mapping[str, Any]:
        """The objects that both selectors choose, by a quorum read."""
        return await self._call("GET", self._path(kind), query={"labelSelector": labels, "fieldSelector": fields})

    async def list_metadata(self, kind: Kind, labels: str) -> Sequence[Mapping[str, Any]]:
        """The metadata of the objects alone: their contents, such as a Secret's, are not sent."""
        listed = await self._call("GET", self._path(kind), query={"labelSelector": labels}, headers=_OF_LISTS)
        return [each["metadata"] for each in listed["items"] or ()]  # of none the server writes null

    async def change(self, kind: Kind, name: str, change: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Apply a JSON merge patch; None if there is none of this name. A uid and version in it are preconditions."""
        headers = {"Content-Type": "application/merge-patch+json", **_accept(kind)}
        return await self._existing("PATCH", self._path(kind, name), body=change, headers=headers)

    async def delete(self, kind: Kind, name: str, *, uid: str, grace: int | None = None) -> None:
        """Ask for the deletion of exactly this object, with this grace. It may have been deleted before."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._existing("DELETE", self._path(kind, name), body=options)

    async def delete_all(self, kind: Kind, selector: str) -> None:
        await self._call("DELETE", self._path(kind), query={"labelSelector": selector}, headers=_OF_LISTS)

    async def log(self, pod: str, *, since: str | None, most_bytes: int) -> bytes:
        """The driver's log from the second `since` on, each line behind its timestamp."""
        parameters = {"container": DRIVER, "timestamps": "true", "limitBytes": str(most_bytes)}
        more = {} if since is None else {"sinceTime": since}
        return await self.connection.send("GET", f"{self._path('pods', pod)}/log", query={**parameters, **more})

    async def is_allowed(self, verb: str, resource: str) -> bool:
        """Whether our account may do this in the namespace; the resource may have a part, as in `pods/log`."""
        kind, _, part = resource.partition("/")
        asked = {"namespace": self.namespace, "verb": verb, "resource": kind, "subresource": part}
        review = {"apiVersion": _REVIEWS, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        answer = await self._call("POST", f"/apis/{_REVIEWS}/selfsubjectaccessreviews", body=review)
        return bool(answer["status"]["allowed"])

    async def may(self, account: str, verb: str, resource: str) -> bool | None:
        """Whether a service account of the namespace may do this there; None if ours may not ask that."""
        asked = {
            "user": f"system:serviceaccount:{self.namespace}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"],
            "resourceAttributes": {"namespace": self.namespace, "verb": verb, "resource": resource},
        }
        review = {
            "apiVersion": _REVIEWS,
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": self.namespace},
            "spec": asked,
        }
        path = f"/apis/{_REVIEWS}/namespaces/{self.namespace}/localsubjectaccessreviews"
        try:
            answer = await self._call("POST", path, body=review)
        except ApiRefused as refusal:
            if refusal.code == HTTPStatus.FORBIDDEN:
                return None
            raise
        return bool(answer["status"]["allowed"])

    async def cluster_id(self) -> str | None:
        """The uid of the cluster's own namespace, which no other cluster has; None if our account may not read it."""
        try:
            answer = await self._call("GET", "/api/v1/namespaces/kube-system")
        except ApiRefused:
            return None
        return str(answer["metadata"]["uid"])

    async def watch(self, kind: Kind, labels: str, version: str, fields: str = "") -> AsyncGenerator[Mapping[str, Any]]:
        """Yield each change after this version until the server ends the watch. Raises `WatchExpired`."""
        where = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCHED_FOR),
        }
        async with aclosing(self.connection.lines(self._path(kind), where, silent_for=WATCHED_FOR + 30.0)) as lines:
            async for line in lines:
                event: Mapping[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    raise WatchExpired(event["object"].get("message", ""))
                yield event

    async def _existing(self, method: str, path: str, **request: Any) -> Mapping[str, Any] | None:
        try:
            return await self._call(method, path, **request)
        except ApiRefused as refusal:
            if refusal.reason == "NotFound":
                return None
            raise

    async def _call(self, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(await self.connection.send(method, path, **request))
        return answer

    def _path(self, kind: Kind, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")


def _accept(kind: Kind) -> Mapping[str, str]:
    """The headers with which a Secret is not sent back: it is up to a megabyte."""
    return _OF_ONE if kind == "secrets" else {}
