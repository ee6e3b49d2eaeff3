"""The demo's configuration file and the environment its daemon starts with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from watcher.shared.servers import ACCESS_KEY, REGION, SECRET_KEY

JOBS: Final = ("load_orders", "load_customers")

_YAML: Final = Template("""\
version: 1

settings:
  home: home
  database: {url: $database}
  api: {port: $port}
  triggerer: {heartbeat: 1s, lease: 5s}
  scheduler: {parallelism: 2}

connections:
  lake:
    type: s3
    endpoint_url: $endpoint
    region: $region
    addressing_style: path
    access_key_id: $${LAKE_KEY}
    secret_access_key: $${LAKE_SECRET}
  shop:
    type: postgres
    dsn: $${SHOP_DSN}

assets:
  landing_orders:
    uri: s3://$bucket/orders/
    watchers:
      landing_orders_files: {trigger: s3.new_files, connection: lake, match: "**/*.json", interval: 1s, start: all}
  customers:
    uri: postgres://shop/shop/public/customers
    watchers:
      customers_rows:
        {trigger: postgres.new_rows, connection: shop, interval: 500ms, start: all, columns: [id, email, city]}
  orders_table: {uri: "file://$tables/orders"}
  customers_table: {uri: "file://$tables/customers"}

jobs:
  load_orders:
    schedule: landing_orders
    batch: {debounce: 2s, max_wait: 10s}
    inlets: [landing_orders]
    outlets: [orders_table]
    retries: 2
    retry_delay: 1s
    spark:
      application: $jobs/load_orders.py
      master: local[2]
      connections: [lake]
      args: ["$tables/orders"]
  load_customers:
    schedule: customers
    batch: {debounce: 2s, max_wait: 10s}
    inlets: [customers]
    outlets: [customers_table]
    retries: 2
    retry_delay: 1s
    spark:
      application: $jobs/load_customers.py
      master: local[2]
      args: ["$tables/customers"]
""")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The configuration file, environment and address of the demo's daemon."""

    configuration: Path
    environment: dict[str, str]
    url: str

    @property
    def home(self) -> Path:
        """The daemon's home, as the configuration says it."""
        return self.configuration.with_name("home")


def write_setting(
    folder: Path, *, port: int, endpoint: str, bucket: str, shop_dsn: str, database_url: str | None
) -> Setting:
    """Write `watchers.yaml` into the folder. `database_url` None: SQLite in the daemon's home."""
    configuration = folder / "watchers.yaml"
    configuration.write_text(
        _YAML.substitute(
            database=database_url or "null",
            port=port,
            endpoint=endpoint,
            bucket=bucket,
            region=REGION,
            tables=folder / "tables",
            jobs=files("watcher.features.demo") / "jobs",
        )
    )
    secrets = {"LAKE_KEY": ACCESS_KEY, "LAKE_SECRET": SECRET_KEY, "SHOP_DSN": shop_dsn}
    return Setting(
        configuration=configuration,
        environment={**os.environ, **secrets},
        url=f"http://127.0.0.1:{port}",
    )
