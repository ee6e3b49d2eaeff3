"""A stand-in for Airflow's API server: shapes and orders as recorded from 3.3.2, over HTTP, and faults on demand.

Its memory is its database: `stopped` is a restart that keeps it.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Fault = Literal["lost before", "lost after", "503 before", "503 after", "silent after", "404"]
"""A fault of the next request for an event. With `after`, the event is made nevertheless."""
_MOST: int = 100


@dataclass
class StandInAirflow:
    assets: dict[str, str] = field(default_factory=lambda: {"their_orders": "s3://their/orders"})
    """The URIs of assets by name. An asset's id is its place in the order."""
    events: list[dict[str, Any]] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    tokens: set[str] = field(default_factory=lambda: {"secret-token"})
    page: int = _MOST
    version: str = "3.3.2"
    is_away: bool = False
    unclear: int = 0
    sign_ins: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    hidden: list[dict[str, Any]] = field(default_factory=list)

    def tell(
        self,
        asset: str,
        extra: Mapping[str, Any] | None = None,
        *,
        late: float = 0,
        hidden: bool = False,
        partition_key: str | None = None,
    ) -> int:
        """Make an event as a task of Airflow does, dated `late` seconds ago. Return its id. `hidden`: not visible until `show`."""
        with self.lock:
            event = self._event(list(self.assets).index(asset) + 1, dict(extra or {}), late)
            event |= {"source_dag_id": "produce", "source_run_id": "manual__1", "source_task_id": "make"}
            event["partition_key"] = partition_key
            (self.hidden if hidden else self.events).append(event)
            return int(event["id"])

    def show(self) -> None:
        """Make hidden events visible."""
        with self.lock:
            self.events += self.hidden
            self.hidden.clear()

    def made(self, asset: str = "their_orders") -> list[dict[str, Any]]:
        """Return the marks of the events that were sent to Airflow, in the order of their ids."""
        with self.lock:
            number = list(self.assets).index(asset) + 1
            mine = [event for event in self.events if event["asset_id"] == number]
            return [event["extra"]["asset_watcher"] for event in mine if "asset_watcher" in event["extra"]]

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any, token: str) -> tuple[int, Any]:
        """Return status and content. Status 0 closes the connection without an answer."""
        with self.lock:
            if self.is_away:
                return 0, None
            if path == "/auth/token":
                return self._sign_in(body)
            if token.removeprefix("Bearer ") not in self.tokens:
                return 403, {"detail": "Invalid JWT token"}
            routes: Mapping[tuple[str, str], Callable[[], tuple[int, Any]]] = {
                ("GET", "/api/v2/version"): lambda: (200, {"version": self.version, "git_version": None}),
                ("GET", "/api/v2/assets"): lambda: (200, self._assets(query)),
                ("GET", "/api/v2/assets/events"): lambda: (200, self._events(query)),
                ("POST", "/api/v2/assets/events"): lambda: self._create(body),
            }
            return routes[method, path]()

    def _sign_in(self, body: Any) -> tuple[int, Any]:
        if body != {"username": "watcher", "password": "right"}:
            return 401, {"detail": "Invalid credentials"}
        self.sign_ins += 1
        token = f"token-{self.sign_ins}"
        self.tokens.add(token)
        return 201, {"access_token": token}

    def _assets(self, query: Mapping[str, str]) -> Any:
        rows = [
            {"id": number, "name": name, "uri": uri} for number, (name, uri) in enumerate(self.assets.items(), start=1)
        ]
        for key in ("name", "uri"):
            pattern = query.get(f"{key}_pattern")
            rows = [row for row in rows if pattern is None or pattern.lower() in str(row[key]).lower()]
        start = int(query.get("offset", 0))
        return {"assets": rows[start : start + self.page], "total_entries": len(rows)}

    def _events(self, query: Mapping[str, str]) -> Any:
        rows = [event for event in self.events if event["asset_id"] == int(query["asset_id"])]
        if "timestamp_gte" in query:
            since = datetime.fromisoformat(query["timestamp_gte"])
            rows = [event for event in rows if datetime.fromisoformat(event["timestamp"]) >= since]
        order = query.get("order_by", "timestamp")
        rows.sort(key=lambda event: (event["timestamp"], event["id"]), reverse=order.startswith("-"))
        start, limit = int(query.get("offset", 0)), min(int(query.get("limit", 50)), self.page)
        return {"asset_events": rows[start : start + limit], "total_entries": len(rows)}

    def _create(self, body: Any) -> tuple[int, Any]:
        fault = self.faults.popleft() if self.faults else None
        if self.version < "3.2" and "partition_key" in body:
            extra = {
                "type": "extra_forbidden",
                "loc": ["body", "partition_key"],
                "msg": "Extra inputs are not permitted",
            }
            return 422, {"detail": [{**extra, "input": body["partition_key"]}]}
        if fault == "404" or not 1 <= body["asset_id"] <= len(self.assets):
            return 404, {"detail": f"Asset with ID: `{body['asset_id']}` was not found"}
        if fault is not None:
            self.unclear += 1
        if fault in {"lost before", "503 before"}:
            return (0, None) if fault == "lost before" else (503, {"detail": "no healthy upstream"})
        event = self._event(body["asset_id"], {**body["extra"], "from_rest_api": True}, 0)
        event |= {"partition_key": body.get("partition_key")} if self.version >= "3.2" else {}
        self.events.append(event)
        return {"lost after": (0, None), "503 after": (503, {}), "silent after": (-1, None)}.get(
            fault or "", (200, event)
        )

    def _event(self, asset_id: int, extra: dict[str, Any], late: float) -> dict[str, Any]:
        stamp = (datetime.now(UTC) - timedelta(seconds=late)).isoformat().replace("+00:00", "Z")
        number = len(self.events) + len(self.hidden) + 1
        source = {"source_dag_id": None, "source_run_id": None, "source_task_id": None, "source_map_index": -1}
        return {"id": number, "asset_id": asset_id, "timestamp": stamp, "extra": extra, "created_dagruns": [], **source}


@contextmanager
def stand_in_airflow() -> Iterator[StandInAirflow]:
    """Run the stand-in on a free port of the loopback."""
    airflow = StandInAirflow()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            address = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "")
            status, content = airflow.answer(method, address.path, query, json.loads(text) if text else None, token)
            if status == -1:
                airflow.released.wait()
            if status <= 0:
                self.close_connection = True
                return
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Ignore the error: tests kill clients on purpose."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    airflow.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield airflow
    finally:
        airflow.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
