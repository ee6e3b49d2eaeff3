"""One daemon in which everything happens that its metrics count: metrics, a trace through all of it, and its terminal text."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests import loopback
from tests.arrivals import arrive
from tests.effort import PATIENCE
from tests.servers import PostgresDatabase
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import until
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]

JOB = """
from asset_job import run

with run() as r:
    r.asset_store["loaded"].set("files", len(r.triggering_asset_events.files()))
"""
DROWSY = """
import time
from triggers.base import BaseEventTrigger, BaseOptions, TriggerBatch

class Drowsy(BaseEventTrigger):
    Options = BaseOptions

    async def check(self):
        time.sleep(3)
        return []

    def source_identity(self):
        return "a bed"

    async def events(self, position):
        import anyio
        yield TriggerBatch()
        await anyio.sleep_forever()
"""
OFTEN = {"interval": "200ms", "start": "all"}


def document(folder: Path, port: int, database: PostgresDatabase) -> dict[str, Any]:
    environment = {"SPARK_HOME": str(stand_in_spark(folder))}
    files = {"trigger": "file.new_files", "min_age": "0s", **OFTEN}
    return {
        "version": 1,
        "settings": {
            "home": "home",
            "plugins_dir": "plugins",
            "api": {"port": port, "auth": "none"},
            "triggerer": {"heartbeat": "500ms", "lease": "30s"},
        },
        "connections": {"shop": {"type": "postgres", "dsn": database.dsn}},
        "assets": {
            "inbox": {"uri": f"file://{folder}/inbox", "watchers": {"files": files}, "expect_every": "1s"},
            "nowhere": {"uri": f"file://{folder}/nowhere", "watchers": {"missing": files}},
            "orders": {
                "watchers": {
                    "rows": {"trigger": "postgres.new_rows", "connection": "shop", "table": "public.orders", **OFTEN}
                }
            },
            "bed": {"watchers": {"drowsy": {"trigger": "drowsy.Drowsy", "isolation": "none"}}},
            "loaded": {},
        },
        "jobs": {
            "load": {
                "schedule": "inbox",
                "batch": {"debounce": "0s"},
                "outlets": ["loaded"],
                "spark": {"application": "job.py", "env": environment},
            },
            "broken": {
                "schedule": "orders",
                "batch": {"debounce": "0s"},
                "spark": {"application": "broken.py", "env": environment},
            },
        },
    }


class Daemon:
    """`watcher run` at a terminal. The text is kept in a file."""

    def __init__(self, folder: Path, database: PostgresDatabase) -> None:
        self.folder, self.port = folder, free_port()
        self.screen = folder / "screen"
        for name in ("inbox", "plugins"):
            (folder / name).mkdir()
        (folder / "plugins" / "drowsy.py").write_text(DROWSY)
        (folder / "job.py").write_text(JOB)
        (folder / "broken.py").write_text("raise SystemExit('no')")
        (folder / "watchers.yaml").write_text(json.dumps(document(folder, self.port, database)))

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        ours, terminal = pty.openpty()
        words = [sys.executable, "-m", "watcher", "run", "-c", str(self.folder / "watchers.yaml")]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal) as process:
            os.close(terminal)
            reader = threading.Thread(target=self._read, args=(ours,))
            reader.start()
            try:
                yield process
            finally:
                process.kill()
                reader.join()
                os.close(ours)

    def _read(self, terminal: int) -> None:
        with self.screen.open("wb", buffering=0) as screen:
            try:
                while data := os.read(terminal, 65536):
                    screen.write(data)
            except OSError:
                return  # no process writes to it any more

    def text(self) -> str:
        """Return the terminal's text without colours."""
        return re.sub("\x1b\\[[0-9;]*m", "", self.screen.read_text())

    def get(self, path: str, **headers: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self.port}{path}"
        return loopback.get(url, headers=headers).raise_for_status()

    def samples(self, name: str, **labels: str) -> list[Sample]:
        answer = self.get("/metrics", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        families = text_string_to_metric_families(answer.text)
        return [
            sample
            for family in families
            for sample in family.samples
            if sample.name == f"watcher_{name}" and labels.items() <= sample.labels.items()
        ]

    def number(self, name: str, **labels: str) -> float:
        return sum(sample.value for sample in self.samples(name, **labels))

    def records(self, path: str) -> list[dict[str, Any]]:
        lines = self.get(path, accept="application/x-ndjson").text.splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def shop(postgres_database: PostgresDatabase) -> PostgresDatabase:
    with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY)")
    return postgres_database


