"""The metadata database's sessions are killed from the daemon's first connection on, the first leadership campaign included."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import asyncpg
import httpx
import pytest

from tests.effort import PATIENCE, SEED, effort
from tests.servers import PostgresServer
from tests.torture.busy import overcommitted
from tests.torture.results import Result
from watcher.features.demo.daemon import Daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]

STARTS = effort(2, 20)
KILLS = 12
"""The number of kills in each start, all within its first seconds. Then the database works again."""
CONFIGURATION = """
version: 1
settings:
  home: home
  database: {{url: "{database}"}}
  api: {{port: {port}, auth: none}}
  triggerer: {{heartbeat: 500ms, lease: 3s}}
connections: {{shop: {{type: postgres, dsn: "{shop}"}}}}
assets:
  orders:
    watchers:
      rows: {{trigger: postgres.new_rows, connection: shop, table: public.orders, interval: 100ms, start: all}}
"""
OURS = "datname = current_database() AND application_name = 'asset-watcher'"
IN_TRANSACTION = f"SELECT pid FROM pg_stat_activity WHERE {OURS} AND state LIKE 'idle in transaction%'"
ANY = f"SELECT pid FROM pg_stat_activity WHERE {OURS}"


async def kill_sessions(random: Random, dsn: str) -> int:
    """Kill sessions one at a time, first those between two statements of a transaction. Return their number."""
    admin, killed = await asyncpg.connect(dsn), 0
    while killed < KILLS:
        pids = await admin.fetch(IN_TRANSACTION) or await admin.fetch(ANY)
        if pids:
            killed += await admin.fetchval("SELECT pg_terminate_backend($1)::int", random.choice(pids)[0])
        await anyio.sleep(random.uniform(0.01, 0.3))
    await admin.close()
    return killed


@asynccontextmanager
async def starting(folder: Path, metadata: str, shop: str) -> AsyncIterator[Daemon]:
    port = free_port()
    configuration = folder / "watchers.yaml"
    address = metadata.replace("postgresql://", "postgresql+asyncpg://")
    configuration.write_text(CONFIGURATION.format(database=address, port=port, shop=shop))
    daemon = Daemon(configuration, f"http://127.0.0.1:{port}", os.environ)
    try:
        yield daemon
    finally:
        with anyio.CancelScope(shield=True):
            await daemon.stop()


async def test_sessions_killed_from_the_first_moment_on_end_no_daemon_and_lose_no_row(
    tmp_path: Path, postgres_server: PostgresServer, shop: str, record_result: Callable[[Result], None]
) -> None:
    random, killed = Random(SEED), 0
    admin = await asyncpg.connect(shop)
    await admin.execute("CREATE TABLE orders (id bigserial PRIMARY KEY)")
    with postgres_server.database() as metadata, overcommitted() as busy:
        async with starting(tmp_path, metadata.dsn, shop) as daemon:
            for number in range(STARTS):
                async with anyio.create_task_group() as tasks:

                    async def kill() -> None:
                        nonlocal killed
                        killed += await kill_sessions(random, metadata.dsn)

                    tasks.start_soon(kill)
                    await daemon.start()
                await admin.execute("INSERT INTO orders SELECT FROM generate_series(1, 10)")
                await told(daemon, 10 * (number + 1))
                assert daemon.process is not None
                assert daemon.process.returncode is None, "the daemon ended by itself"
                await daemon.kill()
            log = daemon.log.read_text()
    await admin.close()
    assert "Traceback" not in log
    record_result(
        Result(
            fault=f"sessions killed at the start{busy}",
            database="postgresql",
            seed=SEED,
            times=killed,
            rows=10 * STARTS,
        )
    )


async def told(daemon: Daemon, rows: int) -> None:
    """Wait until each row is in exactly one event."""
    async with httpx.AsyncClient(base_url=daemon.url) as api:
        with anyio.fail_after(PATIENCE):
            while True:
                events = (await api.get("/api/v2/assets/events", params={"limit": 1000})).json()["asset_events"]
                ids = [
                    number
                    for event in events
                    for low, high in event["extra"]["ranges"]
                    for number in range(low, high + 1)
                ]
                assert len(ids) == len(set(ids)), "repeated"
                if sorted(ids) == [*range(1, rows + 1)]:
                    return
                await anyio.sleep(0.1)
