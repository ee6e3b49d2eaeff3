"""A Delta table follows a table of PostgreSQL, change by change, while the daemon is killed again and again.

WATCHER_TEST_LONG=1 kills more often. WATCHER_TEST_SEED repeats a history; the seed is printed.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import psycopg
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.effort import SEED, effort
from tests.servers import running_postgres
from tests.service.postgres.logged import COLUMNS, SCHEMA, LogWriter, logged_database
from tests.torture.daemons import Daemons, until
from triggers.changes.options import ChangesOptions

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.slow]

KILLS, CHANGES = effort(3, 20), effort(400, 8000)


def document(dsn: str, folder: Path) -> dict[str, Any]:
    watched = {"trigger": "postgres.new_rows", "connection": "shop", "mode": "log", "columns": COLUMNS}
    merged = {
        "format": "delta",
        "merge": True,
        "dedupe_key": ["id", "region"],
        "schema": "id long, region int, note string, price decimal(12,2), big string",
    }
    return {
        "connections": {"shop": {"type": "postgres", "dsn": dsn}},
        "assets": {
            "plain": {
                "uri": "postgres://shop/shop/public/plain",
                "watchers": {"plain_log": {**watched, "interval": "50ms"}},
            },
            "table": {"uri": (folder / "table").as_uri()},
        },
        "jobs": {
            "merge": {
                "schedule": "plain",
                "batch": {"debounce": "500ms", "max_wait": "5s"},
                "outlets": ["table"],
                "retries": 50,
                "retry_delay": "100ms",
                "spark": {
                    "application": "builtin:ingest",
                    "connections": ["shop"],
                    "master": "local[1]",
                    "options": merged,
                },
            }
        },
    }


def stored(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return sorted(connection.execute(f"SELECT {', '.join(COLUMNS)} FROM plain".encode()).fetchall())


def merged(folder: Path) -> list[tuple[Any, ...]]:
    try:
        table = DeltaTable(folder / "table").to_pyarrow_table(columns=list(COLUMNS))
    except TableNotFoundError:
        return []
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def runs_of(daemons: Daemons) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = daemons.get("/api/v2/dags/merge/dagRuns?limit=1000")["dag_runs"]
    return runs


async def write(dsn: str, seed: float, enough: threading.Event) -> None:
    connection = await asyncpg.connect(dsn)
    writer = LogWriter(connection, random.Random(seed), "plain")
    while writer.changes < CHANGES or not enough.is_set():
        await writer.transact()
        await anyio.sleep(0.05)
    await connection.close()


def test_the_table_is_what_its_source_is_whatever_is_killed(tmp_path: Path) -> None:
    print(f"WATCHER_TEST_SEED={SEED}")  # noqa: T201  shown when the test fails
    dice = random.Random(SEED)
    with running_postgres(wal_level="logical", max_prepared_transactions=20) as server, logged_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(SCHEMA)
            name = ChangesOptions(table="public.plain").publication_name
            admin.execute(f"CREATE PUBLICATION {name} FOR TABLE plain".encode())
        with Daemons(tmp_path, document(dsn, tmp_path)) as daemons:
            daemons.start()
            until(daemons.is_ready)
            writer = threading.Thread(target=anyio.run, args=(write, dsn, dice.random(), enough := threading.Event()))
            writer.start()
            for _ in range(KILLS):
                until(daemons.is_ready)
                time.sleep(dice.uniform(0, 8))
                daemons.stop(signal.SIGKILL)
                daemons.start()
            enough.set()
            writer.join()
            until(daemons.is_ready)
            expected = stored(dsn)
            until(lambda: merged(tmp_path) == expected)
            until(lambda: {run["state"] for run in runs_of(daemons)} == {"success"})
            assert merged(tmp_path) == expected
            print(f"{len(expected)} rows after {len(runs_of(daemons))} runs")  # noqa: T201
            assert daemons.stop() == 0
