"""Several daemons on one PostgreSQL are killed and stopped: every watcher is polled again, and every item is emitted once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.arrivals import arrive
from tests.effort import effort
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import Daemons, until
from tests.torture.results import Result

pytestmark = [pytest.mark.service, pytest.mark.slow]
WATCHERS = effort(60, 300)
ROUNDS = effort(1, 10)
LEASE = {"heartbeat": "2s", "lease": "6s"}
HOSTS = """\
SELECT t.pid, count(*) FROM watcher_position p JOIN triggerer t ON t.id = p.owner AND t.expires_at > now()
WHERE p.state IS NOT NULL GROUP BY t.pid"""
NUMBERS = "SELECT source_watcher, extra::json ->> 'number' FROM asset_event"


class Numbers:
    """The numbers that the watchers count, and those that the database has."""

    def __init__(self, folder: Path, url: str) -> None:
        self.file, self._next = folder / "number", folder / "next"
        self._url = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self.counted = 0
        self.count_on()

    def count_on(self) -> None:
        """Write the next numbers so that a reader never sees half of one."""
        self.counted += 1
        self._next.write_text(str(self.counted))
        self._next.replace(self.file)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(query).fetchall()

    def are_told(self) -> bool:
        return bool(self.rows("SELECT count(*) FROM asset_event")[0][0] >= WATCHERS * self.counted)

    def are_shared(self, group: Daemons) -> bool:
        """Return whether each living daemon hosts some of the watchers, and all together host all."""
        hosts = dict(self.rows(HOSTS))
        return hosts.keys() == {process.pid for process in group.running.values()} and sum(hosts.values()) == WATCHERS


def test_three_triggerers_share_their_watchers_when_one_dies_or_is_suspended(
    database_url: str, tmp_path: Path, record_result: Callable[[Result], None]
) -> None:
    numbers, gaps = Numbers(tmp_path, database_url), dict[str, list[float]](SIGKILL=[], SIGSTOP=[])
    counter = {"trigger": "counter.CounterTrigger", "path": str(numbers.file), "isolation": "none"}
    names = [f"counter{n}" for n in range(WATCHERS)]
    document = {"assets": {"numbers": {"watchers": dict.fromkeys(names, counter)}}}
    with Daemons(tmp_path, document, database_url, triggerer=LEASE) as group:
        for name in ("one", "two", "three"):
            group.start(name, "--roles", "triggerer")
        until(lambda: numbers.are_shared(group))
        until(numbers.are_told)
        for _ in range(ROUNDS):
            group.stop(signal.SIGKILL, "one")
            numbers.count_on()
            gaps["SIGKILL"].append(until(numbers.are_told))
            group.start("one", "--roles", "triggerer")
            until(lambda: numbers.are_shared(group))
            group.send(signal.SIGSTOP, "two")
            numbers.count_on()
            gaps["SIGSTOP"].append(until(numbers.are_told))
            stopped = len(group.records("watcher.state", "two")), len(group.records("store.written", "two"))
            group.send(signal.SIGCONT, "two")
            numbers.count_on()
            until(numbers.are_told)
            until(lambda: numbers.are_shared(group))
            numbers.count_on()
            until(numbers.are_told)
            assert writes_of_a_zombie(group, "two", *stopped) == []
        for name in ("one", "three", "two"):
            assert group.stop(signal.SIGTERM, name) == 0
        told = Counter(numbers.rows(NUMBERS))
        owned = numbers.rows("SELECT count(*) FROM watcher_position WHERE owner IS NOT NULL")
    expected = {(name, str(n)) for name in names for n in range(1, numbers.counted + 1)}
    lost, repeated = len(expected - told.keys()), sum(told.values()) - len(told)
    for name, seconds in gaps.items():
        record_result(
            Result(
                fault=f"{name} of one of three, {WATCHERS} watchers, lease 6 s",
                database="postgresql",
                times=ROUNDS,
                events=sum(told.values()),
                lost=lost,
                repeated=repeated,
                gap=f"{max(seconds):.1f}",
            )
        )
    assert (lost, repeated) == (0, 0)
    assert owned == [(0,)]
    assert group.records("watcher.position_lost", "two")


def writes_of_a_zombie(group: Daemons, name: str, states: int, writes: int) -> list[str]:
    """Return the watchers for which a daemon wrote, after these numbers of records, without having claimed them again."""
    taken_at = dict[str, str]()
    for record in group.records("watcher.state", name)[states:]:
        if record["state"] == "starting":
            taken_at.setdefault(record["watcher"], record["timestamp"])
    written = group.records("store.written", name)[writes:]
    return [record["watcher"] for record in written if record["timestamp"] < taken_at.get(record["watcher"], "9")]


JOB = """\
import os
from asset_job import run

with run() as r:
    paths = [file["path"] for event in r.triggering_asset_events["inbox"] for file in event.extra["files"]]
    with open(os.environ["READ"], "a") as read:
        read.writelines(f"{path}\\n" for path in paths)
"""


def test_an_event_flows_through_processes_of_one_role_each_and_a_standby_schedules_when_the_leader_dies(
    database_url: str, tmp_path: Path
) -> None:
    inbox, read = tmp_path / "inbox", tmp_path / "read"
    inbox.mkdir()
    read.touch()
    (tmp_path / "job.py").write_text(JOB)
    files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all"}
    environment = {"READ": str(read), "SPARK_HOME": str(stand_in_spark(tmp_path))}
    spark = {"application": "job.py", "master": "local[1]", "env": environment}
    document = {
        "assets": {"inbox": {"uri": f"file://{inbox}", "watchers": {"files": files}}},
        "jobs": {"load": {"schedule": "inbox", "batch": {"debounce": "0s"}, "spark": spark}},
    }
    sent: list[str] = []
    with Daemons(
        tmp_path, document, database_url, triggerer=LEASE, logs={"directory": str(tmp_path / "logs")}
    ) as group:

        def send() -> None:
            sent.append(f"{inbox}/{len(sent)}.txt")
            arrive(Path(sent[-1]))

        def is_read() -> bool:
            return len(read.read_text().split()) >= len(sent)

        group.start("first", "--roles", "scheduler")
        until(lambda: bool(group.records("leader.taken", "first")))
        group.start("second", "--roles", "scheduler")
        group.start("triggerer", "--roles", "triggerer")
        group.start("api", "--roles", "api")
        send()
        print(f"read after {until(is_read):.1f} s")  # noqa: T201
        assert group.get("/api/v2/dags/load/dagRuns")["total_entries"] == 1
        for name in ("second", "triggerer"):
            until(lambda name=name: bool(group.records("daemon.started", name)))
        group.stop(signal.SIGKILL, "first")
        send()
        print(f"after SIGKILL of the leader, read after {until(is_read):.1f} s")  # noqa: T201
        assert group.records("leader.taken", "second")
        group.post("/api/v2/watchers/files/pause")
        until(lambda: bool(group.records("watcher.released", "triggerer")))
        send()
        group.post("/api/v2/watchers/files/resume")
        until(is_read)
        assert read.read_text().split() == sent
        for name in [*group.running]:
            assert group.stop(signal.SIGTERM, name) == 0
