"""A stand-in for Kubernetes' API server, for the rules that a submitter relies on; tests/service/kubernetes compares them.

It keeps pods and Secrets, finalizers, preconditions, graceful deletion, merge patches and watches. It has no node: a test
plays the kubelet by patching a pod's `status`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

TOKEN = "admin-token"
_KINDS = {"pods": "Pod", "secrets": "Secret", "events": "Event"}


class Refusal(Exception):
    """What a request is answered in place of an object: a `Status`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


class StandInKubernetes:
    """The objects, by namespace, kind and name. `quota` refuses every further pod with its sentence."""

    def __init__(self) -> None:
        self.address = ""
        self.quota = ""
        self.uid = str(uuid4())
        self.logs: dict[str, bytes] = {}
        self.forbidden: set[tuple[str, ...]] = set()
        self.requests: list[str] = []
        self.drop: Callable[..., bool] = lambda _request, **_: False
        """Returns whether a request gets no answer. `is_done`: it has taken effect."""
        self._forgotten_up_to = 0
        self._restarts = 0
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._versions = itertools.count(1)
        self._events: list[tuple[int, str, str, str, dict[str, Any]]] = []
        self._changed = threading.Condition()

    def new_namespace(self) -> str:
        return f"test-{uuid4().hex[:12]}"

    def create(self, namespace: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        key = (namespace, kind, name)
        with self._changed:
            if key in self._objects:
                raise Refusal(409, "AlreadyExists", f'{kind} "{name}" already exists')
            if kind == "pods" and self.quota:
                raise Refusal(403, "Forbidden", f'pods "{name}" is forbidden: {self.quota}')
            made = {"kind": _KINDS[kind], "apiVersion": "v1", **body}
            now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            made["metadata"] = {
                **body["metadata"],
                "namespace": namespace,
                "uid": str(uuid4()),
                "creationTimestamp": now,
            }
            if kind == "pods":
                made["status"] = {"phase": "Pending"}
            return self._store("ADDED", key, made)

    def read(self, namespace: str, kind: str, name: str) -> dict[str, Any]:
        with self._changed:
            return self._existing((namespace, kind, name))

    def patch(self, namespace: str, kind: str, name: str, change: dict[str, Any]) -> dict[str, Any]:
        key = (namespace, kind, name)
        with self._changed:
            before = self._existing(key)
            given = change.get("metadata", {}).get("resourceVersion")
            if given not in {None, before["metadata"]["resourceVersion"]}:
                raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}"')
            if change.get("metadata", {}).get("uid") not in {None, before["metadata"]["uid"]}:
                raise Refusal(409, "Conflict", f'Precondition failed: UID in precondition on {kind} "{name}"')
            if before.get("immutable") and "data" in change:
                raise Refusal(
                    422, "Invalid", f'Secret "{name}" is invalid: data: field is immutable when `immutable` is set'
                )
            after: dict[str, Any] = _merge(before, change)
            marks = after["metadata"]
            if marks.get("deletionGracePeriodSeconds") == 0 and not marks.get("finalizers"):
                return self._remove(key, after)
            return self._store("MODIFIED", key, after)

    def delete(self, namespace: str, kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
        key = (namespace, kind, name)
        with self._changed:
            before = self._existing(key)
            uid = options.get("preconditions", {}).get("uid")
            if uid not in {None, before["metadata"]["uid"]}:
                raise Refusal(409, "Conflict", f'Precondition failed: UID in precondition on {kind} "{name}"')
            grace = options.get("gracePeriodSeconds", 30)
            grace = min(grace, before["metadata"].get("deletionGracePeriodSeconds", grace))
            if kind != "pods" or _is_done(before) or not before["spec"].get("nodeName"):
                grace = 0
            if not grace and not before["metadata"].get("finalizers"):
                return self._remove(key, before)
            until = f"{datetime.now(UTC) + timedelta(seconds=grace):%Y-%m-%dT%H:%M:%SZ}"
            marks = {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}
            return self._store("MODIFIED", key, _merge(before, {"metadata": marks}))

    def list(self, namespace: str, kind: str, selector: str, fields: str = "") -> dict[str, Any]:
        with self._changed:
            items = [each for (space, of, _), each in self._objects.items() if (space, of) == (namespace, kind)]
            version = str(self._events[-1][0] if self._events else self._forgotten_up_to)
        return {"kind": "List", "metadata": {"resourceVersion": version}, "items": _selected(items, selector, fields)}

    def watch(
        self, namespace: str, kind: str, selector: tuple[str, str], after: int, seconds: float
    ) -> Iterator[dict[str, Any]]:
        """Yield every later event; end when nothing happened for so long, or when the server restarts."""
        restarts = self._restarts
        while True:
            with self._changed:
                if after < self._forgotten_up_to:
                    yield {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
                    return
                new = [event for event in self._events if event[0] > after]
                if not new and not self._changed.wait(seconds):
                    return
                if restarts != self._restarts:
                    return
            for version, space, of, change, item in new:
                after = version
                if (space, of) == (namespace, kind) and _selected([item], *selector):
                    yield {"type": change, "object": item}

    def restart(self, *, compacts: bool = False) -> None:
        """End all watches. `compacts`: the changes until now cannot be watched from any more."""
        with self._changed:
            self._restarts += 1
            if compacts and self._events:
                self._forgotten_up_to = self._events[-1][0]
                self._events.clear()
            self._changed.notify_all()

    def _existing(self, key: tuple[str, str, str]) -> dict[str, Any]:
        if key not in self._objects:
            raise Refusal(404, "NotFound", f'{key[1]} "{key[2]}" not found')
        return self._objects[key]

    def _store(self, change: str, key: tuple[str, str, str], item: dict[str, Any]) -> dict[str, Any]:
        version = next(self._versions)
        stored = {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}
        self._objects[key] = stored
        self._events.append((version, key[0], key[1], change, stored))
        self._changed.notify_all()
        return stored

    def _remove(self, key: tuple[str, str, str], item: dict[str, Any]) -> dict[str, Any]:
        gone = self._store("DELETED", key, item)
        del self._objects[key]
        for other, owned in [*self._objects.items()]:  # as the garbage collector does
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owned["metadata"].get("ownerReferences", ())):
                self._remove(other, owned)
        return gone


def _since(log: bytes, moment: str) -> bytes:
    """The lines from this second on, as a kubelet is asked for them."""
    second = moment[:19].encode()
    return b"".join(line for line in log.splitlines(keepends=True) if line[:19] >= second)


def _is_done(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") in {"Failed", "Succeeded"}


def _merge(before: Any, change: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merge(after.get(key), value)
    return after


def _selected(items: list[dict[str, Any]], labels: str, fields: str = "") -> list[dict[str, Any]]:
    values = dict(each.split("=", 1) for each in fields.split(",") if each)
    terms = [each.partition("=") for each in labels.split(",") if each]

    def is_selected(has: dict[str, str]) -> bool:
        return all((has.get(key.rstrip("!")) == value) is not key.endswith("!") for key, _, value in terms)

    return [
        each
        for each in items
        if is_selected(each["metadata"].get("labels", {}))
        and all(_field(each, path) == value for path, value in values.items())
    ]


def _accepted(answer: dict[str, Any], accept: str) -> dict[str, Any]:
    """The part of an answer that a request asked for."""
    if "as=PartialObjectMetadataList;" in accept:
        return {**answer, "items": [{"metadata": each["metadata"]} for each in answer["items"]] or None}
    return {"metadata": answer["metadata"]} if "as=PartialObjectMetadata;" in accept else answer


def _field(item: Any, path: str) -> Any:
    for key in path.split("."):
        item = item.get(key, {})
    return item


class PodApiHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kubernetes: StandInKubernetes

    def do_POST(self) -> None:
        self._respond(201)

    def do_GET(self) -> None:
        self._respond(200)

    def do_PATCH(self) -> None:
        self._respond(200)

    def do_DELETE(self) -> None:
        self._respond(200)

    def _respond(self, code: int) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        request = f"{self.command} {self.path}"
        self.kubernetes.requests.append(request)
        if self.kubernetes.drop(request, is_done=False):
            self.close_connection = True
            return
        try:
            self._route(code, body)
        except Refusal as refusal:
            self._answer(refusal.code, json.dumps(refusal.body).encode())

    def _route(self, code: int, body: dict[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "Unauthorized", "Unauthorized")
        url = urlsplit(self.path)
        if url.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
            allowed = (asked["verb"], resource) not in self.kubernetes.forbidden
            self._answer(code, json.dumps({"status": {"allowed": allowed}}).encode())
            return
        if url.path.endswith("/localsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            if ("create", "localsubjectaccessreviews") in self.kubernetes.forbidden:
                raise Refusal(403, "Forbidden", "localsubjectaccessreviews is forbidden")
            allowed = (body["spec"]["user"], asked["verb"], asked["resource"]) not in self.kubernetes.forbidden
            self._answer(code, json.dumps({"status": {"allowed": allowed}}).encode())
            return
        if url.path == "/api/v1/namespaces/kube-system":
            self._answer(code, json.dumps({"metadata": {"uid": self.kubernetes.uid}}).encode())
            return
        query = {key: texts[0] for key, texts in parse_qs(url.query).items()}
        _, _api, _v1, _namespaces, namespace, kind, *rest = url.path.split("/")
        selector = query.get("labelSelector", "")
        api = self.kubernetes
        if rest[1:] == ["log"]:
            api.read(namespace, kind, rest[0])
            self._answer(200, _since(api.logs.get(rest[0], b""), query.get("sinceTime", "")))
        elif query.get("watch"):
            self._stream(namespace, kind, query)
        else:
            answer = self._change(namespace, kind, body) if not rest else self._one(namespace, kind, rest[0], body)
            answer = answer or api.list(namespace, kind, selector, query.get("fieldSelector", ""))
            self._answer(code, json.dumps(_accepted(answer, self.headers.get("Accept", ""))).encode())

    def _change(self, namespace: str, kind: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Change objects of a kind, or answer None to have them listed."""
        api = self.kubernetes
        if self.command == "POST":
            return api.create(namespace, kind, body)
        if self.command == "DELETE":
            selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
            for each in api.list(namespace, kind, selector)["items"]:
                api.delete(namespace, kind, each["metadata"]["name"], body)
        return None

    def _one(self, namespace: str, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        api = self.kubernetes
        if self.command == "PATCH":
            return api.patch(namespace, kind, name, body)
        return api.delete(namespace, kind, name, body) if self.command == "DELETE" else api.read(namespace, kind, name)

    def _stream(self, namespace: str, kind: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        after, seconds = int(query.get("resourceVersion") or 0), float(query.get("timeoutSeconds", "5"))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            selector = query.get("labelSelector", ""), query.get("fieldSelector", "")
            for event in self.kubernetes.watch(namespace, kind, selector, after, seconds):
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, code: int, body: bytes) -> None:
        if self.kubernetes.drop(f"{self.command} {self.path}", is_done=True):
            self.close_connection = True
            return
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def stand_in_kubernetes() -> Iterator[StandInKubernetes]:
    kubernetes = StandInKubernetes()
    handler = type("BoundPodApiHandler", (PodApiHandler,), {"kubernetes": kubernetes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubernetes.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kubernetes
    finally:
        server.shutdown()
        server.server_close()
