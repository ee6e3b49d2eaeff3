"""A real daemon reports its health even when its database is gone, full or silent. `watcher status` names what is wrong."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import loopback
from tests.databases import migrated_postgres
from tests.effort import PATIENCE
from tests.postgres_proxy import proxied_in_a_thread
from tests.servers import PostgresServer
from tests.torture.daemons import until
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
ANSWERED_IN = 10.0
"""Seconds in which a request for health is answered, whatever the database does."""


class Daemon:
    """`watcher run` with a watcher of a folder, and one whose folder is missing."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self.folder, self.inbox, self.port = folder, folder / "inbox", free_port()
        self.inbox.mkdir()
        often = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s"}
        settings: dict[str, Any] = {
            "api": {"port": self.port, "auth": "none"},
            "triggerer": {"heartbeat": "500ms", "lease": "10s", "grace": "3s"},
            "home": str(folder / "home"),
        }
        if database is not None:
            settings["database"] = {"url": database}
        document = {
            "version": 1,
            "settings": settings,
            "assets": {
                "inbox": {"uri": f"file://{self.inbox}", "watchers": {"files": often}},
                "nowhere": {"uri": f"file://{folder}/nowhere", "watchers": {"missing": often}},
            },
        }
        self.configuration = folder / "watchers.yaml"
        self.configuration.write_text(json.dumps(document))

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        words = [sys.executable, "-m", "watcher", "run", "--config", str(self.configuration)]
        with (
            (self.folder / "daemon.log").open("ab") as log,
            subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def get(self, path: str) -> httpx.Response:
        return loopback.get(f"http://127.0.0.1:{self.port}{path}", timeout=ANSWERED_IN)

    def readiness(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.get("/readyz").json()
        return answer

    def watcher(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.get(f"/api/v2/watchers/{name}").json()
        return answer

    def status(self) -> tuple[int, dict[str, Any]]:
        words = [sys.executable, "-m", "watcher", "status", "--json", "--config", str(self.configuration)]
        answer = subprocess.run(words, capture_output=True, check=False, timeout=PATIENCE)
        return answer.returncode, json.loads(answer.stdout) if answer.stdout else {"stderr": answer.stderr.decode()}


def test_a_full_disk_is_reported_everywhere_until_there_is_room(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    daemon = Daemon(tmp_path, None)
    with daemon.running() as process:
        until(lambda: daemon.get("/readyz").is_success)
        assert daemon.readiness()["warnings"][0].startswith("the watcher missing has no position yet and is failing")
        until(lambda: daemon.watcher("files")["lag_seconds"] is not None)
        code, status = daemon.status()
        assert (code, len(status["problems"])) == (6, 1), status
        assert status["problems"][0].startswith("the watcher missing is failing")

        (tmp_path / "nowhere").mkdir()
        until(lambda: daemon.watcher("missing")["state"] == "running")
        code, status = daemon.status()
        assert (code, status["problems"]) == (0, [])

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        (daemon.inbox / "one.txt").touch()
        until(lambda: daemon.watcher("files")["state"] == "failing")
        assert "watcher.db" in daemon.watcher("files")["error"]
        assert "the last commit failed" in daemon.readiness()["reasons"][0]
        assert daemon.get("/api/v2/monitor/health").json()["metadatabase"]["status"] == "unhealthy"
        assert daemon.get("/healthz").is_success
        code, status = daemon.status()
        assert code == 6
        assert any(problem.startswith("the watcher files is failing") for problem in status["problems"])
        assert any(problem.startswith("not ready: the last commit failed") for problem in status["problems"])

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: daemon.get("/readyz").is_success)
        until(lambda: daemon.watcher("files")["last_event_at"] is not None)
        until(lambda: daemon.watcher("files")["state"] == "running")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_health_is_answered_while_the_database_never_answers(tmp_path: Path, postgres_server: PostgresServer) -> None:
    with migrated_postgres(postgres_server) as behind, proxied_in_a_thread(behind) as proxy:
        daemon = Daemon(tmp_path, proxy.url)
        with daemon.running() as process:
            until(lambda: daemon.get("/readyz").is_success)
            proxy.swallows = True
            until(lambda: daemon.get("/readyz").status_code == 503)
            assert daemon.get("/healthz").is_success
            health = daemon.get("/api/v2/monitor/health").json()
            assert health["metadatabase"]["status"] == "unhealthy"
            until(lambda: any("heartbeat is late" in reason for reason in daemon.readiness()["reasons"]))
            metrics = daemon.get("/metrics").text.splitlines()
            assert {"watcher_ready 0.0", "watcher_database_up 0.0"} <= set(metrics)
            began = time.monotonic()
            code, status = daemon.status()
            assert code == 6, status
            assert time.monotonic() - began < 3 * ANSWERED_IN, "the program itself takes its time to start"
            assert any(problem.startswith("nothing is known of the watchers") for problem in status["problems"])
            process.kill()
        code, status = daemon.status()
        assert code == 1, "nobody answers, and the database neither"
