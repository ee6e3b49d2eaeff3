"""A real Airflow beside a real daemon: a file put on S3 starts a Dag there, a task there starts a job here.

WATCHER_TEST_LONG=1 kills 100 times, each side in turn, and counts lost and repeated events in both directions.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from string import Template
from typing import Any

import anyio
import httpx
import pytest

from tests.effort import LONG, PATIENCE, SEED, effort
from tests.real_airflow import PASSWORD, USER, needs_airflow, running_airflow
from tests.servers import fresh_bucket, running_postgres, running_s3
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.airflow, needs_airflow]
DAGS = Path(__file__).parents[2] / "examples/airflow/dags"
ROUNDS = effort(1, 50)
"""Each round kills either side once."""
CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  database: {url: $database}
  api: {port: $port, auth: none}
  airflow:
    {base_url: $airflow, user: $user, password: $password, timeout: 5s, poll_interval: 1s,
     forward: {landing_orders: landing_orders}, listen: {customers: airflow_customers}}
connections:
  lake:
    {type: s3, endpoint_url: $endpoint, region: $region, addressing_style: path,
     access_key_id: $access_key, secret_access_key: $secret_key}
assets:
  landing_orders:
    uri: s3://$bucket/orders/
    watchers:
      landing_orders_files: {trigger: s3.new_files, connection: lake, interval: 1s, start: all}
  airflow_customers: {}
jobs:
  load_customers:
    schedule: airflow_customers
    spark: {application: job.py, master: "local[1]", env: {SPARK_HOME: $spark_home, SEEN: $seen}}
""")
JOB = """\
import json, os
from asset_job import run

with run() as r:
    with open(os.environ["SEEN"], "a") as seen:
        for event in r.triggering_asset_events["airflow_customers"]:
            seen.write(json.dumps(dict(event.extra)) + "\\n")
"""


async def until(what: str, condition: Callable[[], Any]) -> Any:
    with anyio.fail_after(PATIENCE):
        while True:
            try:
                if value := await anyio.to_thread.run_sync(condition):
                    return value
            except httpx.HTTPError:
                pass
            await anyio.sleep(0.5)
    raise AssertionError(what)


async def test_events_go_both_ways_and_survive_kills_of_either_side(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "airflow").mkdir()
    seen, port = tmp_path / "seen", free_port()
    with (
        running_postgres(fsync="off") as postgres,
        running_s3() as s3,
        fresh_bucket(s3) as bucket,
        running_airflow(tmp_path / "airflow", postgres, DAGS) as airflow,
        postgres.database() as database,
    ):
        configuration = tmp_path / "watchers.yaml"
        configuration.write_text(
            CONFIGURATION.substitute(
                database=database.sqlalchemy_url,
                port=port,
                airflow=airflow.url,
                user=USER,
                password=PASSWORD,
                endpoint=s3.endpoint,
                region=s3.region,
                access_key=s3.access_key,
                secret_key=s3.secret_key,
                bucket=bucket,
                spark_home=stand_in_spark(tmp_path),
                seen=seen,
            )
        )
        await anyio.to_thread.run_sync(airflow.await_ready, "report", "export")
        check = ["-m", "watcher", "check", "--connect", "-c", str(configuration), "--json"]
        checked = await anyio.run_process([sys.executable, *check], check=False)
        assert checked.returncode == 0, checked.stdout.decode()
        assert "Airflow 3.3.2" in checked.stdout.decode()
        async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
            with airflow.client() as client:

                def runs(dag_id: str, state: str) -> list[dict[str, Any]]:
                    page = client.get(f"/api/v2/dags/{dag_id}/dagRuns", params={"state": state}).raise_for_status()
                    return list(page.json()["dag_runs"])

                def put(number: int) -> None:
                    s3.client.put_object(Bucket=bucket, Key=f"orders/{number}.json", Body=b"{}")

                def tell() -> int:
                    [theirs] = client.get("/api/v2/assets", params={"name_pattern": "customers"}).json()["assets"]
                    body = {"asset_id": theirs["id"], "extra": {"rows": 0}}
                    return int(client.post("/api/v2/assets/events", json=body).raise_for_status().json()["id"])

                put(0)
                await until("our event starts the Dag", lambda: runs("report", "success"))
                random, foreign = Random(SEED), list[int]()
                for number in range(1, 2 * ROUNDS, 2):
                    await anyio.sleep(random.uniform(0, 2) * LONG)
                    airflow.stop("api-server")
                    put(number)
                    await anyio.sleep(random.uniform(0, 2) * LONG)
                    await daemon.kill()
                    put(number + 1)
                    airflow.start("api-server")
                    await daemon.start()
                    foreign.append(await until("Airflow answers again", tell))
                files = 2 * ROUNDS + 1
                objects = await until(
                    "all files are told",
                    lambda: len(keys := _keys(_events(client, "landing_orders"))) >= files and keys,
                )
                assert set(objects) == {f"orders/{number}.json" for number in range(files)}, "nothing is lost"
                sent = await until("Airflow lists them once more", lambda: _events(client, "landing_orders"))
                marks = Counter(event["extra"]["asset_watcher"]["event_id"] for event in sent)
                repeats = marks.total() - len(marks)
                assert len(objects) - files == repeats <= 2 * ROUNDS, "a repeat needs an answer that was lost"
                with httpx.Client(base_url=daemon.url, timeout=PATIENCE) as ours:

                    def heard() -> list[int]:
                        return [event["extra"]["airflow"]["event_id"] for event in _events(ours, "airflow_customers")]

                    await until("all of theirs are ours", lambda: len(heard()) >= len(foreign))
                    assert Counter(heard()) == Counter(foreign), "each once"
                print(f"{2 * ROUNDS} kills, {files} files, {repeats} repeated; {len(foreign)} heard")  # noqa: T201

                started = client.post("/api/v2/dags/export/dagRuns", json={"logical_date": None}).raise_for_status()
                line = await until("its event starts our job", lambda: _of_export(seen))
                theirs = await until("Airflow lists its own", lambda: _events(client, "customers"))
                assert line["airflow"] == {
                    "event_id": theirs[-1]["id"],
                    "dag_id": "export",
                    "run_id": started.json()["dag_run_id"],
                    "task_id": "write",
                    "map_index": -1,
                }
            assert await daemon.stop() == 0


def _events(client: httpx.Client, name: str) -> list[dict[str, Any]]:
    """Return all events of an asset, the oldest first."""
    events: list[dict[str, Any]] = []
    while True:
        asked = {"name_pattern": name, "order_by": "timestamp", "limit": 100, "offset": len(events)}
        page = client.get("/api/v2/assets/events", params=asked).raise_for_status().json()["asset_events"]
        events += page
        if len(page) < asked["limit"]:
            return events


def _of_export(seen: Path) -> dict[str, Any] | None:
    """Return the extra of the Dag's event as our job received it."""
    lines = [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []
    return next((line for line in lines if line["rows"] == 42), None)


def _keys(events: list[dict[str, Any]]) -> list[str]:
    return [file["key"] for event in events for file in event["extra"]["files"]]
