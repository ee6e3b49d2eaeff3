"""Restores and promotions at random moments under writers: what the new server has is reported, or the watcher is blocked."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Final

import anyio
import psycopg
import pytest

from tests.effort import SEED, effort
from tests.postgres_proxy import Proxy, proxied
from tests.servers import running_postgres
from tests.service.postgres.conftest import MortalServer, mortal
from tests.service.postgres.tiny_host import TinyHost, options
from tests.torture.histories import HEALS, SCHEMA, TABLES, WITHOUT_TIME, CountingWatcher, Writers
from tests.torture.results import Result
from triggers.postgres.connection import PostgresConnection

pytestmark = [pytest.mark.service, pytest.mark.slow]

CHANGES: Final = effort(6, 200)
ENOUGH: Final = 100
"""Changes from which on the share of those that block is judged; each of the short form's few may block."""
RESTARTS: Final = effort(3, 200)
LOOKS: Final = ("running", "stopped", "late")
SYNCHRONOUS: Final = "promotion without loss"
KINDS: Final = (
    SYNCHRONOUS,
    "promotion of a standby that lags",
    "backup on its timeline",
    "backup on a new timeline",
    "crash",
)


@asynccontextmanager
async def watched(proxy: Proxy) -> AsyncIterator[Mapping[str, CountingWatcher]]:
    """A watcher for each table, through the proxy."""
    async with PostgresConnection.model_validate({"dsn": proxy.url.replace("ssl=", "sslmode=")}).open() as client:
        hosts = {
            name: TinyHost(client, options(table=f"public.{name}", columns=["id", "note"], start="all", **values))
            for name, values in TABLES.items()
        }
        try:
            yield {name: CountingWatcher(name, host) for name, host in hosts.items()}
        finally:
            for host in hosts.values():
                await host.stop()


@contextmanager
def first_server() -> Iterator[MortalServer]:
    with running_postgres(max_wal_senders=10, wal_keep_size="1GB", wal_writer_delay="2s") as server:
        with psycopg.connect(server.dsn()) as session:
            session.execute(SCHEMA)
        origin = mortal(server)
        try:
            yield origin
        finally:
            if not (origin.data / "postmaster.pid").exists():
                origin.start()


