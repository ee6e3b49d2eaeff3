"""Two examples under everything that repeats a run of `builtin:ingest`: killed drivers, a killed daemon, retries, clears.

Files of S3 become a Parquet table on the local disk. Rows of PostgreSQL become a Delta and an Iceberg table on S3, the latter
by a REST catalog. Separate readers read both tables all the time and always see either all rows or none.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import psycopg
import pytest
from anyio.to_thread import run_sync
from deltalake.exceptions import TableNotFoundError
from pyarrow import parquet
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from ruamel.yaml import YAML

from asset_job.tables.layout import location_of
from tests.contract.tables import Kind, delta_on, iceberg_on
from tests.effort import LONG, PATIENCE
from tests.iceberg_rest import running_catalog
from tests.pages import ROOT
from tests.servers import S3Server, fresh_bucket, running_postgres, running_s3
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.slow]

CUSTOMERS = list(range(1, 201))
CLEARED = ("ingest_customers", "ingest_ice") if LONG else ("ingest_ice",)
"""The jobs whose run is cleared, in addition to that of the orders."""
EXAMPLES = [ROOT / "examples" / name for name in ("orders-from-s3", "customers-from-postgres")]
[READ] = re.findall(r"^```python\n(.*?)^```$", (EXAMPLES[1] / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def configuration(port: int) -> dict[str, Any]:
    """Return both examples in one configuration, changed only in their times."""
    whole: dict[str, Any] = {"version": 1, "settings": {"home": "home", "api": {"port": port, "auth": "none"}}}
    for example in EXAMPLES:
        document = YAML(typ="safe").load(example / "watchers.yaml")
        for section in ("connections", "assets", "jobs"):
            whole.setdefault(section, {}).update(document[section])
    catalog = {"type": "iceberg", "catalog": "rest", "uri": "${CATALOG}", "warehouse": "s3://${BUCKET}/warehouse"}
    whole["connections"]["ice"] = {**catalog, "storage": "lake"}
    whole["assets"]["customers_ice"] = {"uri": "s3://${BUCKET}/tables/customers_ice"}
    spark = whole["jobs"]["ingest_customers"]["spark"]
    options = {"format": "iceberg", "target": "shop.orders", "target_connection": "ice"}
    spark = {**spark, "connections": [*spark["connections"], "ice"], "options": options}
    whole["jobs"]["ingest_ice"] = {**whole["jobs"]["ingest_customers"], "outlets": ["customers_ice"], "spark": spark}
    for job in whole["jobs"].values():
        job.update(batch={"debounce": "1s"}, retry_delay="0s")
        job["spark"] = {**job["spark"], "master": "local[1]"}
    for asset in whole["assets"].values():
        for watcher in asset.get("watchers", {}).values():
            watcher["interval"] = "500ms"
    return whole


class World:
    """The sources, the daemon, and the answers of its API."""

    def __init__(self, folder: Path, server: S3Server, bucket: str, dsn: str, daemon: Daemon, client: Any) -> None:
        self.folder, self.server, self.bucket, self.dsn = folder, server, bucket, dsn
        self.daemon, self.client = daemon, client
        self.tables: list[Kind] = []
        self.seen: Counter[str] = Counter()
        """How often each reader saw all customers."""

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
        """Wait until `count` runs of the job have ended, and return their states."""
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
        """Kill the daemon and all drivers while they write, and start the daemon again."""
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

    async def keep_reading(self) -> None:
        """Read both tables of customers, over and over."""
        while True:
            for table in self.tables:
                ids = await run_sync(ids_in, table)
                assert ids in ([], CUSTOMERS), f"{table} shows {len(ids)} rows"
                self.seen[type(table).__name__] += ids == CUSTOMERS
            await anyio.sleep(0.3 if LONG else 1.0)

    def customers(self) -> list[dict[str, Any]]:
        """Read the customers as the example's page does."""
        names: dict[str, Any] = {}
        exec(READ, names)  # noqa: S102
        return list(names["rows"])


def ids_in(table: Kind) -> list[int]:
    """Return the ids in a table, none if the table does not exist yet."""
    with suppress(TableNotFoundError, NoSuchTableError, NoSuchNamespaceError):
        return table.ids()
    return []


