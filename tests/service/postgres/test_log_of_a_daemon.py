"""`postgres.changes` of real daemons on both metadata databases: killed in the middle of transactions, and with a slot that is lost."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import psycopg
import pytest

from tests import loopback
from tests.databases import on_both
from tests.effort import SEED, effort
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.logged import COLUMNS, SCHEMA, TABLES, LogWriter, logged_database, rows_of
from tests.service.postgres.replay import ReplayedTable
from tests.torture.daemons import Daemons, until
from triggers.base import TriggerEvent
from triggers.changes.options import ChangesOptions

pytestmark = [pytest.mark.service, pytest.mark.slow]

KILLS, CHANGES = effort(4, 40), effort(600, 35_000)
"""The kills of the daemon, and the changes to each table."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres(
        wal_level="logical", max_prepared_transactions=20, logical_decoding_work_mem="64kB"
    ) as server:
        yield server


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[str]:
    """The address of a database with published tables."""
    with logged_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(SCHEMA)
            for table in TABLES:
                name = ChangesOptions(table=f"public.{table}").publication_name
                admin.execute(f"CREATE PUBLICATION {name} FOR TABLE {table} WITH (publish_via_partition_root)".encode())
        yield dsn


def document(dsn: str) -> dict[str, Any]:
    watched = {
        "trigger": "postgres.changes",
        "connection": "shop",
        "columns": COLUMNS,
        "interval": "50ms",
        "batch": {"max_rows": 50},
    }
    return {
        "connections": {"shop": {"type": "postgres", "dsn": dsn}},
        "assets": {
            table: {"uri": f"postgres://shop/shop/public/{table}", "watchers": {f"{table}_log": watched}}
            for table in TABLES
        },
    }


def events_of(daemons: Daemons, table: str) -> list[Mapping[str, Any]]:
    """The payloads of all events of a table, in the order of their ids."""
    events: list[Mapping[str, Any]] = []
    while True:
        path = f"/api/v2/assets/events?order_by=timestamp&limit=100&offset={len(events)}&source_watcher={table}_log"
        page = daemons.get(path)["asset_events"]
        if not page:
            return [event["extra"] for event in sorted(events, key=lambda event: event["id"])]
        events += page


def replayed(daemons: Daemons, table: str) -> ReplayedTable:
    replay = ReplayedTable()
    for extra in events_of(daemons, table):
        replay.apply([TriggerEvent(count=extra["count"], watermark=extra["watermark"], payload=extra)])
    return replay


async def stored(dsn: str, table: str) -> dict[str, Any]:
    admin = await asyncpg.connect(dsn)
    try:
        return await rows_of(admin, table)
    finally:
        await admin.close()


async def write(dsn: str, seed: int, table: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await LogWriter(connection, random.Random(seed), table).work(CHANGES)
    finally:
        await connection.close()


def are_running(daemons: Daemons) -> bool:
    return {watcher["state"] for watcher in daemons.watchers().values()} == {"running"} and daemons.is_ready()


@on_both
def test_kills_in_the_middle_of_transactions_lose_and_repeat_nothing(
    tmp_path: Path, database_url: str, shop: str
) -> None:
    print(f"WATCHER_TEST_SEED={SEED}")  # noqa: T201  shown when the test fails
    dice = random.Random(SEED)
    with Daemons(tmp_path, document(shop), database_url) as daemons:
        daemons.start()
        until(partial(are_running, daemons))
        writers = [threading.Thread(target=anyio.run, args=(write, shop, dice.random(), table)) for table in TABLES]
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            daemons.wait_for_any_moment(dice)
            daemons.stop(signal.SIGKILL)
            daemons.start()
        for writer in writers:
            writer.join()
        until(partial(are_running, daemons))
        for table in TABLES:
            rows = anyio.run(stored, shop, table)
            until(lambda table=table, rows=rows: replayed(daemons, table).rows == rows)  # type: ignore[misc]
            time.sleep(1)
            replay = replayed(daemons, table)
            assert replay.rows == rows, table
            assert len(replay.places) == len({*replay.places}), table
            print(f"{table}: {len(replay.places)} changes")  # noqa: T201
        assert daemons.stop() == 0


@on_both
def test_a_key_is_explained_by_the_events_of_its_changes(tmp_path: Path, database_url: str, shop: str) -> None:
    with Daemons(tmp_path, document(shop), database_url) as daemons, psycopg.connect(shop, autocommit=True) as admin:
        daemons.start()
        until(partial(are_running, daemons))
        admin.execute("INSERT INTO plain (note) VALUES ('a'), ('b')")
        until(lambda: len(events_of(daemons, "plain")) == 1)
        admin.execute("DELETE FROM plain WHERE id = 1")
        until(lambda: len(events_of(daemons, "plain")) == 2)
        explained = {
            key: daemons.get(f"/api/v2/explain?watcher=plain_log&item={key}")["answers"][0]
            for key in ("[1,0]", "[3,0]")
        }
        assert [each["state"] for each in explained.values()] == ["reported", "unknown"]
        assert len(explained["[1,0]"]["events"]) == 2
        assert "mode: log reads changes and remembers no rows" in explained["[3,0]"]["sentence"]
        assert daemons.stop() == 0


@on_both
def test_a_lost_slot_blocks_until_a_person_rewinds_to_now(tmp_path: Path, database_url: str, shop: str) -> None:
    with Daemons(tmp_path, document(shop), database_url) as daemons, psycopg.connect(shop, autocommit=True) as admin:
        daemons.start()
        until(partial(are_running, daemons))
        admin.execute("INSERT INTO plain (note) VALUES ('reported')")
        until(lambda: events_of(daemons, "plain"))
        slots = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = current_database()"

        daemons.stop(signal.SIGKILL)
        for slot, pid in admin.execute(slots).fetchall():
            if pid is not None:
                admin.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        admin.execute("INSERT INTO plain (note) VALUES ('lost')")
        daemons.start()
        until(lambda: daemons.get("/api/v2/watchers/plain_log")["state"] == "blocked")
        reason = json.dumps(daemons.get("/api/v2/watchers/plain_log"))
        assert "is gone; changes after LSN" in reason
        assert "`watcher rewind plain_log --to now` makes it again" in reason

        refused = loopback.post(f"{daemons.address}/api/v2/watchers/plain_log/rewind", json={"to": "all"})
        assert refused.is_client_error
        for table in TABLES:
            path = f"{daemons.address}/api/v2/watchers/{table}_log/rewind"
            loopback.post(path, json={"to": "now"}).raise_for_status()
        until(partial(are_running, daemons))
        admin.execute("INSERT INTO plain (note) VALUES ('again')")
        until(lambda: len(events_of(daemons, "plain")) == 2)
        notes = [change["row"]["note"] for event in events_of(daemons, "plain") for change in event["changes"]]
        assert notes == ["reported", "again"]
        undone = loopback.post(f"{daemons.address}/api/v2/watchers/plain_log/rewind/undo")
        assert undone.status_code == 409
        assert daemons.stop() == 0
