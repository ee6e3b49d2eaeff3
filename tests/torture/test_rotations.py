"""Passwords change and all sessions end again and again, under load: no poll fails, no commit fails, each row comes once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from tests.databases import migrate
from tests.effort import effort
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import mortal
from tests.torture.daemons import Daemons, until
from tests.torture.sources import Sources

pytestmark = pytest.mark.service
ROTATIONS, EVERY = effort(6, 60), float(effort(2, 60))
"""How often the passwords change, and the seconds between two changes. The long form takes an hour."""
GAP = 0.1
"""Seconds between the change at the server and the one in the file."""
ROLES = ("watching", "keeping")
FAILURES = ("watcher.failed", "watcher.blocked", "watcher.position_lost")


@contextmanager
def place(folder: Path) -> Iterator[PostgresServer]:
    """Run a server that asks both roles for the password in the file of their name."""
    with running_postgres() as server:
        for database in ("metadata", "shop"):
            server.execute("CREATE DATABASE {}", database)
        migrate(server.sqlalchemy_url("metadata"))
        rules = mortal(server).data / "pg_hba.conf"
        rules.write_text(f"host all {','.join(ROLES)} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        for role in ROLES:
            server.execute("CREATE ROLE {} LOGIN SUPERUSER", role)
        server.execute("SELECT pg_reload_conf()")
        rotate(server, folder, 0)
        yield server


def rotate(server: PostgresServer, folder: Path, number: int) -> None:
    """Change both passwords and end all sessions of the roles."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for role in ROLES:
            password = f"{role} {number}"
            change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(password))
            admin.execute(change)
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [role])
            time.sleep(GAP)
            (folder / role).write_text(password)


def dsn_of(server: PostgresServer, role: str, database: str) -> str:
    return server.dsn(database).replace("postgres@", f"{role}@")


def emitted(server: PostgresServer) -> Counter[int]:
    with psycopg.connect(server.dsn("metadata")) as reader:
        texts = reader.execute("SELECT extra FROM asset_event").fetchall()
    ranges = [each for (text,) in texts for each in json.loads(text).get("ranges", ())]
    return Counter(number for low, high in ranges for number in range(low, high + 1))


@pytest.mark.slow
def test_no_poll_and_no_commit_fails_when_passwords_change(tmp_path: Path) -> None:
    with place(tmp_path) as server:
        sources = Sources(tmp_path, server.dsn("shop"), look_every=0.2)
        document = sources.document()
        document["connections"]["shop"] = {
            "type": "postgres",
            "dsn": dsn_of(server, "watching", "shop"),
            "password": {"file": str(tmp_path / "watching")},
        }
        url = make_url(server.sqlalchemy_url("metadata")).set(username="keeping").render_as_string(hide_password=False)
        with Daemons(tmp_path, document, url) as daemons:
            daemons.environment["WATCHER_SETTINGS__DATABASE__PASSWORD__FILE"] = str(tmp_path / "keeping")
            daemons.start()
            until(daemons.is_ready)
            until(lambda: all(each["state"] == "running" for each in daemons.watchers().values()))
            with sources.load(seed=1, keep=1000):
                for number in range(1, ROTATIONS + 1):
                    time.sleep(EVERY)
                    rotate(server, tmp_path, number)
                time.sleep(EVERY)
            rows = sources.contents()["rows"]
            until(lambda: emitted(server).keys() >= rows)
            failures = [record for event in FAILURES for record in daemons.records(event)]
            assert daemons.stop() == 0
        numbers = emitted(server)
    assert failures == []
    assert numbers.keys() == rows
    assert {number for number, times in numbers.items() if times > 1} == set()
    assert len(rows) > 10 * ROTATIONS
