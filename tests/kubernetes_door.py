"""A door before Kubernetes' own API server, at which a test may lose a request, or its answer. It has the stand-in's methods."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import httpx

from tests.effort import PATIENCE
from tests.kubernetes_api import KubernetesApi, until_ready
from tests.stand_in_kubernetes import Refusal

_PASSED_ON = ("Authorization", "Content-Type", "Accept")


@dataclass
class KubernetesDoor:
    """Daemons come through at `address`, without TLS. The methods are those of an administrator, who has another entrance."""

    api: KubernetesApi
    administrator: httpx.Client
    address: str = ""
    drop: Callable[..., bool] = lambda _request, **_: False
    """Returns whether a request gets no answer. `is_done`: it has taken effect."""

    def create(self, namespace: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", f"/api/v1/namespaces/{namespace}/{kind}", json=body)

    def list(self, namespace: str, kind: str, selector: str) -> dict[str, Any]:
        return self._call("GET", f"/api/v1/namespaces/{namespace}/{kind}", params={"labelSelector": selector})

    def patch(self, namespace: str, kind: str, name: str, change: dict[str, Any]) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{namespace}/{kind}/{name}" + ("/status" if "status" in change else "")
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._call("PATCH", path, content=json.dumps(change), headers=headers)

    def delete(self, namespace: str, kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
        return self._call("DELETE", f"/api/v1/namespaces/{namespace}/{kind}/{name}", json=options)

    def restart(self, *, down_for: float) -> None:
        """Kill the API server, and start it again after so many seconds."""
        self.api.server.kill()
        time.sleep(down_for)
        self.api.server.start()
        anyio.run(until_ready, self.api)

    def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.administrator.request(method, path, **request)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline, "the API server does not come back"
                time.sleep(0.2)
        body: dict[str, Any] = answer.json()
        if answer.is_error:
            raise Refusal(answer.status_code, str(body.get("reason")), str(body.get("message")))
        return body


class DoorHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    door: KubernetesDoor
    inside: httpx.Client

    def do_POST(self) -> None:
        self._pass_on()

    def do_GET(self) -> None:
        self._pass_on()

    def do_PATCH(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path}"
        self.close_connection = True
        if self.door.drop(request, is_done=False):
            return
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        with contextlib.suppress(httpx.TransportError, OSError):  # there is no answer then
            if "watch=1" in self.path:
                self._stream(headers)
            else:
                answer = self.inside.request(self.command, self.path, content=content, headers=headers)
                if not self.door.drop(request, is_done=True):
                    self._answer(answer.status_code, answer.content, answer.headers)
                    self.close_connection = False

    def _answer(self, code: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", headers.get("Content-Type", ""))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, headers: Mapping[str, str]) -> None:
        with self.inside.stream("GET", self.path, headers=headers, timeout=600) as answer:
            self.send_response(answer.status_code)
            self.send_header("Connection", "close")
            self.end_headers()
            for part in answer.iter_raw():
                self.wfile.write(part)
                self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def kubernetes_door(api: KubernetesApi) -> Iterator[KubernetesDoor]:
    limits = httpx.Limits(max_connections=None)
    inside = httpx.Client(base_url=api.address, verify=False, trust_env=False, timeout=60, limits=limits)  # noqa: S501  a test's own server
    with api.client() as administrator, inside:
        door = KubernetesDoor(api, administrator)
        handler = type("BoundDoorHandler", (DoorHandler,), {"door": door, "inside": inside})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        door.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield door
        finally:
            server.shutdown()
            server.server_close()
