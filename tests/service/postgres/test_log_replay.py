"""The events of mode `log`, replayed, give exactly the table, whatever is killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from random import Random

import anyio
import asyncpg
import pytest

from tests.effort import PATIENCE, effort
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import MortalServer, mortal
from tests.service.postgres.logged import (
    COLUMNS,
    SCHEMA,
    TABLES,
    LogWriter,
    logged,
    logged_database,
    replayed,
    rows_of,
)
from tests.service.postgres.tiny_host import TinyHost
from triggers.errors import SourceUnavailable

pytestmark = pytest.mark.service

CHANGES = effort(700, 35_000)
"""The changes to each of the tables."""
RESTARTS = effort(2, 12)


@pytest.fixture(params=[18, pytest.param(16, marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    settings = {"wal_level": "logical", "max_prepared_transactions": 20, "logical_decoding_work_mem": "64kB"}
    with running_postgres(version=request.param, **settings) as server:
        yield server


async def watch(host: TinyHost, random: Random, done: anyio.Event) -> None:
    """Poll until the writers are done, with crashes before and after commits; then until nothing is waiting."""
    while not done.is_set():
        try:
            match random.randrange(6):
                case 0:
                    await host.start()
                    with anyio.move_on_after(random.random() / 10):  # killed somewhere in a poll
                        await host.poll()
                    await host.start()
                case 1:
                    await host.start()
                    await host.commit_one()
                case 2:
                    await host.start()
                    await host.crash()
                case _:
                    await host.poll()
        except SourceUnavailable:
            await host.stop()
            await anyio.sleep(0.05)
    while True:
        try:
            await host.drain()
        except SourceUnavailable:
            await anyio.sleep(0.05)
        else:
            return


async def end_abandoned(connection: asyncpg.Connection) -> None:
    """Roll back what a writer had prepared when the server was restarted: nobody else would, and its locks stay."""
    old = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
    for (name,) in await connection.fetch(old):
        await connection.execute(f"ROLLBACK PREPARED '{name}'")


async def write(dsn: str, random: Random, table: str, changes: int) -> None:
    """Write until so many changes were made. A server that is restarted costs the transaction that is open."""
    written = 0
    while written < changes:
        try:
            connection = await asyncpg.connect(dsn)
            writer = LogWriter(connection, random, table)
            try:
                await end_abandoned(connection)
                await writer.work(changes - written)
            finally:
                written += writer.changes
                connection.terminate()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            await anyio.sleep(0.05)


async def restart(server: MortalServer, random: Random, done: anyio.Event) -> None:
    for _ in range(RESTARTS):
        await anyio.sleep(random.uniform(0.5, 3))
        if done.is_set():
            return
        await anyio.to_thread.run_sync(server.restart, random.choice(["fast", "immediate"]))


@pytest.mark.parametrize("seed", [20261126])
async def test_the_replayed_changes_give_exactly_the_table(server: PostgresServer, seed: int) -> None:
    random = Random(seed)
    with logged_database(server) as dsn:
        admin = await asyncpg.connect(dsn)
        await admin.execute(SCHEMA)
        await admin.close()
        async with AsyncExitStack() as stack:
            watched = {"columns": COLUMNS, "batch": {"max_rows": 50}}
            hosts = [
                await stack.enter_async_context(logged(dsn, table=f"public.{table}", **watched)) for table in TABLES
            ]
            done = anyio.Event()
            with anyio.fail_after(PATIENCE * effort(1, 10)):
                async with anyio.create_task_group() as watching:
                    for host in hosts:
                        watching.start_soon(watch, host, Random(random.random()), done)
                    async with anyio.create_task_group() as writing:
                        for table in TABLES:
                            for _ in range(2):
                                writing.start_soon(write, dsn, Random(random.random()), table, CHANGES // 2)
                        writing.start_soon(restart, mortal(server), random, done)
                    done.set()
            admin = await asyncpg.connect(dsn)
            for table, host in zip(TABLES, hosts, strict=True):
                replay = replayed(host)
                assert replay.rows == await rows_of(admin, table), table
                assert len(replay.places) == len(set(replay.places)), table
            await admin.close()