async def test_what_a_server_with_another_history_has_is_reported_or_the_watcher_is_blocked(
    record_result: Callable[[Result], None],
) -> None:
    random = Random(SEED)
    with first_server() as origin:
        current = origin
        async with proxied(origin.dsn) as proxy, watched(proxy) as witnesses:
            for number in range(CHANGES):
                kind, look = KINDS[number % len(KINDS)], LOOKS[number // len(KINDS) % len(LOOKS)]
                current = await change(current, kind, look, proxy, witnesses, random, number)
            if current is not origin:
                current.stop("immediate")
    for name, each in witnesses.items():
        tally = each.count
        record_result(
            Result(
                fault=f"history of {name}: {dict(tally.blocked) or 'healed'}",
                database="-",
                seed=SEED,
                times=CHANGES,
                rows=tally.rows,
                lost=len(tally.lost),
                repeated=len(tally.repeated),
            )
        )
    for name, each in witnesses.items():
        assert (name, each.count.lost[:9]) == (name, [])
        assert name == WITHOUT_TIME or not each.count.repeated, (name, each.count.repeated[:9])
        assert name == WITHOUT_TIME or not each.count.blocked[SYNCHRONOUS], name
        if name in HEALS and CHANGES >= ENOUGH:
            assert each.count.blocked.total() <= CHANGES * 0.05, name


async def test_an_ordinary_restart_blocks_no_watcher_and_loses_and_repeats_nothing(
    record_result: Callable[[Result], None],
) -> None:
    random = Random(SEED)
    with first_server() as origin:
        async with proxied(origin.dsn) as proxy, watched(proxy) as witnesses:
            for number in range(RESTARTS):
                await restart(origin, ("fast", "immediate", "kill -9")[number % 3], witnesses, random)
    lost, repeated = (
        sum(len(values) for values in numbers)
        for numbers in (
            [each.count.lost for each in witnesses.values()],
            [each.count.repeated for each in witnesses.values()],
        )
    )
    rows = sum(each.count.rows for each in witnesses.values())
    fault = "ordinary restarts of the server"
    record_result(Result(fault=fault, database="-", seed=SEED, times=RESTARTS, rows=rows, lost=lost, repeated=repeated))
    blocked = {name: dict(each.count.blocked) for name, each in witnesses.items() if each.count.blocked}
    assert (lost, repeated) == (0, 0)
    # A crash takes asynchronous commits back: then a table without any time may show an id again, or an update of it.
    assert blocked.pop(WITHOUT_TIME, {}).keys() <= {"kill -9"}
    assert blocked == {}


async def restart(server: MortalServer, how: str, witnesses: Mapping[str, CountingWatcher], random: Random) -> None:
    """Write, restart the server while the watchers poll, write on, and count."""
    stopped, have_stopped = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as polls:
        polls.start_soon(poll_all, witnesses, stopped, have_stopped)
        with Writers(server.dsn, random.getrandbits(32), can_lose=True).writing():
            await anyio.sleep(random.uniform(0.2, 0.8))
            if how == "kill -9":
                os.kill(int((server.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
                await anyio.to_thread.run_sync(start_again, server)
            else:
                await anyio.to_thread.run_sync(server.restart, how)
        with Writers(server.dsn, random.getrandbits(32), can_lose=True).writing():
            await anyio.sleep(random.uniform(0.1, 0.3))
        stopped.set()
    for witness in witnesses.values():
        await witness.settle(server.dsn, how)


def start_again(server: MortalServer) -> None:
    """Start a killed server. Its other processes notice that it has died, and hold its memory until then."""
    while True:
        try:
            server.start()
        except subprocess.CalledProcessError:
            (server.data / "postmaster.pid").unlink(missing_ok=True)
        else:
            return


async def change(
    server: MortalServer,
    kind: str,
    look: str,
    proxy: Proxy,
    witnesses: Mapping[str, CountingWatcher],
    random: Random,
    number: int,
) -> MortalServer:
    """Write, let another server take over, write there, and count. Return the server that goes on."""
    stopped, have_stopped = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as polls:
        polls.start_soon(poll_all, witnesses, stopped, have_stopped)
        writers = Writers(server.dsn, random.getrandbits(32), can_lose=kind != SYNCHRONOUS)
        with writers.writing():
            await anyio.sleep(random.uniform(0.2, 0.6))
            copy = await anyio.to_thread.run_sync(copy_of, server, kind, number)
            await anyio.sleep(random.uniform(0.1, 0.8))
            if look != "running":
                stopped.set()
                await have_stopped.wait()
            await anyio.to_thread.run_sync(server.stop, "immediate")
            proxy.cut()
        await anyio.to_thread.run_sync(open_for_writing, copy, kind)
        proxy.server = ("127.0.0.1", copy.port)
        with Writers(copy.dsn, random.getrandbits(32), can_lose=False).writing():
            await anyio.sleep(random.uniform(0.1, 0.4) if look != "late" else random.uniform(1.5, 2.5))
        stopped.set()
    for witness in witnesses.values():
        await witness.settle(copy.dsn, kind)
    return copy


async def poll_all(witnesses: Mapping[str, CountingWatcher], stopped: anyio.Event, have_stopped: anyio.Event) -> None:
    async with anyio.create_task_group() as polls:
        for witness in witnesses.values():
            polls.start_soon(witness.poll_until, stopped)
    for witness in witnesses.values():
        await witness.host.stop()
    have_stopped.set()


def copy_of(server: MortalServer, kind: str, number: int) -> MortalServer:
    """Begin the copy that will take over; a crash has none."""
    if kind == "crash":
        return server
    name = f"server{number}"
    if not kind.startswith("promotion"):
        return server.backed_up(name)
    if kind == SYNCHRONOUS:
        wait_for_standbys(server)
    standby = server.standby(name)
    standby.start()
    if kind == SYNCHRONOUS:
        wait_until(server, "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")
    else:
        standby.lag(server)
    return standby


def wait_for_standbys(server: MortalServer) -> None:
    """Let each commit wait for a standby. The server shows none before that, and one waits when this returns."""
    run(server, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    wait_until(server, "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'")


def open_for_writing(copy: MortalServer, kind: str) -> None:
    if kind.startswith("promotion"):
        copy.promote()
        return
    if kind == "backup on a new timeline":
        copy.recover_to_a_new_timeline()
    copy.start()
    wait_until(copy, "SELECT WHERE NOT pg_is_in_recovery()")


def wait_until(server: MortalServer, query: str) -> None:
    """Wait until the query returns a row."""
    with psycopg.connect(server.dsn, autocommit=True) as session:
        while session.execute(query).fetchone() is None:
            time.sleep(0.01)


def run(server: MortalServer, *statements: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as session:
        for statement in statements:
            session.execute(statement)
