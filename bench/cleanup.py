"""Measures a clean-up of a million expired task entries on both databases: its longest transaction, and a writer's longest wait.

Meanwhile a writer writes an entry every few milliseconds. Its longest wait is what a job would notice.

`python bench/cleanup.py [rows]`
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import anyio
from sqlalchemy import text

from store.base import TaskScope
from store.database import Database, migrations, sqlite_url
from store.metastore import MetastoreStoreBackend
from store.processes.cleanup import Removed, Retention, Sweep
from watcher import assembly
from watcher.installed import installed
from watcher.operations.cleanup import Cleaner, CleanupLimits
from watcher.shared.servers import running_postgres

COLUMNS = "task_store (dag_id, run_id, task_id, map_index, key, value, updated_at, expires_at, never_expire, is_ref)"
OLD = "'2020-01-01 00:00:00'"
FILL = {
    "postgresql": f"INSERT INTO {COLUMNS} SELECT 'load', 'run_' || n / 100, 'load', -1, 'key_' || n, '1', {OLD},"
    f" {OLD}::timestamptz + n * interval '1 second', false, false FROM generate_series(1, :rows) AS n",
    "sqlite": f"INSERT INTO {COLUMNS} WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :rows)"
    f" SELECT 'load', 'run_' || (n / 100), 'load', -1, 'key_' || n, '1', {OLD},"
    f" datetime({OLD}, n || ' seconds') || '.000000', 0, 0 FROM s",
}


class Timed(Cleaner):
    """A clean-up that records how long its batches took."""

    longest = 0.0
    batches = 0

    async def _batch(self, sweep: Sweep, size: int, after: object) -> Removed | None:
        started = time.perf_counter()
        removed = await super()._batch(sweep, size, after)
        self.longest = max(self.longest, time.perf_counter() - started)
        self.batches += 1
        return removed


async def measure(url: str, rows: int) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        async with database.transaction() as connection:
            await connection.execute(text(FILL[database.dialect]), {"rows": rows})
        backend = MetastoreStoreBackend(database)
        days = Retention(task_days=30, history_days=90, event_days=90, run_days=90, orphan_days=30)
        kept = assembly.kept_events(installed().features)
        limits = CleanupLimits(retention=days, logs=timedelta(days=30), batch_size=0)
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            cleaner = Timed(database, backend, home, home / "logs", limits, kept, ())
            waits: list[float] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_writing, backend, waits)
                started = time.perf_counter()
                counts = await cleaner.clean(progress)
                spent = time.perf_counter() - started
                tasks.cancel_scope.cancel()
        assert counts["expired task entries"] == rows
        print(
            f"\n{database.dialect}: {rows} rows in {spent:.1f} s, {cleaner.batches} transactions, the longest"
            f" {cleaner.longest * 1000:.0f} ms; {len(waits)} writes meanwhile, the longest {max(waits) * 1000:.0f} ms"
        )


async def keep_writing(backend: MetastoreStoreBackend, waits: list[float]) -> None:
    scope = TaskScope(dag_id="load", run_id="now", task_id="load")
    while True:
        started = time.perf_counter()
        await backend.aset(scope, "key", "1")
        waits.append(time.perf_counter() - started)
        await anyio.sleep(0.005)


def progress(name: str, done: int, total: int) -> None:
    print(f"\r{name}: {done} of {total}", end="", flush=True)


def main() -> None:
    rows = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
    with running_postgres() as address:
        anyio.run(measure, address.replace("postgresql://", "postgresql+asyncpg://"), rows)
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, str(sqlite_url(Path(folder) / "watcher.db")), rows)


if __name__ == "__main__":
    main()
