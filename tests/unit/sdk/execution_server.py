"""The other side of the SDK's protocol: the Execution API's routes for one try, over HTTP, in memory."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TASK_INSTANCE = "6f3a0c5e-7c0a-4f0e-9a51-6d8a1f7c2b10"
ORDERS = {"name": "orders", "uri": "file:///data/orders"}
LANDING = {"name": "landing", "uri": "s3://landing/orders"}
ALIAS = {"alias": "daily_outputs"}
Answer = tuple[int, Any]
NO_CONTENT: Answer = (204, None)


def token(name: str, life: float = 3600) -> str:
    """As far as the SDK looks into one: a JWT's payload."""
    payload = base64.urlsafe_b64encode(json.dumps({"iat": 1000, "exp": 1000 + life, "name": name}).encode())
    return f"header.{payload.decode().rstrip('=')}.signature"


def refused(status: int, reason: str, message: str) -> Answer:
    return status, {"detail": {"reason": reason, "message": message}}


def event(number: int, asset: str, timestamp: str, **extra: Any) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": timestamp,
        "extra": extra or None,
        "asset": {"name": asset, "uri": f"file:///data/{asset}", "group": "", "extra": {}},
        "created_dagruns": [],
        "source_task_id": None,
        "source_dag_id": None,
        "source_run_id": None,
        "source_map_index": -1,
        "source_watcher": f"{asset}_files",
    }


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ExecutionServer:
    """Tests set what is asked for, read what was asked, and plan faults for the requests to come."""

    port: int = 0
    claim: dict[str, Any] = field(default_factory=dict)
    claimed_by: str | None = None
    finished: list[dict[str, Any]] = field(default_factory=list)
    entries: dict[tuple[str, str], Any] = field(default_factory=dict)
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    """By asset and key; they go on after a delete."""
    tag_form: str = '"{}"'
    """What ETags look like; '' = there are none."""
    transactions: set[tuple[str, int]] = field(default_factory=set)
    """Whose increments are applied already: asset and ordinal."""
    task_entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    """For the next requests: a status to answer with, or 0 to do the work and then cut the connection."""
    refusals: dict[str, Answer] = field(default_factory=dict)
    """By the beginning of the path."""
    refreshed_token: str | None = None
    progress: list[dict[str, int]] = field(default_factory=list)
    tokens_given: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    past_events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By the asset's or alias' name or uri as it is asked about, oldest first."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """By Idempotency-Key: asked again, the same answer is given and nothing is done."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def context(self, **more: Any) -> dict[str, Any]:
        return {"api": self.url, "token": token("first"), "task_instance_id": TASK_INSTANCE, "connections": {}, **more}

    def answer(self, request: Request) -> Answer:
        key = request.headers.get("idempotency-key", "")
        if key not in self.answers:
            answer = self._refusal(request) or self._route(request)
            if not key:
                return answer
            self.answers[key] = answer
        return self.answers[key]

    def _refusal(self, request: Request) -> Answer | None:
        found = [answer for start, answer in self.refusals.items() if request.path.startswith(start)]
        return found[0] if found else None

    def _route(self, request: Request) -> Answer:
        match request.path.split("/", 3):
            case ["tries", what]:
                answer: Answer = getattr(self, f"_{what}")(request.body)
                return answer
            case ["store", "asset", ("by-name" | "by-uri"), what]:
                name = request.query.get("name") or request.query["uri"]
                return self._asset(request, what, name)
            case ["store", "asset", "transaction"]:
                return self._transact(request.body)
            case ["asset-events", _]:
                found = self.past_events.get(request.query.get("name") or request.query["uri"], [])
                found = found if request.query["ascending"] == "true" else found[::-1]
                return 200, {"asset_events": found[: int(request.query.get("limit", len(found)))]}
            case ["store", "ti", identifier, *key]:
                assert identifier == TASK_INSTANCE
                return self._task(request, *map(unquote, key))
        return 404, {"detail": "Not Found"}

    def _claim(self, body: dict[str, Any]) -> Answer:
        self.claimed_by = self.claimed_by or body["nonce"]
        if self.claimed_by != body["nonce"]:
            return refused(409, "fenced", "The try is claimed by another process.")
        return 200, {
            "dag_id": "load_orders",
            "run_id": "manual__1",
            "task_id": "load",
            "map_index": -1,
            "try_number": 2,
            "task_instance_id": TASK_INSTANCE,
            "triggering_asset_events": {},
            "inlets": [],
            "outlets": [],
            "options": {},
            "worker_backend": None,
            "default_retention_days": 30,
            "clear_on_success": False,
            **self.claim,
        }

    def _finish(self, body: dict[str, Any]) -> Answer:
        self.finished.append(body)
        return 200, {}

    def _progress(self, body: dict[str, int]) -> Answer:
        self.progress.append(body)
        return NO_CONTENT

    def _token(self, _body: dict[str, Any]) -> Answer:
        self.tokens_given.release()
        return 200, {"token": token("renewed", life=0.6), "expires_at": "2026-11-20T10:00:00Z"}

    def put(self, place: tuple[str, str], body: dict[str, Any]) -> None:
        self.entries[place] = body
        self.versions[place] = self.versions.get(place, 0) + 1

    def version(self, place: tuple[str, str]) -> int:
        return self.versions.get(place, 1) if place in self.entries else 0

    def _transact(self, body: dict[str, Any]) -> Answer:
        asset, again = body["asset"], (body["asset"], body["ordinal"]) in self.transactions
        if any(self.version((asset, key)) != version for key, version in body["reads"].items()):
            return refused(409, "conflict", "somebody else wrote meanwhile")
        self.transactions.add((asset, body["ordinal"]))
        for key, value in body["set"].items():
            self.put((asset, key), {"value": value, **({"is_ref": True} if key in body["refs"] else {})})
        for key in body["delete"]:
            self.entries.pop((asset, key), None)
        for key, n in {} if again else body["increment"].items():
            self.put((asset, key), {"value": self.entries.get((asset, key), {"value": 0})["value"] + n})
        return 200, {
            "versions": {key: self.version((asset, key)) for key in [*body["set"], *body["increment"]]},
            "values": {key: self.entries.get((asset, key), {}).get("value") for key in body["increment"]},
        }

    def _asset(self, request: Request, what: str, name: str) -> Answer:
        if what == "keys":
            return 200, {"keys": sorted(key for asset, key in self.entries if asset == name)}
        if what == "references":
            return _references({key: entry for (asset, key), entry in self.entries.items() if asset == name})
        if what == "clear":
            self.entries = {key: value for key, value in self.entries.items() if key[0] != name}
            return NO_CONTENT
        place = (name, request.query["key"])
        if request.method == "PUT":
            self.put(place, request.body)
            return NO_CONTENT
        return _on_entry(request, self.entries, place)

    def tag(self, request: Request) -> str | None:
        """The ETag of an answer."""
        if not self.tag_form or request.method != "GET" or not request.path.endswith("/value"):
            return None
        name = request.query.get("name") or request.query["uri"]
        return self.tag_form.format(self.version((name, request.query["key"])))

    def _task(self, request: Request, key: str | None = None) -> Answer:
        if key is None and request.method == "GET":
            wants_keys = request.query.get("what") == "keys"
            return (200, {"keys": sorted(self.task_entries)}) if wants_keys else _references(self.task_entries)
        if key is None:
            self.task_entries.clear()
            return NO_CONTENT
        return _on_entry(request, self.task_entries, key)