def test_each_metric_moves_and_one_trace_goes_all_the_way(tmp_path: Path, shop: PostgresDatabase) -> None:
    daemon = Daemon(tmp_path, shop)
    with daemon.running() as process:
        until(lambda: daemon.number("ready"))
        assert daemon.number("database_up") == 1
        until(lambda: daemon.number("state", watcher="files", state="running"))
        until(lambda: daemon.number("poll_seconds_count", watcher="files") >= 1)
        until(lambda: daemon.samples("lag_seconds", watcher="files"))
        _look_at_failures(daemon)
        assert daemon.number("runs_total", dag_id="load", state="success") == 0
        version = daemon.number("position_version", watcher="files")

        arrive(tmp_path / "inbox" / "one.csv")
        until(lambda: daemon.number("runs_total", dag_id="load", state="success") == 1)
        assert daemon.number("items_total", watcher="files", asset="inbox") == 1
        assert daemon.number("events_total", watcher="files", asset="inbox") == 1
        assert daemon.number("position_version", watcher="files") > version
        assert daemon.number("run_queue_seconds_count", dag_id="load") == 1
        assert daemon.number("run_duration_seconds_count", dag_id="load") == 1
        assert daemon.number("store_writes_total", kind="watcher") >= 1
        assert daemon.number("store_writes_total", kind="task") == 1
        _follow_the_trace(daemon)

        [loaded] = daemon.get("/api/v2/assets?name_pattern=loaded").json()["assets"]
        store = f"http://127.0.0.1:{daemon.port}/api/v2/assets/{loaded['id']}/store/note"
        loopback.put(store, json={"value": 1}).raise_for_status()
        assert daemon.number("store_writes_total", kind="api") == 1
        _open_a_gap(daemon, shop)

        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    screen = daemon.text()
    assert "daemon.started" in screen
    assert f"http://127.0.0.1:{daemon.port}" in screen
    assert not any(line.startswith("{") for line in screen.splitlines()), "a terminal gets text"


def _look_at_failures(daemon: Daemon) -> None:
    until(lambda: daemon.number("errors_total", watcher="missing") >= 1)
    assert daemon.number("state", watcher="missing", state="failing") == 1
    until(lambda: daemon.number("blocked_seconds", watcher="drowsy") > 1)
    assert daemon.number("event_loop_lag_seconds_sum") > 1
    until(lambda: daemon.number("asset_late", asset="inbox"))
    assert daemon.number("asset_age_seconds", asset="inbox") > 1


def _follow_the_trace(daemon: Daemon) -> None:
    [inbox] = daemon.get("/api/v2/assets?name_pattern=inbox").json()["assets"]
    [event] = daemon.get(f"/api/v2/assets/events?asset_id={inbox['id']}").json()["asset_events"]
    trace = event["trace_id"]
    [run] = daemon.get(f"/api/v2/dags/~/dagRuns?trace_id={trace}").json()["dag_runs"]
    assert run["dag_id"] == "load"
    traced = daemon.get(f"/api/v2/assets/events?trace_id={trace}").json()["asset_events"]
    assert sorted(each["name"] for each in traced) == ["inbox", "loaded"], "what the run made goes on with its trace"

    of_watcher = daemon.records("/api/v2/watchers/files/logs")
    assert [record["event"] for record in of_watcher if record.get("trace_id") == trace] == [
        *("store.writing", "store.written")
    ]
    log = f"/api/v2/dags/load/dagRuns/{run['dag_run_id']}/taskInstances/job/logs/1"
    of_try = {"run.submitted", "try.claimed", "store.writing", "store.written", "try.finished", "run.ended"}
    until(lambda: of_try <= {line["event"] for line in daemon.records(log) if line.get("trace_id") == trace})
    assert f"trace_id={trace}" in daemon.text().partition("run.created")[2].splitlines()[0]
    [counted] = daemon.samples("events_total", watcher="files")
    [written] = daemon.samples("store_writes_total", kind="task")
    assert {sample.exemplar.labels["trace_id"] for sample in (counted, written) if sample.exemplar} == {trace}


def _open_a_gap(daemon: Daemon, shop: PostgresDatabase) -> None:
    until(lambda: daemon.number("state", watcher="rows", state="running"))
    with psycopg.connect(shop.dsn) as slow, psycopg.connect(shop.dsn, autocommit=True) as quick:
        for connection in (slow, quick):
            connection.execute("INSERT INTO orders DEFAULT VALUES")
        until(lambda: daemon.number("gaps", watcher="rows") == 1)
        slow.commit()
        until(lambda: daemon.number("gaps", watcher="rows") == 0)
    assert daemon.number("items_total", watcher="rows") == 2
    until(lambda: daemon.number("runs_total", dag_id="broken", state="failed") >= 1)
