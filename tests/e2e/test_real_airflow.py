"""A real Airflow beside a real daemon: a file put on S3 starts a Dag there, a task there starts a job here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.real_airflow import PASSWORD, USER, needs_airflow, running_airflow
from tests.servers import fresh_bucket, running_postgres, running_s3
from tests.stand_in_spark import stand_in_spark
from watcher.demo.daemon import running_daemon
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.airflow, needs_airflow]
DAGS = Path(__file__).parents[2] / "examples/airflow/dags"
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


async def test_events_go_both_ways_and_outlive_kills_of_either_side(tmp_path: Path) -> None:
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

                def events(name: str) -> list[dict[str, Any]]:
                    page = client.get("/api/v2/assets/events", params={"name_pattern": name}).raise_for_status()
                    return list(page.json()["asset_events"])

                def runs(dag_id: str, state: str) -> list[dict[str, Any]]:
                    page = client.get(f"/api/v2/dags/{dag_id}/dagRuns", params={"state": state}).raise_for_status()
                    return list(page.json()["dag_runs"])

                s3.client.put_object(Bucket=bucket, Key="orders/1.json", Body=b"{}")
                await until("our event starts the Dag", lambda: runs("report", "success"))
                airflow.stop("api-server")
                s3.client.put_object(Bucket=bucket, Key="orders/2.json", Body=b"{}")
                await daemon.kill()
                s3.client.put_object(Bucket=bucket, Key="orders/3.json", Body=b"{}")
                await daemon.start()
                airflow.start("api-server")
                objects = await until(
                    "all files are told", lambda: (told := _keys(events("landing_orders"))) and len(told) >= 3 and told
                )
                assert sorted(objects) == ["orders/1.json", "orders/2.json", "orders/3.json"]
                marks = [event["extra"]["asset_watcher"]["event_id"] for event in events("landing_orders")]
                assert len(marks) == len(set(marks))

                started = client.post("/api/v2/dags/export/dagRuns", json={"logical_date": None}).raise_for_status()
                await until("its event starts our job", lambda: seen.exists() and seen.read_text())
                (event,) = events("customers")
                line = httpx.Response(200, text=seen.read_text()).json()
                assert line["rows"] == 42
                assert line["airflow"] == {
                    "event_id": event["id"],
                    "dag_id": "export",
                    "run_id": started.json()["dag_run_id"],
                    "task_id": "write",
                    "map_index": -1,
                }
            assert await daemon.stop() == 0


def _keys(events: list[dict[str, Any]]) -> list[str]:
    return [file["key"] for event in events for file in event["extra"]["files"]]
