"""The metadata database restarts, is cut off, slow, read-only or full: each row and file is in exactly one event."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psycopg
import pytest
from sqlalchemy import make_url

from tests.databases import migrate
from tests.effort import SEED, effort
from tests.postgres_proxy import Proxy, proxied_in_a_thread
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import MortalServer, mortal
from tests.torture.daemons import until
from tests.torture.disks import NO_DISK, full, small_disk
from tests.torture.results import Result, Tally, difference
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]
ROUNDS = effort(1, 10)
SHORTEST, LONGEST = 1.0, float(effort(2, 20))
"""The range of seconds for which a fault lasts."""
CONNECTIONS = 40
"""The connections that the server allows. A daemon uses fewer."""
EVERYTHING = 1_000_000
NOTICED = ("watcher.failed", "triggerer.heartbeat_failed")

Record = Callable[[Result], None]
Fault = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The metadata database: its server and its name there. The daemon reaches it through the proxy."""

    server: PostgresServer
    mortal: MortalServer
    proxy: Proxy
    database: str
    dice: Random

    @contextmanager
    def restarted(self) -> Iterator[None]:
        self.mortal.restart(self.dice.choice(["fast", "immediate"]))
        yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        self.proxy.refuses = EVERYTHING
        self.proxy.cut()
        yield
        self.proxy.refuses = 0

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.proxy.swallows = True
        yield
        self.proxy.swallows = False
        self.proxy.cut()

    @contextmanager
    def slowed_by_two_seconds_a_packet(self) -> Iterator[None]:
        self.proxy.delay = 2.0
        time.sleep(4 * self.proxy.delay)
        yield
        self.proxy.delay = 0.0

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Refuse writes in new sessions. Those that the daemon has by then are not ended afterwards."""
        self.server.execute("ALTER DATABASE {} SET default_transaction_read_only = on", self.database)
        self.end_sessions()
        yield
        self.server.execute("ALTER DATABASE {} RESET default_transaction_read_only", self.database)

    @contextmanager
    def out_of_connections(self) -> Iterator[None]:
        """Take all connections of the server while the block runs."""
        with ExitStack() as stack:
            admin = stack.enter_context(psycopg.connect(self.server.dsn(), autocommit=True))
            while True:
                try:
                    stack.enter_context(psycopg.connect(self.server.dsn()))
                except psycopg.OperationalError:
                    if not self.end_sessions(admin):
                        break
            yield

    def end_sessions(self, admin: psycopg.Connection | None = None) -> int:
        """End the daemon's sessions and return their number."""
        end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
        with ExitStack() as stack:
            connection = admin or stack.enter_context(psycopg.connect(self.server.dsn(), autocommit=True))
            row = connection.execute(end, [self.database]).fetchone()
        return int(row[0]) if row else 0


@contextmanager
def place_on(disk: Path | None) -> Iterator[Place]:
    """Run a server whose database is on the disk, if there is one. Its write-ahead log is not."""
    with running_postgres(max_connections=CONNECTIONS) as server:
        killable, database = mortal(server), "metadata"
        server.execute("CREATE DATABASE {}", database)
        if disk is not None:
            tables = disk / "tables"
            tables.mkdir(mode=0o700)
            os.chown(tables, killable.data.stat().st_uid, -1)
            with psycopg.connect(server.dsn(), autocommit=True) as admin:
                admin.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
            server.execute("ALTER DATABASE {} SET TABLESPACE small", database)
        migrate(server.sqlalchemy_url(database))
        with proxied_in_a_thread(server.sqlalchemy_url(database)) as proxy:
            yield Place(server=server, mortal=killable, proxy=proxy, database=database, dice=Random(SEED))


def test_no_fault_of_postgresql_loses_or_repeats_an_item(tmp_path: Path, shop: str, record_result: Record) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk())
        place = stack.enter_context(place_on(disk))
        url = make_url(place.proxy.url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
        behind = place.server.sqlalchemy_url(place.database)
        world = stack.enter_context(World(tmp_path, shop, url, behind=behind))
        faults: Mapping[str, tuple[Fault, bool]] = {
            "restarted": (place.restarted, False),
            "cut": (place.cut, True),
            "silent, then reset": (place.silent, False),
            "2 s a packet": (place.slowed_by_two_seconds_a_packet, False),
            "read-only": (place.read_only, True),
            "out of connections": (place.out_of_connections, True),
        }
        suffer(world, {**faults, **disk_full(disk)}, "postgresql", record_result)
    if disk is None:
        pytest.skip(NO_DISK)


def test_no_fault_of_sqlite_loses_or_repeats_an_item(tmp_path: Path, shop: str, record_result: Record) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk())
        world = stack.enter_context(World(tmp_path, shop, home=disk))
        faults: Mapping[str, tuple[Fault, bool]] = {
            "locked": (lambda: locked(world.daemons.home / "home" / "watcher.db"), False),
        }
        suffer(world, {**faults, **disk_full(disk)}, "sqlite", record_result)
    if disk is None:
        pytest.skip(NO_DISK)


def disk_full(disk: Path | None) -> Mapping[str, tuple[Fault, bool]]:
    return {} if disk is None else {"disk full": (lambda: full(disk), True)}


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Lock the database as another program would, while the block runs."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def suffer(world: World, faults: Mapping[str, tuple[Fault, bool]], dialect: str, record: Record) -> None:
    """Cause one fault after the other under load. Those that the daemon must notice last until it reports them."""
    dice, before = Random(SEED), None
    world.start()
    for number in range(ROUNDS):
        for name in dice.sample(sorted(faults), len(faults)):
            fault, shows = faults[name]
            world.largest_gap()
            with world.sources.load(SEED + number):
                failures = count_failures(world)
                with fault():
                    time.sleep(dice.uniform(SHORTEST, LONGEST))
                    if shows:
                        until(lambda failures=failures: count_failures(world) > failures)
                time.sleep(1)
            tally = world.write_and_settle()
            report(name, dialect, world, tally, before, record)
            assert (tally.lost, tally.repeated) == (0, 0), f"{name}, seed {SEED}"
            before = tally
    until(world.daemons.is_ready)
    assert world.daemons.stop() == 0


def count_failures(world: World) -> int:
    return sum(len(world.daemons.records(event)) for event in NOTICED)


def report(name: str, dialect: str, world: World, tally: Tally, before: Tally | None, record: Record) -> None:
    record(
        Result(
            fault=f"database {name}", database=dialect, seed=SEED, times=1, gap=f"{world.largest_gap():.1f}",
            **difference(tally, before),
        )
    )  # fmt: skip
