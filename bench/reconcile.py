"""Measures `watcher reconcile`: the objects of a bucket against as many events, one object each, on PostgreSQL.

The listing is answered from memory by another process. Fifty differences are planted, and each has to be named: events that
are missing, objects that are, other contents, events of a failed run, and an event twice.

    python bench/reconcile.py [objects]
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import asyncpg
from s3_listing import PREFIX, serve

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database, migrations
from store.keys import JobDefinition
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles
from watcher.demo.servers import running_postgres
from watcher.triggerer.clients import Clients, Hosted, open_clients
from watcher.triggerer.reconciliation.engine import Reconciled, ReconcileProgress, Reconciler, ReconcileRange
from watcher.triggerer.reconciliation.evidence import Retention

PLANTED = {"gone_from_source": 10, "not_reported": 10, "failed": 20, "reported_twice": 10}
"""The differences, in the order of the numbers of their objects."""
EVENTS = """
INSERT INTO asset_event (asset_id, extra, timestamp, trace_id, source_watcher)
SELECT {asset}, json_build_object('watcher', 'files', 'count', 1, 'bucket', 'landing', 'files', json_build_array(json_build_object(
    'bucket', 'landing', 'key', '{prefix}' || lpad(n::text, 9, '0') || '-0f8fad5b-d9cb-469f.json', 'size', n,
    'etag', lpad(to_hex(n), 32, '0'), 'last_modified', '2026-11-' || lpad((1 + n % 18)::text, 2, '0') || 'T10:'
    || lpad((n / 60 % 60)::text, 2, '0') || ':' || lpad((n % 60)::text, 2, '0') || 'Z')))::text,
    now(), md5(n::text), 'files'
FROM generate_series({first}, {last}) n
"""
RUN = """
INSERT INTO run (dag_id, run_id, run_type, triggered_by, state, trace_id, queued_at, run_after)
VALUES ('load', '{state}', 'asset_triggered', 'asset', '{state}', md5('{state}'), now(), now())
"""
CONSUMED = """
INSERT INTO run_asset_event (dag_id, event_id, run_id)
SELECT 'load', id, CASE WHEN id BETWEEN {first} AND {last} THEN 'failed' ELSE 'success' END FROM asset_event
"""
POSITION = """
INSERT INTO watcher_position (watcher, source_identity, state, version)
VALUES ('files', '{}', '{"horizon": "2999-01-01T00:00:00Z"}', 1)
"""


def main() -> None:
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, objects), daemon=True)
    server.start()
    try:
        endpoint = f"http://127.0.0.1:{here.recv()}"
        with running_postgres() as url:
            anyio.run(measure, url, endpoint, objects)
    finally:
        server.terminate()


async def measure(url: str, endpoint: str, objects: int) -> None:
    connection = S3Connection(endpoint_url=endpoint, region="us-east-1", access_key_id="a", secret_access_key="b")
    async with Database.open(url) as database, open_clients({"lake": connection}) as clients:
        await migrations.upgrade(database)
        asset_id = await plant(database, url, objects)
        hosted = Hosted(
            name="files",
            asset="landing",
            asset_id=asset_id,
            trigger=S3NewFiles,
            options=S3NewFiles.Options.model_validate({"bucket": "landing", "prefix": "orders/", "start": "all"}),
            connection="lake",
        )
        with tempfile.TemporaryDirectory() as folder:
            result = await reconciled(database, clients, hosted, Path(folder))
    found = {kind: count for kind, count in result.differences.items() if count}
    planted = {kind: count for kind, count in PLANTED.items() if count}
    assert found == planted, found
    assert len(result.items) == sum(planted.values())


async def plant(database: Database, url: str, objects: int) -> int:
    job = DeclaredJob(
        dag_id="load",
        task_id="load",
        definition=JobDefinition(schedule="landing"),
        paused=False,
        assets={"schedule": {"landing"}},
    )
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name="landing", uri="s3://landing", group="", extra="{}")],
        watchers=[DeclaredWatcher(name="files", asset="landing", trigger="s3.new_files")],
        jobs=[job],
    )
    async with database.transaction() as connection:
        asset_id = (await catalog_sync.apply(connection, declared, database.dialect)).asset_ids["landing"]
    lost, failed, twice = 10, 20, 10
    about: dict[str, Any] = {"asset": asset_id, "prefix": PREFIX}
    statements = [
        EVENTS.format(**about, first=lost, last=objects + PLANTED["gone_from_source"] - 1),  # the first have none
        EVENTS.format(**about, first=objects - twice, last=objects - 1),
        RUN.format(state="success"),
        RUN.format(state="failed"),
        CONSUMED.format(first=1, last=failed),
        POSITION,
        "ANALYZE",
    ]
    session = await asyncpg.connect(url)
    for statement in statements:
        await session.execute(statement)
    await session.close()
    return asset_id


async def reconciled(database: Database, clients: Clients, hosted: Hosted, folder: Path) -> Reconciled:
    retention = Retention(events=timedelta(days=90), runs=timedelta(days=90))
    reconciler = Reconciler(database=database, clients=clients, retention=retention, folder=folder)
    before, began, cpu = memory(), time.perf_counter(), time.process_time()
    result = await reconciler.reconcile(hosted, ReconcileRange(), ReconcileProgress())
    seconds, spent = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{result.source:,} items against their events: {seconds:.1f} s, of which this process computed {spent:.1f} s"
    )
    print(f"{memory() - before} MB more memory; {dict(result.differences)}")
    return result


def memory() -> int:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
