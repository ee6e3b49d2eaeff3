"""Several daemons on one PostgreSQL, killed and stopped: every watcher is polled again, and every item is told once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from tests.effort import PATIENCE, effort
from tests.stand_in_spark import stand_in_spark
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
PLUGINS = Path(__file__).parents[2] / "plugins"
WATCHERS = effort(300, 300)
ROUNDS = effort(1, 10)


class Daemons:
    """`watcher run` several times over: one configuration and one database, a home and a log for each."""

    def __init__(self, folder: Path, url: str, document: Mapping[str, Any]) -> None:
        self.folder, self.url = folder, make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self.api = f"http://127.0.0.1:{(port := free_port())}"
        self.configuration = folder / "watchers.yaml"
        settings = {
            "database": {"url": url},
            "api": {"port": port, "auth": "none", "secret": "s" * 32},
            "triggerer": {"heartbeat": "2s", "lease": "6s", "grace": "20s"},
            "logs": {"directory": str(folder / "logs")},
            "plugins_dir": str(PLUGINS),
        }
        self.configuration.write_text(json.dumps({"version": 1, "settings": settings, **document}))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, roles: str) -> None:
        words = [sys.executable, "-m", "watcher", "run", "-c", str(self.configuration), "--roles", roles]
        environment = {**os.environ, "WATCHER_SETTINGS__HOME": str(self.folder / name)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=log, env=environment)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)
        if number == signal.SIGKILL:
            self.running.pop(name).wait()

    def records(self, name: str, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record["event"] == event]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()


@contextmanager
def daemons(folder: Path, url: str, document: Mapping[str, Any]) -> Iterator[Daemons]:
    group = Daemons(folder, url, document)
    try:
        yield group
    finally:
        for process in group.running.values():
            process.kill()
            process.wait()


def until(condition: Callable[[], bool]) -> float:
    """The seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + PATIENCE, "waited in vain"
        time.sleep(0.1)
    return time.monotonic() - began


HOSTS = """\
SELECT t.pid, count(*) FROM watcher_position p JOIN triggerer t ON t.id = p.owner AND t.expires_at > now()
WHERE p.state IS NOT NULL GROUP BY t.pid"""
NUMBERS = "SELECT source_watcher, extra::json ->> 'number' FROM asset_event"


def test_three_triggerers_share_300_watchers_whoever_dies_or_sleeps(database_url: str, tmp_path: Path) -> None:
    number = tmp_path / "number"
    counters = {
        f"counter{n}": {"trigger": "counter.CounterTrigger", "path": str(number), "isolation": "none"}
        for n in range(WATCHERS)
    }
    counted = 0

    def count_on() -> None:
        """A reader never sees half of it."""
        nonlocal counted
        counted += 1
        (tmp_path / "next").write_text(str(counted))
        (tmp_path / "next").replace(number)

    count_on()
    with daemons(tmp_path, database_url, {"assets": {"numbers": {"watchers": counters}}}) as group:
        for name in ("one", "two", "three"):
            group.start(name, "triggerer")

        def is_counted() -> bool:
            return group.rows("SELECT count(*) FROM asset_event")[0][0] >= WATCHERS * counted

        def shared() -> bool:
            pids = {process.pid for process in group.running.values()}
            hosts = dict(group.rows(HOSTS))
            return hosts.keys() == pids and sum(hosts.values()) == WATCHERS

        until(shared)
        until(is_counted)
        for _ in range(ROUNDS):
            group.signal("one", signal.SIGKILL)
            count_on()
            print(f"SIGKILL: all are polled again after {until(is_counted):.1f} s")  # noqa: T201
            group.start("one", "triggerer")
            until(shared)
            group.signal("two", signal.SIGSTOP)
            count_on()
            print(f"SIGSTOP: all are polled again after {until(is_counted):.1f} s")  # noqa: T201
            group.signal("two", signal.SIGCONT)
            count_on()
            until(is_counted)
            until(shared)
            count_on()
            until(is_counted)
        for name in ("one", "three", "two"):
            group.signal(name, signal.SIGTERM)
            assert group.running[name].wait(PATIENCE) == 0
        told = Counter(group.rows(NUMBERS))
        assert told == Counter({(name, str(n)): 1 for name in counters for n in range(1, counted + 1)})
        assert group.rows("SELECT count(*) FROM watcher_position WHERE owner IS NOT NULL") == [(0,)]
        assert group.records("two", "watcher.position_lost")


JOB = """\
import os
from asset_job import run

with run() as r:
    paths = [file["path"] for event in r.triggering_asset_events["inbox"] for file in event.extra["files"]]
    with open(os.environ["READ"], "a") as read:
        read.writelines(f"{path}\\n" for path in paths)
"""


def test_one_event_flows_through_processes_of_one_role_each_and_a_standby_schedules_when_the_leader_dies(
    database_url: str, tmp_path: Path
) -> None:
    inbox, read = tmp_path / "inbox", tmp_path / "read"
    inbox.mkdir()
    read.touch()
    (tmp_path / "job.py").write_text(JOB)
    document = {
        "assets": {
            "inbox": {
                "uri": f"file://{inbox}",
                "watchers": {
                    "files": {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all"}
                },
            }
        },
        "jobs": {
            "load": {
                "schedule": "inbox",
                "batch": {"debounce": "0s"},
                "spark": {
                    "application": "job.py",
                    "master": "local[1]",
                    "env": {"READ": str(read), "SPARK_HOME": str(stand_in_spark(tmp_path))},
                },
            }
        },
    }
    sent: list[str] = []
    with daemons(tmp_path, database_url, document) as group:

        def send() -> None:
            sent.append(f"{inbox}/{len(sent)}.txt")
            Path(sent[-1]).write_text("x")

        def is_read() -> bool:
            return len(read.read_text().split()) >= len(sent)

        group.start("first", "scheduler")
        until(lambda: bool(group.records("first", "leader.taken")))
        group.start("second", "scheduler")
        group.start("triggerer", "triggerer")
        group.start("api", "api")
        send()
        print(f"read after {until(is_read):.1f} s")  # noqa: T201
        assert httpx.get(f"{group.api}/api/v2/dags/load/dagRuns").json()["total_entries"] == 1
        for name in ("second", "triggerer"):
            until(lambda name=name: bool(group.records(name, "daemon.started")))
        group.signal("first", signal.SIGKILL)
        send()
        print(f"after SIGKILL of the leader, read after {until(is_read):.1f} s")  # noqa: T201
        assert group.records("second", "leader.taken")
        httpx.post(f"{group.api}/api/v2/watchers/files/pause").raise_for_status()
        until(lambda: bool(group.records("triggerer", "watcher.released")))
        send()
        httpx.post(f"{group.api}/api/v2/watchers/files/resume").raise_for_status()
        until(is_read)
        assert read.read_text().split() == sent
        for name in group.running:
            group.signal(name, signal.SIGTERM)
            assert group.running[name].wait(PATIENCE) == 0
