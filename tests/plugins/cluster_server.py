"""A cluster that runs any client's drivers, over HTTP: `python -m tests.plugins.cluster_server FOLDER`.

PUT /drivers/NAME starts a program once, GET returns its state, DELETE ends it, GET /drivers/NAME/log is its output.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

ADDRESS = "STAND_IN_CLUSTER"
"""The environment variable with the cluster's address, which the daemon reads."""


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Run the cluster and yield its address. It is a process of its own, which the end of a daemon does not affect."""
    folder.mkdir()
    program = [sys.executable, "-m", "tests.plugins.cluster_server", str(folder)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(program, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()  # the cluster ends its drivers, and then itself


class Driver:
    def __init__(self, folder: Path, order: dict[str, Any]) -> None:
        folder.mkdir()
        self.folder = folder
        self.log = folder / "log"
        (folder / "sdk.zip").write_bytes(base64.b64decode(order["sdk"]))
        with os.fdopen(os.open(folder / "context.json", os.O_WRONLY | os.O_CREAT, 0o600), "w") as context:
            json.dump(order["context"], context)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(folder / "sdk.zip"),
            "ASSET_JOB_CONTEXT": str(folder / "context.json"),
            **order["environment"],
        }
        with self.log.open("wb") as output:
            argv = [sys.executable, *order["arguments"]]
            self.process = subprocess.Popen(argv, env=environment, stdout=output, stderr=output, start_new_session=True)
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        self.process.wait()
        self._signal(signal.SIGKILL)
        (self.folder / "context.json").unlink()
        (self.folder / "ended").touch()

    def status(self) -> dict[str, Any]:
        over = (self.folder / "ended").exists()
        return {"running": not over, "exit_code": self.process.returncode if over else None}

    def stop(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Handler(BaseHTTPRequestHandler):
    folder: ClassVar[Path]
    drivers: ClassVar[dict[str, Driver]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_PUT(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            name = self._name()
            if name not in self.drivers:
                self.drivers[name] = Driver(self.folder / name, order)
        self._answer(200, b"{}")

    def do_GET(self) -> None:
        driver = self.drivers.get(self._name())
        if driver is None:
            self._answer(404, b"{}")
        elif urlsplit(self.path).path.endswith("/log"):
            self._answer(200, driver.log.read_bytes()[self._number("offset") :])
        else:
            self._answer(200, json.dumps(driver.status()).encode())

    def do_DELETE(self) -> None:
        self.drivers[self._name()].stop(self._number("grace_ms") / 1000)
        self._answer(200, b"{}")

    def log_message(self, *_: Any) -> None:
        pass

    def _name(self) -> str:
        return urlsplit(self.path).path.split("/")[2]

    def _number(self, name: str) -> int:
        return int(parse_qs(urlsplit(self.path).query)[name][0])

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(folder: Path) -> None:
    Handler.folder = folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()
    for driver in Handler.drivers.values():
        driver.stop(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
