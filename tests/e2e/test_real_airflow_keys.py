"""Partition keys beside a real Airflow: they go both ways with events, and filters mean the same on both sides."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from string import Template
from typing import Any, Final

import anyio
import httpx
import pytest

from tests.e2e.test_real_airflow import DAGS, until
from tests.effort import PATIENCE
from tests.real_airflow import PASSWORD, USER, Airflow, needs_airflow, running_airflow
from tests.servers import running_postgres
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.airflow, needs_airflow]
CONFIGURATION: Final = Template("""\
version: 1
settings:
  home: home
  api: {port: $port, auth: none}
  airflow:
    {base_url: $airflow, user: $user, password: $password, timeout: 5s, poll_interval: 1s,
     forward: {orders_of_days: {asset: orders_of_days, partition_key: true}, plain: landing_orders},
     listen: {customers: airflow_customers}}
assets:
  orders_of_days:
    uri: file://$folder/
    watchers:
      days: {trigger: file.new_files, interval: 1s, start: all, partition: "dt={day}"}
  plain: {}
  airflow_customers: {}
jobs:
  per_day: {schedule: plain, spark: {application: job.py}}
""")
KEYS: Final = ("2026-11-20", "2026-11-20|eu", "2026-11-21|us", "2026_11", "EU", "a b", None)
FILTERS: Final[tuple[dict[str, str], ...]] = (
    {"partition_key_pattern": "2026-11"},
    {"partition_key_pattern": "20|e"},
    {"partition_key_pattern": "2026-11-20|2026-11-21"},
    {"partition_key_pattern": "2026_11"},
    {"partition_key_pattern": "%|%"},
    {"partition_key_pattern": "eu"},
    {"partition_key_pattern": "~"},
    {"partition_key_pattern": " "},
    {"partition_key_prefix_pattern": "2026-11-20"},
    {"partition_key_prefix_pattern": "2026-11-20|eu"},
    {"partition_key_prefix_pattern": "eu"},
    {"partition_key_prefix_pattern": "~"},
    {"partition_key_pattern": "us", "partition_key_prefix_pattern": "2026"},
)


@contextmanager
def _airflow(folder: Path) -> Iterator[Airflow]:
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(fsync="off"))
        (folder / "airflow").mkdir()
        yield stack.enter_context(running_airflow(folder / "airflow", postgres, DAGS))


async def test_keys_go_both_ways_and_are_filtered_as_in_airflow(tmp_path: Path) -> None:
    port, days = free_port(), tmp_path / "days"
    with _airflow(tmp_path) as airflow:
        configuration = tmp_path / "watchers.yaml"
        (tmp_path / "job.py").touch()
        sign_in = {"user": USER, "password": PASSWORD}
        configuration.write_text(CONFIGURATION.substitute(port=port, airflow=airflow.url, folder=days, **sign_in))
        for name in ("dt=2026-11-20", "dt=2026-11-21", "other"):
            (days / name).mkdir(parents=True)
            (days / name / "a.csv").write_text("1")
        await anyio.to_thread.run_sync(airflow.await_ready, "report", "export", "per_day")
        check = ["-m", "watcher", "check", "--connect", "-c", str(configuration), "--json"]
        checked = await anyio.run_process([sys.executable, *check], check=False)
        assert checked.returncode == 0, checked.stdout.decode()
        async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
            with airflow.client() as theirs, httpx.Client(base_url=daemon.url, timeout=PATIENCE) as ours:
                await _our_keys_start_partitions_there(theirs)
                await _their_keys_are_ours(theirs, ours)
                _filters_mean_the_same(theirs, ours)
            assert await daemon.stop() == 0


async def _our_keys_start_partitions_there(theirs: httpx.Client) -> None:
    """Each day becomes a run of the partitioned Dag, and the file without a day none."""

    def runs() -> set[str | None]:
        page = theirs.get("/api/v2/dags/per_day/dagRuns", params={"state": "success"}).raise_for_status()
        return {run["partition_key"] for run in page.json()["dag_runs"]}

    await until("a run for each day", lambda: len(runs()) >= 2)
    assert runs() == {"2026-11-20", "2026-11-21"}
    sent = [(event["partition_key"], event["extra"]["count"]) for event in _events(theirs, "orders_of_days")]
    assert sorted(sent, key=str) == [("2026-11-20", 1), ("2026-11-21", 1), (None, 1)]


async def _their_keys_are_ours(theirs: httpx.Client, ours: httpx.Client) -> None:
    def tell() -> None:
        [asset] = theirs.get("/api/v2/assets", params={"name_pattern": "customers"}).json()["assets"]
        for key in KEYS:
            body = {"asset_id": asset["id"], "extra": {}, "partition_key": key}
            theirs.post("/api/v2/assets/events", json=body).raise_for_status()

    tell()
    heard = await until("all are heard", lambda: len(some := _events(ours, "airflow_customers")) >= len(KEYS) and some)
    assert [event["partition_key"] for event in heard] == [*KEYS]


def _filters_mean_the_same(theirs: httpx.Client, ours: httpx.Client) -> None:
    """Runs with the same keys on both sides are listed by the same filters; shapes have the same members."""
    path = "/api/v2/dags/per_day/dagRuns"
    for number, key in enumerate(KEYS):
        body: dict[str, Any] = {"dag_run_id": f"mine-{number}", "logical_date": None, "partition_key": key}
        for side in (theirs, ours):
            answer = side.post(path, json=body)
            assert answer.is_success, answer.text
            assert answer.json()["partition_key"] == key
    for asked in FILTERS:
        query = {**asked, "run_id_pattern": "mine-", "order_by": "run_id"}
        pages = [side.get(path, params=query).raise_for_status().json() for side in (theirs, ours)]
        listed = [[run["partition_key"] for run in page["dag_runs"]] for page in pages]
        assert listed[0] == listed[1], asked
        assert pages[0]["total_entries"] == pages[1]["total_entries"], asked
        for run in pages[1]["dag_runs"]:
            assert pages[0]["dag_runs"][0].keys() <= run.keys()
    [mine, their] = (_events(ours, "airflow_customers"), _events(theirs, "customers"))
    assert their[0].keys() <= mine[0].keys()


def _events(client: httpx.Client, name: str) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"name_pattern": name, "order_by": "timestamp", "limit": 100}
    return list(client.get("/api/v2/assets/events", params=asked).raise_for_status().json()["asset_events"])
