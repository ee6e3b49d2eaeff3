"""Measures the time to the first byte of each web page, its CPU and its statements, on large tables of both databases.

1,000 watchers, 10,000 runs, 1,000,000 events, 100,000 versions of entries. The application runs in this process, whose CPU is
printed with that of PostgreSQL's server (SQLite's is in it); the statement that takes longest is named with each page.

`python bench/pages.py [--events 1000000] [--only postgresql]`
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
from explain import cpu_seconds, process_of_server
from sqlalchemy import event

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database, migrations, sqlite_url
from store.keys import JobDefinition
from tests.service.api.application import make_context
from watcher.serving.api.app import create_app
from watcher.shared.servers import running_postgres

WATCHERS: Final = 1000
JOBS: Final = 10
RUNS: Final = 10_000
VERSIONS: Final = 100_000
LOOKS: Final = 15
DEFINITION: Final = """{"schedule": {"all": ["asset0001", "asset0002"]}, "batch": {"mode": "coalesce", "debounce": 0, "max_wait": 300,
    "max_events": 1000}, "max_active_runs": 1, "retries": 0, "retry_delay": 30, "timeout": null, "options": {},
    "spark": {"application": "job.py", "master": "local[*]"}}"""
NUMBERS: Final = "WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last})"
AT_ONCE: Final = 50_000
AGO: Final = {
    "postgresql": "now() - ({}) * interval '1 second'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || ({}) || ' seconds')",
}
FILL: Final = {
    "events": """INSERT INTO asset_event
        (asset_id, extra, timestamp, event_id, trace_id, source_map_index, source_watcher) {numbers}
        SELECT 1 + n % 1000, '{{"rows": 42}}', {ago}, 'event' || n, 'trace' || n, -1, 'watcher0001' FROM s""",
    "runs": """INSERT INTO run
        (dag_id, run_id, run_type, triggered_by, state, conf, trace_id, run_after, queued_at, start_date, end_date) {numbers}
        SELECT 'job' || (n % 10), 'asset_triggered__' || n, 'asset_triggered', 'asset',
        CASE n % 20 WHEN 0 THEN 'failed' ELSE 'success' END, '{{}}', 'trace' || n, {ago}, {ago}, {ago}, {ago} FROM s""",
    "consumed": """INSERT INTO run_asset_event (dag_id, event_id, run_id, completed) {numbers}
        SELECT 'job' || (n % 10), n, 'asset_triggered__' || n, true FROM s""",
    "entries": """INSERT INTO asset_store (asset_id, key, value, is_ref, version, updated_at) {numbers}
        SELECT n, 'rows_' || n, '1', false, 1, {ago} FROM s""",
    "versions": """INSERT INTO asset_store_history
        (asset_id, key, version, value, is_ref, deleted, written_at, write_id) {numbers}
        SELECT 1, 'rows_1', n, '1', false, false, {ago}, 'write' || n FROM s""",
    "audit": """INSERT INTO audit (actor, action, target, at) {numbers}
        SELECT 'ann', 'watcher.pause', 'w', {ago} FROM s""",
}
PAGES: Final = (
    "/",
    "/assets",
    "/assets/1",
    "/assets/1/events",
    "/assets/1/events?before=500000",
    "/assets/1/entry?key=rows_1",
    "/watchers/watcher0001",
    "/watchers/watcher0001/log",
    "/runs",
    "/watchers",
    "/jobs",
    "/timeline",
    "/timeline?zoom=week",
    "/runs?state=failed",
    "/runs?state=running",
    "/runs?state=failed&job=job0",
    "/runs/job1/asset_triggered__1",
    "/jobs/job1",
    "/graph",
    "/audit",
    "/search?q=asset",
    "/search?q=nothing",
    "/search?q=500000",
    "/search?q=write500",
    "/readyz",
    "/api/v2/problems",
)


async def fill(database: Database, events: int) -> None:
    numbers = [f"{number:04}" for number in range(WATCHERS)]
    definition = JobDefinition.from_json(DEFINITION)
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name=f"asset{n}", uri=f"s3://lake/{n}", group="shop", extra="{}") for n in numbers],
        watchers=[DeclaredWatcher(name=f"watcher{n}", asset=f"asset{n}", trigger="s3.new_files") for n in numbers],
        jobs=[
            DeclaredJob(
                dag_id=f"job{number}",
                task_id="load",
                definition=definition,
                paused=False,
                assets={"schedule": {"asset0001", "asset0002"}, "outlet": {f"asset{number:04}"}},
                aliases={},
            )
            for number in range(JOBS)
        ],
    )
    counts = dict(zip(FILL, (events, RUNS, RUNS, WATCHERS, VERSIONS, RUNS), strict=True))
    async with database.transaction() as connection:
        await catalog_sync.apply(connection, declared, database.dialect)
    for what, count in counts.items():
        ago = AGO[database.dialect].format(f"({count} - n) * 2.5")
        for first in range(1, count + 1, AT_ONCE):
            numbers_of_some = NUMBERS.format(first=first, last=min(first + AT_ONCE - 1, count))
            async with database.transaction() as connection:
                await connection.exec_driver_sql(FILL[what].format(numbers=numbers_of_some, ago=ago))
    async with database.transaction() as connection:
        await connection.exec_driver_sql("ANALYZE")


@contextmanager
def timed(database: Database) -> Iterator[list[tuple[float, str]]]:
    """Collect the reading statements of the block, each with its seconds."""
    statements: list[tuple[float, str]] = []
    engine = database._reader.sync_engine  # noqa: SLF001  the place where only statements are executed
    begun = 0.0

    def before(*_: Any) -> None:
        nonlocal begun
        begun = time.perf_counter()

    def after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append((time.perf_counter() - begun, " ".join(statement.split())))

    event.listen(engine, "before_cursor_execute", before)
    event.listen(engine, "after_cursor_execute", after)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", before)
        event.remove(engine, "after_cursor_execute", after)


async def measure(url: str, server: int, folder: Path, events: int) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        await fill(database, events)
        context = make_context(database, folder)
        transport = httpx.ASGITransport(create_app(context))
        headers = {"Accept": "text/html"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            for page in PAGES:
                await look(client, database, page, server)


async def look(client: httpx.AsyncClient, database: Database, page: str, server: int) -> None:
    times, cpu, before = [], [], cpu_seconds(server)
    for _ in range(LOOKS):
        with timed(database) as statements:
            began, busy = time.perf_counter(), time.process_time()
            answer = await client.get(page)
            times.append(time.perf_counter() - began)
            cpu.append(time.process_time() - busy)
        assert answer.status_code == 200, (page, answer.text[:500])
    longest, statement = max(statements, default=(0.0, ""))
    slow = f"   {longest * 1000:.0f} ms: {statement[:160]}" if longest > 0.02 else ""
    middle, busy = (sorted(each)[LOOKS // 2] * 1000 for each in (times, cpu))
    both = (cpu_seconds(server) - before) / LOOKS * 1000
    measured = (
        f"{middle:6.0f} ms, CPU {busy:4.0f} ms, with the server's {both:4.0f} ms {len(statements):>3} statements{slow}"
    )
    print(f"{database.dialect:<10} {page:<34} {measured}", flush=True)


async def main(events: int, only: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
        urls = {
            "postgresql": server.replace("postgresql:", "postgresql+asyncpg:"),
            "sqlite": str(sqlite_url(Path(folder) / "pages.db")),
        }
        process = await process_of_server(server)
        for engine, url in urls.items():
            if only in {None, engine}:
                await measure(url, process, Path(folder) / "logs", events)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--only", choices=AGO)
    given = parser.parse_args()
    anyio.run(main, given.events, given.only)
