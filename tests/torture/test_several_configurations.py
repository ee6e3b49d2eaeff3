"""Several processes on one PostgreSQL with files of their own: each hosts the watchers that it knows as applied."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from tests import loopback
from tests.torture.daemons import Daemons, until
from tests.torture.test_several_processes import LEASE
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
HOSTS = """\
SELECT p.watcher, t.pid FROM watcher_position p JOIN triggerer t ON t.id = p.owner AND t.expires_at > now()
JOIN watcher w ON w.name = p.watcher AND w.active WHERE p.state IS NOT NULL"""
TOLD = "SELECT a.name FROM asset_event AS e JOIN asset AS a ON a.id = e.asset_id ORDER BY e.id"
PROCESSES = ("one", "two")


class Processes:
    """Two daemons, each with a file and an API of its own."""

    def __init__(self, group: Daemons, folder: Path, url: str) -> None:
        self.group, self.folder = group, folder
        self._url = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self.document = json.loads(group.configuration.read_text())
        self.ports = {name: free_port() for name in PROCESSES}

    def write(self, name: str, watchers: dict[str, Any], asset: str = "numbers") -> None:
        document = {**self.document, "assets": {"numbers": {}, "others": {}, asset: {"watchers": watchers}}}
        document["settings"] = {
            **document["settings"],
            "api": {**document["settings"]["api"], "port": self.ports[name]},
        }
        (self.folder / f"etc_{name}").mkdir(exist_ok=True)
        (self.folder / "next").write_text(json.dumps(document))
        (self.folder / "next").replace(self.folder / f"etc_{name}" / "watchers.yaml")

    def start(self, name: str) -> None:
        self.group.configuration = self.folder / f"etc_{name}" / "watchers.yaml"
        self.group.start(name, "--roles", "triggerer,scheduler,api")
        until(lambda: bool(self.group.records("daemon.started", name)))

    def readiness(self, name: str) -> httpx.Response:
        return loopback.get(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=30)

    def reload(self, name: str) -> dict[str, Any]:
        answer = loopback.post(f"http://127.0.0.1:{self.ports[name]}/api/v2/reload", timeout=60)
        answer.raise_for_status()
        content: dict[str, Any] = answer.json()
        return content

    def hosts(self) -> dict[str, int]:
        return dict(self.rows(HOSTS))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(query).fetchall()


def counters(folder: Path, names: str, **options: Any) -> dict[str, Any]:
    common = {"trigger": "counter.CounterTrigger", "path": str(folder / "number"), "isolation": "none"}
    return {name: {**common, **options} for name in names.split()}


def test_each_process_hosts_the_watchers_it_knows_as_applied_and_a_reload_reaches_all(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "number").write_text("1")
    shared = counters(tmp_path, " ".join(f"shared{n}" for n in range(12)))
    mine = {**shared, **counters(tmp_path, "differing mine")}
    theirs = {**shared, **counters(tmp_path, "differing", interval_ms=400), **counters(tmp_path, "theirs")}
    with Daemons(tmp_path, {}, database_url, triggerer=LEASE) as group:
        processes = Processes(group, tmp_path, database_url)
        processes.write("one", mine)
        processes.write("two", theirs)
        processes.start("one")
        until(lambda: processes.hosts().keys() == mine.keys())
        processes.start("two")
        pids = {name: process.pid for name, process in group.running.items()}

        def is_shared() -> bool:
            hosts = processes.hosts()
            return hosts.keys() == mine.keys() and {hosts[name] for name in shared} == set(pids.values())

        until(is_shared)
        hosts = processes.hosts()
        assert {hosts["differing"], hosts["mine"]} == {pids["one"]}
        assert processes.readiness("one").is_success
        refused = processes.readiness("two")
        assert refused.status_code == 503
        assert "another configuration than the applied one" in refused.json()["reasons"][0]

        processes.write("one", theirs)
        answer = processes.reload("one")
        assert answer["watchers"] == {"added": ["theirs"], "changed": ["differing"], "removed": ["mine"]}
        assert {(each["pid"], each["is_current"]) for each in answer["processes"]} == {
            (pid, True) for pid in pids.values()
        }
        until(lambda: processes.hosts().keys() == theirs.keys())
        until(lambda: all(processes.readiness(name).is_success for name in PROCESSES))

        processes.write("two", mine)
        assert processes.reload("two")["watchers"]["added"] == ["mine"]
        until(lambda: processes.readiness("one").status_code == 503)
        until(lambda: processes.hosts().keys() == mine.keys())
        assert processes.hosts()["mine"] == pids["two"]
        processes.write("one", mine)
        until(lambda: processes.readiness("one").is_success)
        assert processes.rows("SELECT count(*) FROM asset_event WHERE source_watcher LIKE 'shared%'") == [
            (len(shared),)
        ]
        for name in PROCESSES:
            assert group.stop(signal.SIGTERM, name) == 0


def test_a_watcher_that_moved_to_another_asset_is_released_at_once_by_the_process_with_the_old_file(
    database_url: str, tmp_path: Path
) -> None:
    """The hint must do it: heartbeats are an hour apart."""
    (tmp_path / "number").write_text("1")
    moving = counters(tmp_path, "moving")
    with Daemons(tmp_path, {}, database_url, triggerer={"heartbeat": "1h", "lease": "3h"}) as group:
        processes = Processes(group, tmp_path, database_url)
        for name in PROCESSES:
            processes.write(name, moving)
            processes.start(name)
            until(lambda: processes.hosts() == {"moving": group.running["one"].pid})
        processes.write("two", moving, asset="others")
        processes.reload("two")
        (tmp_path / "number").write_text("2")
        until(lambda: processes.rows(TOLD) == [("numbers",), ("others",)])
        assert processes.hosts() == {"moving": group.running["two"].pid}
        for name in PROCESSES:
            assert group.stop(signal.SIGTERM, name) == 0
