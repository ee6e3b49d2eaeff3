"""Many writers of every kind, and watchers that crash: every committed row is reported once, none twice."""

from __future__ import annotations

from collections import Counter
from random import Random

import anyio
import pytest

from tests.effort import PATIENCE, effort
from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from tests.service.postgres.writers import SCHEMA, NaivePoller, Writer

pytestmark = pytest.mark.service

WRITERS = 20
TRANSACTIONS = effort(150, 400)


async def work(writer: Writer) -> None:
    for _ in range(TRANSACTIONS):
        await writer.move()


async def watch(host: TinyHost, random: Random, writers_done: anyio.Event) -> None:
    """Poll until the writers are done, with crashes in between; then poll until nothing is open."""
    while not writers_done.is_set():
        await (host.crash() if random.random() < 0.1 else host.poll())
    await host.catch_up()
    await host.catch_up()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20261120])
async def test_every_committed_row_is_reported_exactly_once(
    postgres_database: PostgresDatabase, connect: Connect, seed: int
) -> None:
    admin = await connect()
    await admin.execute(SCHEMA)
    naive = NaivePoller(await connect())
    writers = [
        Writer(await connect(), Random(seed + number), ["plain", "parted"][number % 2]) for number in range(WRITERS)
    ]
    writers_done = anyio.Event()

    async def write() -> None:
        async with anyio.create_task_group() as group:
            for writer in writers:
                group.start_soon(work, writer)
        writers_done.set()

    async def poll_naively() -> None:
        while not writers_done.is_set():
            await naive.poll()
        await naive.poll()

    by_update = {"mode": "updated_at", "columns": ["version"]}
    in_kolkata = {"column": "local", "time_zone": "Asia/Kolkata"}
    async with (
        hosted(postgres_database.dsn, table="public.plain", batch={"max_rows": 50}) as plain,
        hosted(postgres_database.dsn, table="public.parted", batch={"max_rows": 50}) as parted,
        hosted(postgres_database.dsn, table="public.plain", **by_update) as updates,
        hosted(postgres_database.dsn, table="public.plain", **by_update, **in_kolkata) as local_updates,
    ):
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(write)
                group.start_soon(poll_naively)
                for number, host in enumerate([plain, parted, updates, local_updates]):
                    group.start_soon(watch, host, Random(seed + number), writers_done)

    for table, host in {"plain": plain, "parted": parted}.items():
        committed = {row["id"] for row in await admin.fetch(f"SELECT id FROM {table}")}
        emitted = Counter(host.committed.ids)
        assert repeated(emitted) == set(), table
        assert emitted.keys() ^ committed == set(), table
        assert len(committed) > 1000
    newest = {row["version"] for row in await admin.fetch("SELECT version FROM plain")}
    for host in (updates, local_updates):
        versions = Counter(row["version"] for event in host.committed.events for row in event.payload["rows"])
        assert repeated(versions) == set()
        assert newest - versions.keys() == set()
        assert versions.keys() - newest != set(), "no row was reported, updated and reported again"
    assert {row["id"] for row in await admin.fetch("SELECT id FROM plain")} - set(naive.seen), "the run is too tame"


def repeated(numbers: Counter[int]) -> set[int]:
    return {number for number, times in numbers.items() if times > 1}
