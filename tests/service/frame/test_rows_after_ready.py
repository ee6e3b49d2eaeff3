"""`start: now` means from `/readyz` on: what is written as soon as it answers is emitted once, in each mode."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import psycopg
import pytest
from sqlalchemy import update

from store.database import Database
from store.database.schema import watcher_position
from tests import loopback
from tests.databases import on_both
from tests.effort import effort
from tests.servers import PostgresDatabase
from tests.torture.daemons import Daemons, until

pytestmark = [pytest.mark.service, pytest.mark.slow]

MODES = {"inserted": "id", "changed": "updated_at"}
"""The watchers' keys by table."""
STARTS, ROWS = effort(2, 20), 20
TABLE = """
CREATE TABLE {0} (id bigserial PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON {0} (updated_at);
INSERT INTO {0} SELECT FROM generate_series(1, 50)
"""


def document(dsn: str) -> dict[str, Any]:
    watched = {"trigger": "postgres.new_rows", "connection": "shop", "interval": "200ms"}
    return {
        "connections": {"shop": {"type": "postgres", "dsn": dsn}},
        "assets": {
            table: {
                "uri": f"postgres://shop/shop/public/{table}",
                "watchers": {f"{table}_rows": {**watched, "mode": mode}},
            }
            for table, mode in MODES.items()
        },
    }


def told_by(daemons: Daemons) -> dict[str, Counter[int]]:
    answer = loopback.get(f"{daemons.address}/api/v2/assets/events?limit=1000").json()
    told = {table: Counter[int]() for table in MODES}
    for event in answer["asset_events"]:
        extra = event["extra"]
        for low, high in extra.get("ranges", ()):
            told["inserted"].update(range(low, high + 1))
        told["changed"].update(extra.get("keys", ()))
    return told


def are_told(daemons: Daemons, written: dict[str, set[int]]) -> bool:
    told = told_by(daemons)
    return all(ids <= told[table].keys() for table, ids in written.items())


def is_ready(daemons: Daemons) -> bool:
    try:
        return daemons.is_ready()
    except httpx.HTTPError:
        return False


def test_rows_written_as_soon_as_the_daemon_is_ready_are_emitted(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    with psycopg.connect(postgres_database.dsn, autocommit=True) as admin:
        for table in MODES:
            admin.execute(TABLE.format(table))
        for number in range(STARTS):
            (folder := tmp_path / str(number)).mkdir()
            with Daemons(folder, document(postgres_database.dsn)) as daemons:
                daemons.start()
                while not is_ready(daemons):
                    time.sleep(0.005)
                written: dict[str, set[int]] = {}
                for table in MODES:
                    rows = admin.execute(f"INSERT INTO {table} SELECT FROM generate_series(1, {ROWS}) RETURNING id")
                    written[table] = {row[0] for row in rows.fetchall()}
                until(partial(are_told, daemons, written))
                told = told_by(daemons)
                assert daemons.stop() == 0
            for table, ids in written.items():
                assert (ids - told[table].keys(), told[table].keys() - ids) == (set(), set()), table
                assert set(told[table].values()) == {1}, table


@on_both
@pytest.mark.parametrize(("home", "lease"), [("", "1h"), ("other", "5s")], ids=["the same home", "another home"])
def test_files_written_as_soon_as_the_successor_of_a_killed_daemon_is_ready_are_emitted(
    tmp_path: Path, database_url: str, home: str, lease: str
) -> None:
    """The first was killed before its watcher committed a position. Its successor in the same home need not await its lease."""
    (inbox := tmp_path / "inbox").mkdir()
    often = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s"}
    files = {"assets": {"inbox": {"uri": f"file://{inbox}", "watchers": {"files": often}}}}
    triggerer = {"heartbeat": "1s", "lease": lease}
    with Daemons(tmp_path, files, database_url, triggerer=triggerer) as daemons:
        daemons.start()
        until(daemons.is_ready)
        daemons.stop(signal.SIGKILL)
        anyio.run(forget_positions, database_url)
        daemons.start(home)
        while not is_ready(daemons):
            time.sleep(0.005)
        (inbox / "one").touch()
        until(lambda: daemons.watchers()["files"]["last_event_at"] is not None)
        assert daemons.stop(name=home) == 0


async def forget_positions(database_url: str) -> None:
    async with Database.open(database_url) as database, database.transaction() as connection:
        await connection.execute(update(watcher_position).values(state=None, source_identity=None, version=0))
