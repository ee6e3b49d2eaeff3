"""Upgrades the schema of 0.1.0 with a million events, half of them consumed by a run, on both databases, and measures the time.

`python bench/upgrade.py [events]`
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import anyio
from alembic import command
from sqlalchemy import text

from store.database import Database, migrations, sqlite_url
from watcher.shared.servers import running_postgres

NUMBERS = {
    "postgresql": "generate_series(1, :events) AS n",
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :events) SELECT n FROM s)",
}
NOW = "'2026-11-01 00:00:00'"
FILL = (
    f"INSERT INTO asset (id, name, uri, origin, created_at, updated_at) VALUES (1, 'inbox', 'inbox', 'yaml', {NOW}, {NOW})",
    f"INSERT INTO job (dag_id, task_id, definition, created_at, updated_at) VALUES ('load', 'load', '{{}}', {NOW}, {NOW})",
    (
        "INSERT INTO asset_event (asset_id, extra, timestamp, event_id, trace_id, source_watcher) SELECT 1,"
        f' \'{{"watcher": "files", "count": 1, "files": [{{"path": "/inbox/a.csv"}}]}}\', {NOW}, \'event-\' || n,'
        " 'trace-' || n, 'files' FROM {numbers}"
    ),
    (
        f"INSERT INTO queued_event (dag_id, event_id, asset_id, created_at) SELECT 'load', n, 1, {NOW} FROM {{numbers}}"
        " WHERE n % 2 = 0"
    ),
    (
        "INSERT INTO asset_store_history (asset_id, key, version, value, written_at, kind, watcher, write_id)"
        f" SELECT 1, 'files.watermark', n, '{{{{}}}}', {NOW}, 'watcher', 'files', 'write-' || n FROM {{numbers}}"
    ),
)


async def measure(url: str, events: int) -> float:
    async with Database.open(url) as database:
        async with database.transaction() as connection:
            await connection.run_sync(lambda sync: command.upgrade(migrations.config(sync), "0001"))
        for statement in FILL:
            filled = statement.replace("{numbers}", NUMBERS[database.dialect]).replace("{{}}", "{}")
            async with database.transaction() as connection:
                await connection.execute(text(filled), {"events": events} if ":events" in filled else {})
        started = time.monotonic()
        await migrations.upgrade(database)
        return time.monotonic() - started


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        seconds = anyio.run(measure, str(sqlite_url(Path(folder) / "watcher.db")), events)
        print(f"sqlite      {events:>9} events: {seconds:6.1f} s")
    with running_postgres() as address:
        seconds = anyio.run(measure, address.replace("postgresql://", "postgresql+asyncpg://"), events)
        print(f"postgresql  {events:>9} events: {seconds:6.1f} s")


if __name__ == "__main__":
    main()
