"""A daemon for people with a browser: PostgreSQL as its database and as a source, an S3 server, and tokens."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import httpx

from tests.effort import PATIENCE
from tests.servers import fresh_bucket, running_postgres, running_s3
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import ACCESS_KEY, REGION, SECRET_KEY, free_port

CONFIGURATION = """
version: 1
settings:
  home: home
  database: {url: "$database"}
  api: {port: $port}
  triggerer: {heartbeat: 1s, lease: 5s}
  scheduler: {parallelism: 2}
connections:
  lake: {type: s3, endpoint_url: "$endpoint", region: $region, addressing_style: path,
    access_key_id: "${LAKE_KEY}", secret_access_key: "${LAKE_SECRET}"}
  shop: {type: postgres, dsn: "${SHOP_DSN}"}
assets:
  landing_orders:
    uri: s3://$bucket/orders/
    group: shop
    watchers:
      landing_files: {trigger: s3.new_files, connection: lake, match: "**/*.json", interval: 1s, start: all}
  customers:
    uri: postgres://shop/postgres/public/customers
    watchers:
      customers_rows: {trigger: postgres.new_rows, connection: shop, interval: 500ms, start: all, columns: [id, city]}
  returns:
    expect_every: 1h
    watchers:
      returns_files: {trigger: file.new_files, path: returns, match: "*.csv", interval: 1s, start: all}
  orders_table: {}
jobs:
  load_orders:
    schedule: landing_orders
    inlets: [landing_orders]
    outlets: [orders_table]
    spark: {application: load.py, env: {SPARK_HOME: "$spark"}}
  reconcile:
    schedule: {all: [orders_table, returns]}
    inlets: [orders_table]
    spark: {application: load.py, env: {SPARK_HOME: "$spark"}}
  counts:
    spark: {application: count.py, master: "local[1]", profile: small}
  always_fails:
    spark: {application: fail.py, env: {SPARK_HOME: "$spark"}}
"""
LOAD = """
from asset_job import run

with run() as r:
    print("loading", len(list(r.triggering_asset_events)), "events")
    with r.asset_store["orders_table"].transaction() as t:
        t.increment("files_loaded", 1)
        t["last_run"] = {"finished_at": r.now()}
    r.outlet_events["orders_table"].extra = {"files": 1}
"""
COUNT = """
import time
from asset_job import run

with run() as r:
    numbers = r.spark.sparkContext.parallelize(range(12), 12)
    print(numbers.map(lambda number: time.sleep(1) or number).sum())
"""
FAIL = "raise ValueError('the table orders has no column city')\n"


@dataclass(frozen=True, kw_only=True)
class Site:
    """Actions outside the browser: as the administrator, and in the sources."""

    url: str
    client: httpx.AsyncClient
    daemon: Daemon
    folder: Path
    put_file: Callable[[str], None]
    shop_dsn: str
    admin: str
    """Return a new token with this role."""

    async def get(self, path: str) -> Any:
        return (await self.client.get(path)).raise_for_status().json()

    async def token(self, role: str) -> str:
        answer = await self.client.post("/api/v2/tokens", json={"subject": f"{role}-ann", "role": role})
        return answer.raise_for_status().json()["token"]

    async def asset_id(self, name: str) -> int:
        (asset,) = (await self.get(f"/api/v2/assets?name_prefix_pattern={name}"))["assets"]
        return asset["id"]

    async def rows(self, *cities: str) -> None:
        connection = await asyncpg.connect(self.shop_dsn)
        try:
            await connection.executemany("INSERT INTO customers (city) VALUES ($1)", [(city,) for city in cities])
        finally:
            await connection.close()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until the function returns a true value, and return it."""
        with anyio.fail_after(PATIENCE):
            while not (result := await condition()):
                await anyio.sleep(0.1)
        return result

    async def entry(self, asset: str, key: str) -> Any:
        """Wait until the value exists, and return it."""
        path = f"/api/v2/assets/{await self.asset_id(asset)}/store/{key}"

        async def stored() -> Any:
            answer = await self.client.get(path)
            return answer.json() if answer.is_success else None

        return await self.until(stored)


@asynccontextmanager
async def running_site(folder: Path) -> AsyncIterator[Site]:
    with (
        running_postgres(fsync="off") as server,
        running_s3() as s3,
        fresh_bucket(s3) as bucket,
        server.database() as kept,
        server.database() as shop,
    ):
        connection = await asyncpg.connect(shop.dsn)
        await connection.execute("CREATE TABLE customers (id bigserial PRIMARY KEY, city text NOT NULL)")
        await connection.close()
        port = free_port()
        values = {"port": port, "database": kept.sqlalchemy_url, "endpoint": s3.endpoint, "bucket": bucket}
        configuration = _written(folder, region=REGION, spark=stand_in_spark(folder), **values)
        secrets = {"LAKE_KEY": ACCESS_KEY, "LAKE_SECRET": SECRET_KEY, "SHOP_DSN": shop.dsn}
        environment = {**os.environ, **secrets}
        async with running_daemon(configuration, f"http://127.0.0.1:{port}", environment) as daemon:
            admin = await _token(configuration, environment)
            headers = {"Authorization": f"Bearer {admin}"}
            async with httpx.AsyncClient(base_url=daemon.url, headers=headers, timeout=60) as client:
                yield Site(
                    url=daemon.url,
                    client=client,
                    daemon=daemon,
                    folder=folder,
                    put_file=lambda key: s3.client.put_object(Bucket=bucket, Key=f"orders/{key}", Body=b"{}"),
                    shop_dsn=shop.dsn,
                    admin=admin,
                )


def _written(folder: Path, **values: object) -> Path:
    text = CONFIGURATION
    for name, value in values.items():
        text = text.replace(f"${name}", str(value))
    (folder / "watchers.yaml").write_text(text)
    (folder / "load.py").write_text(LOAD)
    (folder / "count.py").write_text(COUNT)
    (folder / "fail.py").write_text(FAIL)
    (folder / "returns").mkdir()
    return folder / "watchers.yaml"


async def _token(configuration: Path, environment: dict[str, str]) -> str:
    words = ("token", "create", "--subject", "root", "--role", "admin", "-c", str(configuration))
    return (await anyio.run_process([sys.executable, "-m", "watcher", *words], env=environment)).stdout.decode().strip()
