"""Typical writers, the real daemon, and SIGKILL: each committed row is in exactly one asset event.

The short form writes 700 rows, WATCHER_TEST_LONG=1 100,000. The events in the REST API are compared with the tables.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from string import Template
from typing import Any

import anyio
import asyncpg
import httpx
import pytest

from tests.effort import LONG, PATIENCE, SEED, effort
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import MortalServer, mortal
from tests.service.postgres.writers import SCHEMA, NaivePoller, Writer
from tests.torture.busy import overcommitted
from tests.torture.results import Result
from watcher.features.demo.counting import PAGE, get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.service, pytest.mark.slow]

ROWS, KILLS, CRASHES = effort(700, 100_000), effort(2, 40), effort(1, 3)
LONGEST_PAUSE = 0.1 if LONG else 0.8
"""The longest pause of a writer between two transactions, in seconds. The daemon needs the two cores too."""
WRITTEN = "SELECT (SELECT count(*) FROM plain) + (SELECT count(*) FROM parted)"
WRITERS = 20
# No writer notifies, because PREPARE TRANSACTION excludes it; the listening connection exists, and is lost with the server.
CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  database: {url: $database}
  api: {port: $port, auth: none}
  triggerer: {heartbeat: 500ms, lease: 3s}
connections:
  shop: {type: postgres, dsn: "$shop"}
assets:
  plain:
    uri: postgres://shop/shop/public/plain
    watchers:
      plain_rows: {trigger: postgres.new_rows, connection: shop, interval: 100ms, start: all, batch: {max_rows: 200}}
      plain_updates:
        {trigger: postgres.new_rows, connection: shop, mode: updated_at, columns: [version], interval: 100ms, start: all}
  parted:
    uri: postgres://shop/shop/public/parted
    watchers:
      parted_rows:
        {trigger: postgres.new_rows, connection: shop, interval: 100ms, start: all, batch: {max_rows: 200}, listen: true}
""")


@pytest.mark.parametrize(("database", "version"), [("postgresql", 16), *([("sqlite", 18)] if LONG else [])])
async def test_kills_and_crashes_of_the_watched_server_at_any_moment_lose_and_repeat_no_row(
    tmp_path: Path, database: str, version: int, record_result: Callable[[Result], None]
) -> None:
    random, enough = Random(SEED), anyio.Event()
    with source_server(version) as source, metadata_address(database) as address, overcommitted() as busy:
        admin = await prepared_shop(source.dsn())
        async with watching(tmp_path, address, source.dsn()) as daemon:
            async with anyio.create_task_group() as writers:
                writers.start_soon(write_until, enough, source.dsn())
                async with polling_naively(source.dsn()) as naive:
                    kills = await kill_again_and_again(daemon, random, admin)
                    await naive.has_missed_some()
                await admin.close()
                for _ in range(CRASHES):
                    await some_rows_are_told(daemon)
                    await crash(mortal(source))
                await some_rows_are_told(daemon)
                enough.set()
            admin = await asyncpg.connect(source.dsn())
            await end_the_prepared(admin)
            await last_rows_are_told(daemon, admin)
            await daemon.kill()
            await daemon.start()
            await last_rows_are_told(daemon, admin)
            told = await told_by(daemon)
        written = await written_in(admin)
        await admin.close()
    lost_naively = len(naive.missed)
    sizes = {watcher: len(items) for watcher, items in written.items()}
    log.info("written %s, daemon killed %d times, `id > last` lost %d", sizes, kills, lost_naively)
    record_result(
        result(f"SIGKILL, {CRASHES} crashes of PostgreSQL {version}{busy}", database, kills + 1, written, told)
    )
    assert_each_once(written, told)


