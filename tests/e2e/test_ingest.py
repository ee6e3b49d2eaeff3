"""`builtin:ingest` under everything that repeats a run: killed drivers, a killed daemon, retries, clears.

Files of S3 become a Parquet table on the local disk, rows of PostgreSQL a Delta table on S3; a reader of its own counts them
in the end.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template
from typing import Any

import anyio
import httpx
import psycopg
import pytest
from anyio.to_thread import run_sync
from deltalake import DeltaTable
from pyarrow import parquet

from tests.effort import PATIENCE
from tests.servers import S3Server, fresh_bucket, running_postgres, running_s3
from watcher.demo.counting import get
from watcher.demo.daemon import Daemon, running_daemon
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.slow]

CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  api: {port: $port, auth: none}
connections:
  lake: {type: s3, endpoint_url: "$endpoint", region: us-east-1, access_key_id: a, secret_access_key: b}
  shop: {type: postgres, dsn: "$dsn"}
assets:
  landing:
    uri: s3://$bucket/in/
    watchers: {files: {trigger: s3.new_files, connection: lake, interval: 500ms, start: all}}
  customers:
    uri: postgres://shop/shop/public/customers
    watchers: {rows: {trigger: postgres.new_rows, connection: shop, interval: 500ms, start: all}}
  orders_table: {uri: "file://$folder/orders"}
  customers_table: {uri: "s3://$bucket/tables/customers"}
jobs:
  ingest_orders:
    schedule: landing
    batch: {debounce: 1s}
    outlets: [orders_table]
    retries: 5
    retry_delay: 0s
    spark:
      application: builtin:ingest
      master: local[1]
      connections: [lake]
      options: {schema: "id long, amount double, day date", partition_by: [day], dedupe_key: id}
  ingest_customers:
    schedule: customers
    batch: {debounce: 1s}
    outlets: [customers_table]
    retries: 5
    retry_delay: 0s
    spark: {application: "builtin:ingest", master: "local[1]", connections: [lake, shop], options: {format: delta}}
""")


class World:
    """The sources, the daemon, and what its API says."""

    def __init__(self, folder: Path, server: S3Server, bucket: str, dsn: str, daemon: Daemon, client: Any) -> None:
        self.folder, self.server, self.bucket, self.dsn = folder, server, bucket, dsn
        self.daemon, self.client = daemon, client

    def put(self, name: str, *orders: Any) -> None:
        body = "\n".join(order if isinstance(order, str) else json.dumps(order) for order in orders)
        self.server.client.put_object(Bucket=self.bucket, Key=f"in/{name}", Body=body.encode())

    def insert(self, *ids: int) -> None:
        with psycopg.connect(self.dsn) as connection:
            for identifier in ids:
                connection.execute("INSERT INTO customers (id, email) VALUES (%s, %s)", [identifier, f"{identifier}@x"])

    async def runs(self, job: str) -> list[dict[str, Any]]:
        found = await get(self.client, f"/api/v2/dags/{job}/dagRuns", order_by="id")
        return list(found["dag_runs"])

    async def ended(self, job: str, count: int) -> list[str]:
        """The states of the job's runs, once so many have ended."""
        with anyio.fail_after(PATIENCE):
            while True:
                states = [run["state"] for run in await self.runs(job)]
                if len(states) >= count and not {"queued", "running"} & set(states):
                    return states
                await anyio.sleep(0.1)

    async def task(self, job: str, run: str) -> dict[str, Any]:
        found = await get(self.client, f"/api/v2/dags/{job}/dagRuns/{run}/taskInstances")
        return dict(found["task_instances"][0])

    async def entries(self, asset: str) -> dict[str, Any]:
        assets = (await get(self.client, "/api/v2/assets"))["assets"]
        [identifier] = [found["id"] for found in assets if found["name"] == asset]
        found = await get(self.client, f"/api/v2/assets/{identifier}/store")
        return {entry["key"]: entry["value"] for entry in found["asset_store"]}

    async def everything_killed_while_it_writes(self) -> None:
        """The daemon and all drivers; the daemon starts again."""
        with anyio.fail_after(PATIENCE):
            while not self.staged():
                await anyio.sleep(0.01)
        await self.daemon.kill()
        for process in drivers(self.folder):
            os.kill(process, signal.SIGKILL)
        await self.daemon.start()

    def staged(self) -> set[Path]:
        return set((self.folder / "orders" / "_staging").glob("*/*/*"))

    def orders(self, table: str = "orders") -> list[dict[str, Any]]:
        root = self.folder / table
        paths = [path.relative_to(root) for path in root.rglob("*.parquet")]
        seen = [path for path in paths if not any(part.startswith(("_", ".")) for part in path.parts)]
        return [
            {**row, "day": path.parts[1].removeprefix("day=")}
            for path in seen
            for row in parquet.ParquetFile(root / path).read().to_pylist()
        ]

    def customers(self) -> list[dict[str, Any]]:
        options = {
            "aws_endpoint": self.server.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
            "aws_allow_http": "true",
        }
        table = DeltaTable(f"s3://{self.bucket}/tables/customers", storage_options=options)
        return list(table.to_pyarrow_table().to_pylist())


