"""Ingestions that load and put aside the same whatever reads: Spark's Python data sources, or the jars of a job's own."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import obstore
import psycopg
import pyarrow as pa
from obstore.store import LocalStore, S3Store
from pyarrow import parquet

from tests.servers import S3Server
from tests.unit.sdk.execution_server import event

Case = tuple[str, dict[str, Any], dict[str, Any]]
"""A run, its triggering events, and the options."""

SCHEMA = "id long, amount double, day date"
INGEST = """
from asset_job import AssetJobSkip
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.job import Ingest
from asset_job.ingest.plan import IngestJobOptions
from asset_job.errors import describe

def ingest(r, cases):
    found = {}
    for name, (run_id, events, options) in cases.items():
        r.run_id, r.triggering_asset_events = run_id, TriggeringAssetEvents(events)
        r.task_store.clear()
        try:
            Ingest(run=r, options=IngestJobOptions.from_json(options)).execute()
            found[name] = r.outlet_events["orders"].extra
        except (Exception, AssetJobSkip) as error:
            found[name] = describe(error)
    return found
"""
"""For a job's program: what each case's run says at its end, by name."""


class Landing:
    """Files of a bucket, as a watcher's events name them."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        self.server, self.bucket = server, bucket
        self.one = self.put(
            "a.json", '{"id": 1, "amount": 1, "day": "2026-11-20"}', '{"id": 2, "day": "2026-11-21", "new": 1}'
        )
        self.wrong = self.put("c.json", '{"id": "x"}', "{", '{"id": 4, "amount": 1}', '[{"id": 5}, {"id": 6}]')

    def put(self, key: str, *lines: str) -> dict[str, Any]:
        body = "\n".join(lines).encode()
        if key.endswith(".gz"):
            body = gzip.compress(body)[:-5]  # cut off
        etag = self.server.client.put_object(Bucket=self.bucket, Key=key, Body=body)["ETag"].strip('"')
        return {"bucket": self.bucket, "key": key, "size": len(body), "etag": etag}

    def keys(self) -> dict[str, str]:
        server = self.server
        return {
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
            "region": "us-east-1",
        }

    def connection(self) -> dict[str, str]:
        return {"type": "s3", "endpoint_url": self.server.endpoint, **self.keys()}

    def store(self) -> S3Store:
        options: Any = {"endpoint": self.server.endpoint, **self.keys()}
        return S3Store(self.bucket, config=options, client_options={"allow_http": True})


def of_files(*files: dict[str, Any]) -> dict[str, Any]:
    return {"landing": [event(1, "landing", "2026-11-20T09:00:00Z", files=files, watermark={"to": "2026-11-20"})]}


def of_rows(table: str, **what: Any) -> dict[str, Any]:
    return {"rows": [event(1, "rows", "2026-11-20T09:00:00Z", table=f"public.{table}", column="id", **what)]}


def make_tables(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE shop (id bigint PRIMARY KEY, amount numeric(9,2), day date, more text)")
        connection.execute("INSERT INTO shop SELECT n, n / 2.0, '2026-11-20', 'x' FROM generate_series(1, 10) n")
        connection.execute("CREATE TABLE other (id text PRIMARY KEY, amount text, day date)")
        connection.execute("INSERT INTO other VALUES ('seven', 'x', '2026-11-20')")
        connection.execute("CREATE TABLE endless (id bigint PRIMARY KEY, day date)")
        connection.execute("INSERT INTO endless VALUES (1, '2026-11-20'), (2, 'infinity')")


def cases_of(landing: Landing, folder: Path) -> dict[str, Case]:
    local = folder / "local.csv"
    local.write_text("id,amount,day\n30,1.5,2026-11-20\nx,1,2026-11-20\n31,1\n")
    one, wrong = landing.one, landing.wrong
    same = landing.put("b.json", '{"id": 2, "amount": 9, "day": "2026-11-21"}', '{"id": 3, "day": null}', '{"id": 3}')
    keyed = {
        "target": f"s3://{landing.bucket}/t",
        "partition_by": "day",
        "dedupe_key": ["id", "day"],
        "schema": SCHEMA,
    }
    return {
        "keyed": ("r:1", of_files(one), keyed),
        "keyed again": ("r:2", of_files(one, same), keyed),
        "keyed, repeated": ("r:1", of_files(one), keyed),
        "bad": ("r:1", of_files(wrong), {"target": f"s3://{landing.bucket}/bad", "schema": SCHEMA}),
        "local": ("r:1", of_files({"path": str(local)}), {"schema": SCHEMA, "max_bad_records": "70%"}),
        "rows": ("r:2", of_rows("shop", ranges=[[1, 3], [9, 99]]), {"schema": SCHEMA}),
        "rows by key": ("r:3", of_rows("shop", keys=[5, 500]), {"schema": SCHEMA}),
        "inferred": ("r:4", of_files(one), {}),
        "enforced": ("r:5", of_files(wrong), {}),
    }


def counts_of(said: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    return {
        name: (extra["rows_loaded"], extra["bad_records"], extra["duplicates"])
        for name, extra in said.items()
        if isinstance(extra, dict)
    }


COUNTS = {
    "keyed": (2, 0, 0),
    "keyed again": (1, 0, 4),
    "keyed, repeated": (2, 0, 0),
    "bad": (3, 2, 0),
    "local": (1, 2, 0),
    "rows": (5, 0, 0),
    "rows by key": (1, 0, 0),
    "inferred": (2, 0, 0),
    "enforced": (3, 2, 0),
}


def check(landing: Landing, folder: Path, entries: dict[tuple[str, str], dict[str, Any]]) -> None:
    """What is in the tables and the asset store after all of the cases; the outlet of the job is the folder's `orders`."""
    remote, disk = landing.store(), LocalStore(folder)
    assert rows_of(remote, "t") == {
        "run=r.1/day=2026-11-20": [1],
        "run=r.1/day=2026-11-21": [2],
        "run=r.2/day=__HIVE_DEFAULT_PARTITION__": [3],
    }
    assert rows_of(remote, "bad") == {"run=r.1": [4, 5, 6]}
    assert rows_of(remote, "bad_bad") == {"run=r.1": ["{", '{"id": "x"}']}
    assert rows_of(disk, "orders_bad")["run=r.1"] == ["31,1", "x,1,2026-11-20"]
    orders = rows_of(disk, "orders")
    assert [orders[f"run=r.{number}"] for number in range(1, 6)] == [[30], [1, 2, 3, 9, 10], [5], [1, 2], [4, 5, 6]]
    assert entries["orders", "schema"]["value"] == "amount BIGINT,day STRING,id BIGINT,new BIGINT"
    assert entries["orders", "watermark"]["value"] == "2026-11-20"


def rows_of(store: Any, root: str) -> dict[str, list[Any]]:
    """Of each run's part and partition, as a reader sees them who passes over `_…`: ids, or records that did not fit."""
    found: dict[str, list[Any]] = {}
    for path in sorted(one["path"] for page in obstore.list(store, root) for one in page):
        *folders, name = path.removeprefix(f"{root}/").split("/")
        if not any(part.startswith(("_", ".")) for part in (*folders, name)):
            table = parquet.ParquetFile(pa.BufferReader(bytes(obstore.get(store, path).bytes()))).read()
            column = "_record" if "_record" in table.column_names else "id"
            found.setdefault("/".join(folders), []).extend(table[column].to_pylist())
    return {folder: sorted(values) for folder, values in found.items()}