def drivers(folder: Path) -> list[int]:
    """Return the JVMs and Python processes of tries, without the daemon and the shims."""
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
        ExitStack() as services,
    ):
        with psycopg.connect(shop.dsn) as connection:
            connection.execute(
                "CREATE TABLE customers (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, email text)"
            )
        names = iceberg_on(server, bucket, folder).properties
        catalog = services.enter_context(running_catalog(folder, **names))
        delta = replace(delta_on(server, bucket), location=location_of(f"s3://{bucket}/tables/customers", {}))
        port, file = free_port(), folder / "watchers.yaml"
        with file.open("w") as text:
            YAML().dump(configuration(port), text)
        url = f"http://127.0.0.1:{port}"
        with pytest.MonkeyPatch.context() as environment:
            for name, value in {
                "BUCKET": bucket,
                "TABLES": str(folder),
                "LAKE_ENDPOINT": server.endpoint,
                "LAKE_KEY": server.access_key,
                "LAKE_SECRET": server.secret_key,
                "SHOP_DSN": shop.dsn,
                "CATALOG": catalog,
            }.items():
                environment.setenv(name, value)
            async with running_daemon(file, url, os.environ) as daemon, httpx.AsyncClient(base_url=url) as client:
                world = World(folder, server, bucket, shop.dsn, daemon, client)
                world.tables = [delta, iceberg_on(server, bucket, folder, rest=catalog)]
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(world.keep_reading)
                    yield world
                    tasks.cancel_scope.cancel()


async def test_every_row_and_file_is_in_its_table_once_whatever_is_killed_retried_or_cleared(tmp_path: Path) -> None:
    async with world(tmp_path) as of:
        await run_sync(lambda: of.put("a.json", order(1), order(2, day="2026-11-21"), order(1)))
        await run_sync(lambda: of.put("b.json", order(3), '{"id": "four"}', "not JSON"))
        await run_sync(lambda: of.insert(*CUSTOMERS))
        await of.everything_killed_while_it_writes()
        for job in ("ingest_orders", "ingest_customers", "ingest_ice"):
            assert await of.ended(job, 1) == ["success"], job
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3])
        assert {row["id"]: row["day"] for row in of.orders()} == {1: "2026-11-20", 2: "2026-11-21", 3: "2026-11-20"}
        assert sorted(row["_record"] for row in of.orders("orders_bad")) == ["not JSON", '{"id": "four"}']
        entries = await of.entries("orders")
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
        assert Counter(row["id"] for row in await run_sync(of.customers)) == Counter(CUSTOMERS)

        await run_sync(lambda: of.put("c.json", order(2), order(5), order(6)))
        assert set(await of.ended("ingest_orders", 2)) == {"success"}
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3, 5, 6])

        cleared = await of.client.post(f"/api/v2/dags/ingest_orders/dagRuns/{first}/clear", json={"dry_run": False})
        cleared.raise_for_status()
        assert set(await of.ended("ingest_orders", 2)) == {"success"}
        assert Counter(row["id"] for row in of.orders()) == Counter([1, 2, 3, 5, 6])
        after = await of.entries("orders")
        assert (after["total_runs"], after["rows_loaded"]) == (2, 5)
        assert after["watermark"] > entries["watermark"]
        for job in CLEARED:
            [load] = await of.runs(job)
            place = f"/api/v2/dags/{job}/dagRuns/{load['dag_run_id']}/clear"
            (await of.client.post(place, json={"dry_run": False})).raise_for_status()
        for job in CLEARED:
            assert await of.ended(job, 1) == ["success"], job
            [load] = await of.runs(job)
            assert (await of.task(job, load["dag_run_id"]))["try_number"] >= 2, job
        assert Counter(row["id"] for row in await run_sync(of.customers)) == Counter(CUSTOMERS)
        for table in of.tables:
            for read in (table.by_library, table.by_duckdb):
                assert sorted((await run_sync(read))["id"].to_pylist()) == CUSTOMERS
        assert min(of.seen["Delta"], of.seen["Iceberg"]) > 1, of.seen
        assert (await of.entries("customers_table"))["schema"] == "id BIGINT,email STRING"
        assert not of.staged()


def order(identifier: int, *, day: str = "2026-11-20") -> dict[str, Any]:
    return {"id": identifier, "amount": 1.5, "day": day}