def _on_entry(request: Request, entries: dict[Any, Any], key: Any) -> Answer:
    if request.method == "PUT":
        entries[key] = request.body
        return NO_CONTENT
    if request.method == "DELETE":
        entries.pop(key, None)
        return NO_CONTENT
    if key not in entries:
        return refused(404, "not_found", f"{key} is not there")
    mark = {"is_ref": True} if entries[key].get("is_ref") else {}
    return 200, {"value": entries[key]["value"], **mark}


def _references(entries: dict[str, Any]) -> Answer:
    return 200, {"references": {key: entry["value"] for key, entry in entries.items() if entry.get("is_ref")}}


def _handler(state: ExecutionServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            request = Request(
                method=self.command,
                path=parts.path.removeprefix("/execution/"),
                query={name: values[0] for name, values in parse_qs(parts.query).items()},
                headers={name.lower(): value for name, value in self.headers.items()},
                body=json.loads(self.rfile.read(length)) if length else None,
            )
            state.requests.append(request)
            fault = state.faults.pop(0) if state.faults else None
            if fault:
                self.send_error(fault)
                return
            try:
                (status, content), tag = state.answer(request), state.tag(request)
            except Exception as error:  # noqa: BLE001 - a job would wait long for a server that fails
                status, content, tag = 418, {"detail": f"a fault of the test server: {error!r}"}, None
            if fault is None:
                self.reply(status, content, tag)
            else:
                self.close_connection = True

        def reply(self, status: int, content: Any, tag: str | None) -> None:
            encoded = b"" if content is None else json.dumps(content).encode()
            self.send_response(HTTPStatus(status))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            if tag:
                self.send_header("ETag", tag)
            if state.refreshed_token:
                self.send_header("Refreshed-API-Token", state.refreshed_token)
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815 - http.server's names

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Handler


@contextlib.contextmanager
def running_execution_server() -> Iterator[ExecutionServer]:
    state = ExecutionServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
