"""A backup of the metadata database is restored, while the tables went on: what came since is reported again, or its watcher is blocked."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import loopback
from tests.backups import backed_up
from tests.servers import running_postgres
from tests.service.postgres.logged import logged_database
from tests.torture.daemons import Daemons, until
from triggers.changes.options import ChangesOptions
from watcher.host.home import Home

pytestmark = [pytest.mark.service, pytest.mark.slow]

MODES = {"numbered": "id", "updated": "updated_at", "logged": "log"}
"""The watched tables, and the modes."""
TABLE = "CREATE TABLE {} (id bigserial PRIMARY KEY, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now())"


@pytest.fixture
def shop() -> Iterator[str]:
    with running_postgres(wal_level="logical") as server, logged_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as admin:
            for table in MODES:
                admin.execute(TABLE.format(table).encode())
            admin.execute("CREATE INDEX ON updated (updated_at)")
            name = ChangesOptions(table="public.logged").publication_name
            admin.execute(f"CREATE PUBLICATION {name} FOR TABLE logged".encode())
        yield dsn


def document(dsn: str) -> dict[str, Any]:
    watched = {"trigger": "postgres.new_rows", "connection": "shop", "columns": ["id"], "interval": "100ms"}
    return {
        "connections": {"shop": {"type": "postgres", "dsn": dsn}},
        "assets": {
            table: {
                "uri": f"postgres://shop/shop/public/{table}",
                "watchers": {table: {**watched, "mode": mode, **({} if mode == "log" else {"start": "all"})}},
            }
            for table, mode in MODES.items()
        },
    }


def told(daemons: Daemons, table: str) -> Counter[int]:
    """How often each id stands in the events of a table."""
    listed = daemons.get(f"/api/v2/assets/events?limit=100&source_watcher={table}")["asset_events"]
    changes = [each for event in listed for each in event["extra"].get("changes") or event["extra"]["rows"]]
    return Counter(change["row"]["id"] if "row" in change else change["id"] for change in changes)


def blocked(daemons: Daemons) -> list[str]:
    return [name for name, watcher in daemons.watchers().items() if watcher["state"] == "blocked"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_what_came_since_the_backup_is_told_again_or_its_watcher_blocked(
    tmp_path: Path, shop: str, dialect: str
) -> None:
    with (
        backed_up(dialect, tmp_path) as metadata,
        Daemons(tmp_path, document(shop), metadata.url) as daemons,
        psycopg.connect(shop, autocommit=True) as admin,
    ):

        def inserted() -> None:
            for table in MODES:
                admin.execute(f"INSERT INTO {table} DEFAULT VALUES".encode())

        def all_told(*numbers: int) -> bool:
            return daemons.is_ready() and all(told(daemons, table) == Counter(numbers) for table in MODES)

        daemons.start()
        until(lambda: {each["state"] for each in daemons.watchers().values()} == {"running"} and daemons.is_ready())
        inserted()
        until(lambda: all_told(1))
        assert daemons.stop() == 0
        metadata.back_up()

        daemons.start()
        inserted()
        until(lambda: all_told(1, 2))
        admin.execute("UPDATE updated SET updated_at = clock_timestamp() WHERE id = 1")
        until(lambda: told(daemons, "updated") == Counter([1, 1, 2]))
        events = daemons.get("/api/v2/assets/events?limit=100")["asset_events"]
        until(lambda: Home(folder=tmp_path / "home", id="").newest_event() >= max(event["id"] for event in events))
        daemons.stop(signal.SIGKILL)
        metadata.restore()

        inserted()
        daemons.start()
        until(daemons.is_ready)
        until(lambda: told(daemons, "numbered") == Counter([1, 2, 3]))
        until(lambda: told(daemons, "updated") == Counter([1, 1, 2, 3]))
        until(lambda: blocked(daemons) == ["logged"])
        reason = json.dumps(daemons.get("/api/v2/watchers/logged"))
        assert "before a backup of the metadata database was restored; changes after LSN" in reason
        assert any("a backup was restored" in warning for warning in daemons.get("/readyz")["warnings"])

        path = f"{daemons.address}/api/v2/watchers/logged/rewind"
        loopback.post(path, json={"to": "now"}).raise_for_status()
        until(lambda: blocked(daemons) == [])
        until(lambda: daemons.watchers()["logged"]["state"] == "running")
        inserted()
        until(lambda: told(daemons, "logged") == Counter([1, 4]))
        until(lambda: told(daemons, "numbered") == Counter([1, 2, 3, 4]))
        until(lambda: told(daemons, "updated") == Counter([1, 1, 2, 3, 4]))
        assert daemons.stop() == 0