def drivers(folder: Path) -> list[int]:
    """The JVMs and Python processes of tries, not the daemon and not the shims."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/home/runs" in environment and ("org.apache.spark.deploy.SparkSubmit" in words):
            found.append(int(entry.name))
    return found


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    with (
        running_s3() as server,
        fresh_bucket(server) as bucket,
        running_postgres() as postgres,
        postgres.database() as shop,
    ):
        with psycopg.connect(shop.dsn) as connection:
            connection.execute(
                "CREATE TABLE customers (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, email text)"
            )
        port, configuration = free_port(), folder / "watchers.yaml"
        values = {"port": port, "endpoint": server.endpoint, "bucket": bucket, "dsn": shop.dsn, "folder": folder}
        configuration.write_text(CONFIGURATION.substitute(values))
        url = f"http://127.0.0.1:{port}"
        async with running_daemon(configuration, url, os.environ) as daemon, httpx.AsyncClient(base_url=url) as client:
            yield World(folder, server, bucket, shop.dsn, daemon, client)


async def test_every_row_and_file_is_in_its_table_once_whatever_is_killed_retried_or_cleared(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await run_sync(lambda: of.put("a.json", order(1), order(2, day="2026-11-21"), order(1)))
        await run_sync(lambda: of.put("b.json", order(3), '{"id": "four"}', "not JSON"))
        await run_sync(lambda: of.insert(*range(1, 201)))
        await of.everything_killed_while_it_writes()
        assert await of.ended("ingest_orders", 1) == await of.ended("ingest_customers", 1) == ["success"]
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3])
        assert {row["id"]: row["day"] for row in of.orders()} == {1: "2026-11-20", 2: "2026-11-21", 3: "2026-11-20"}
        assert [row["_record"] for row in of.orders("orders_bad")] == ['{"id": "four"}', "not JSON"]
        entries = await of.entries("orders_table")
        summary = entries.pop("last_run_summary")
        first = (await of.runs("ingest_orders"))[0]["dag_run_id"]
        assert (entries["total_runs"], entries["rows_loaded"]) == (1, 3)
        assert summary["completed_at"] > entries["watermark"]
        assert {**summary, "completed_at": ""} == {
            "rows_loaded": 3,
            "bad_records": 2,
            "duplicates": 1,
            "run_id": first,
            "completed_at": "",
        }
        assert (await of.task("ingest_orders", first))["try_number"] == 2
        assert Counter(row["id"] for row in await run_sync(of.customers)) == Counter(range(1, 201))

        await run_sync(lambda: of.put("c.json", order(2), order(5), order(6)))
        assert set(await of.ended("ingest_orders", 2)) == {"success"}
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3, 5, 6])

        cleared = await of.client.post(f"/api/v2/dags/ingest_orders/dagRuns/{first}/clear", json={"dry_run": False})
        cleared.raise_for_status()
        assert set(await of.ended("ingest_orders", 2)) == {"success"}
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3, 5, 6])
        after = await of.entries("orders_table")
        assert (after["total_runs"], after["rows_loaded"]) == (2, 5)
        assert after["watermark"] > entries["watermark"]
        [load] = await of.runs("ingest_customers")
        cleared = await of.client.post(
            f"/api/v2/dags/ingest_customers/dagRuns/{load['dag_run_id']}/clear", json={"dry_run": False}
        )
        cleared.raise_for_status()
        assert await of.ended("ingest_customers", 1) == ["success"]
        assert Counter(row["id"] for row in await run_sync(of.customers)) == Counter(range(1, 201))
        assert (await of.entries("customers_table"))["schema"] == "id BIGINT,email STRING"
        assert not of.staged()


def order(identifier: int, *, day: str = "2026-11-20") -> dict[str, Any]:
    return {"id": identifier, "amount": 1.5, "day": day}