class Naive:
    """What `id > last` makes of the same rows, polled while the daemon is killed."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.missed = set[int]()
        self._poller = NaivePoller(connection)

    async def poll_until(self, over: anyio.Event) -> None:
        while not over.is_set():
            await self._poller.poll()
            last = max(self._poller.seen, default=0)
            rows = await self._poller.connection.fetch("SELECT id FROM plain WHERE id <= $1", last)
            self.missed = {row["id"] for row in rows} - set(self._poller.seen)
            await anyio.sleep(0.1)

    async def has_missed_some(self) -> None:
        """Wait until the writers have done what such a poller does not survive. Without it the run would be too tame."""
        with anyio.fail_after(PATIENCE):
            while not self.missed:
                await anyio.sleep(0.1)


@contextmanager
def source_server(version: int) -> Iterator[PostgresServer]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres(version=version, max_prepared_transactions=64))
        except ValueError as missing:
            pytest.skip(f"no PostgreSQL {version} at hand: {missing}")
        yield server


@contextmanager
def metadata_address(database: str) -> Iterator[str]:
    if database == "sqlite":
        yield "null"
        return
    with running_postgres() as server:
        yield server.sqlalchemy_url()


async def prepared_shop(dsn: str) -> asyncpg.Connection:
    admin = await asyncpg.connect(dsn)
    await admin.execute(SCHEMA)
    return admin


@asynccontextmanager
async def watching(folder: Path, database: str, shop: str) -> AsyncIterator[Daemon]:
    port = free_port()
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.substitute(database=database, port=port, shop=shop))
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        yield daemon


async def write_until(enough: anyio.Event, dsn: str) -> None:
    async with anyio.create_task_group() as writers:
        for number in range(WRITERS):
            writers.start_soon(write, enough, dsn, number)


async def write(enough: anyio.Event, dsn: str, number: int) -> None:
    """Write, in a new session whenever the server ended the old one."""
    random = Random(SEED + number)
    while not enough.is_set():
        try:
            connection = await asyncpg.connect(dsn)
            try:
                writer = Writer(connection, random, ["plain", "parted"][number % 2])
                while not enough.is_set():
                    await writer.move()
                    await anyio.sleep(random.uniform(0, LONGEST_PAUSE))
            finally:
                connection.terminate()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await anyio.sleep(0.1)


@asynccontextmanager
async def polling_naively(dsn: str) -> AsyncIterator[Naive]:
    connection, over = await asyncpg.connect(dsn), anyio.Event()
    naive = Naive(connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(naive.poll_until, over)
        yield naive
        over.set()
    await connection.close()


async def end_the_prepared(admin: asyncpg.Connection) -> None:
    """End the prepared transactions of writers that lost their session. A living writer may end its own first."""
    for row in await admin.fetch("SELECT gid FROM pg_prepared_xacts"):
        try:
            await admin.execute(f"COMMIT PREPARED '{row['gid']}'")
        except (asyncpg.UndefinedObjectError, asyncpg.ObjectNotInPrerequisiteStateError):  # ended, or just ending
            continue


async def kill_again_and_again(daemon: Daemon, random: Random, admin: asyncpg.Connection) -> int:
    """Kill the daemon at any moment and around commits: it logs `store.writing` just before one, `store.written` just after."""
    kills = 0
    while kills < KILLS or await admin.fetchval(WRITTEN) < ROWS:
        record = random.choice([None, b'"store.writing"', b'"store.written"'])
        if record is None:
            await anyio.sleep(random.uniform(0, 2))
        else:
            await said(daemon.log, record)
        await daemon.kill()
        await daemon.start()
        kills += 1
    return kills


async def said(log: Path, words: bytes) -> None:
    """Wait until the log gets these words, at most three seconds."""
    with log.open("rb") as file, anyio.move_on_after(3):
        file.seek(0, os.SEEK_END)
        text = b""
        while words not in text:
            text = text[-len(words) :] + file.read()
            await anyio.sleep(0.0005)


async def crash(server: MortalServer) -> None:
    await anyio.to_thread.run_sync(server.restart, "immediate")
    admin = await asyncpg.connect(server.dsn)
    await end_the_prepared(admin)
    await admin.close()


async def last_rows_are_told(daemon: Daemon, admin: asyncpg.Connection) -> None:
    """Write a last row to each table and wait until all its watchers emitted it. All earlier commits have been read then."""
    plain = await admin.fetchrow("INSERT INTO plain (note) VALUES ('last') RETURNING id, version")
    parted = await admin.fetchval("INSERT INTO parted (note) VALUES ('last') RETURNING id")
    last = {"plain_rows": plain["id"], "plain_updates": plain["version"], "parted_rows": parted}
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        with anyio.fail_after(PATIENCE):
            for watcher, item in last.items():
                while item not in await newest(client, watcher):
                    await anyio.sleep(0.1)


async def some_rows_are_told(daemon: Daemon) -> None:
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        before = await get(client, "/api/v2/assets/events", limit=1)
        with anyio.fail_after(PATIENCE):
            while (await get(client, "/api/v2/assets/events", limit=1))["total_entries"] < before["total_entries"] + 30:
                await anyio.sleep(0.1)


async def newest(client: httpx.AsyncClient, watcher: str) -> set[int]:
    page = await get(client, "/api/v2/assets/events", source_watcher=watcher, order_by="-timestamp", limit=PAGE)
    return {item for event in page["asset_events"] for item in items_of(event)}


async def told_by(daemon: Daemon) -> dict[str, Counter[int]]:
    """Return all emitted items by watcher: ids, and versions in mode `updated_at`."""
    told = {watcher: Counter[int]() for watcher in ("plain_rows", "plain_updates", "parted_rows")}
    events = 0
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        while True:
            page = await get(client, "/api/v2/assets/events", order_by="timestamp", limit=PAGE, offset=events)
            for event in page["asset_events"]:
                told[event["extra"]["watcher"]].update(items_of(event))
            events += len(page["asset_events"])
            if events >= page["total_entries"]:
                return told


def items_of(event: dict[str, Any]) -> list[int]:
    extra = event["extra"]
    if "rows" in extra:
        return [row["version"] for row in extra["rows"]]
    ids = [number for low, high in extra["ranges"] for number in range(low, high + 1)]
    assert len(ids) == extra["count"]
    return ids


async def written_in(admin: asyncpg.Connection) -> dict[str, set[int]]:
    plain = await admin.fetch("SELECT id, version FROM plain")
    parted = await admin.fetch("SELECT id FROM parted")
    return {
        "plain_rows": {row["id"] for row in plain},
        "plain_updates": {row["version"] for row in plain},
        "parted_rows": {row["id"] for row in parted},
    }


def result(
    fault: str, database: str, times: int, written: dict[str, set[int]], told: dict[str, Counter[int]]
) -> Result:
    return Result(
        fault=fault,
        database=database,
        seed=SEED,
        times=times,
        rows=sum(map(len, written.values())),
        lost=sum(len(items - told[watcher].keys()) for watcher, items in written.items()),
        repeated=sum(items.total() - len(items) for items in told.values()),
    )


def assert_each_once(written: dict[str, set[int]], told: dict[str, Counter[int]]) -> None:
    for watcher, items in written.items():
        repeated = {item for item, times in told[watcher].items() if times > 1}
        assert repeated == set(), watcher
        assert items - told[watcher].keys() == set(), watcher
    for watcher in ("plain_rows", "parted_rows"):
        assert told[watcher].keys() - written[watcher] == set(), watcher
