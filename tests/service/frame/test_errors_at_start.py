"""An error that keeps a daemon from starting is one sentence with its remedy, and exit code 1."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import make_url, text
from typer.testing import CliRunner, Result

from store.database import Database, migrations
from tests.databases import copied, migrated_postgres
from tests.effort import PATIENCE
from tests.postgres_proxy import proxied_in_a_thread
from tests.servers import PostgresServer
from watcher.cli.app import app
from watcher.host.health import Health
from watcher.host.home import Home
from watcher.host.loops import insist
from watcher.operations.backup_watch import BackupWatch
from watcher.operations.event_looks import EventLooks

pytestmark = pytest.mark.service


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits: what the daemon waits for here never comes."""
    monkeypatch.setattr("watcher.host.metadata.START_PATIENCE", 0.1)
    monkeypatch.setattr("store.database.drivers.SQLITE_PATIENCE", 0.1)
    monkeypatch.setattr("store.database.drivers.CONNECT_DEADLINE", 0.5)


def start(folder: Path, **settings: Any) -> Result:
    """Run `watcher run` in this process."""
    document = {"version": 1, "settings": {"home": "home", "api": {"port": 0}, **settings}}
    (folder / "watchers.yaml").write_text(json.dumps(document))
    return CliRunner().invoke(app, ["run", "--config", str(folder / "watchers.yaml")])


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    sentences = [line for line in result.stderr.splitlines() if not line.startswith("{")]  # records are JSON
    assert len(sentences) == 1, result.stderr
    assert all(word in sentences[0] for word in (*words, ";")), sentences[0]
    assert "Traceback" not in result.stderr


def damaged(home: Path, _template: Path) -> None:
    (home / "watcher.db").write_bytes(b"no database, honestly" * 1_000)


def damaged_inside(home: Path, template: Path) -> None:
    content = bytearray(template.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    (home / "watcher.db").write_bytes(content)


def newer(home: Path, template: Path) -> None:
    copied(template, home)
    with sqlite3.connect(home / "watcher.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()


def of_another_program(home: Path, _template: Path) -> None:
    with sqlite3.connect(home / "watcher.db") as connection:
        connection.execute("CREATE TABLE asset (theirs)")
    connection.close()


def holding(name: str, content: str) -> Callable[[Path, Path], None]:
    def prepare(home: Path, _template: Path) -> None:
        (home / name).write_text(content)

    return prepare


def open_to_all(home: Path, _template: Path) -> None:
    home.chmod(0o755)


def folder_for(name: str) -> Callable[[Path, Path], None]:
    def prepare(home: Path, _template: Path) -> None:
        (home / name).mkdir()

    return prepare


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (damaged, ["home/watcher.db is not a SQLite database", "backup"]),
        (damaged_inside, ["home/watcher.db is damaged", "backup"]),
        (newer, ["is at revision 9999", "newest version"]),
        (of_another_program, ["not one of this program's", "asset already exists"]),
        (folder_for("watcher.db"), ["home/watcher.db cannot be opened", "choose another place"]),
        (holding("home_id", ""), ["home/home_id holds no id", "choose another folder"]),
        (holding("home_id", "something else"), ["home/home_id holds no id"]),
        (folder_for("home_id"), ["home cannot be used", "another place"]),
        (folder_for("daemon.lock"), ["home cannot be used", "another place"]),
        (holding("secret", ""), ["home/secret holds no secret", "remove it"]),
        (holding("secret", "ab12"), ["home/secret holds no secret", "at least 32 bytes"]),
        (holding("secret", "ab" * 64), ["home/secret is open to other accounts", "chmod 600"]),
        (open_to_all, ["home is open to other accounts", "chmod 700"]),
        (holding("secret", "x" * 128), ["home/secret holds no secret"]),
        (folder_for("secret"), ["home/secret cannot be read"]),
    ],
)
def test_a_home_that_cannot_be_used_is_an_error(
    tmp_path: Path, database_file: Path, prepare: Callable[[Path, Path], None], words: list[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    prepare(home, database_file)
    refused(start(tmp_path), *words)


@pytest.mark.parametrize("home", ["file", "file/home", "/proc/home"])
def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").touch()
    refused(start(tmp_path, home=home), "cannot be used", "choose another place")


def test_a_database_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/nowhere/watcher.db"
    refused(start(tmp_path, database={"url": url}), "nowhere/watcher.db cannot be opened")


def test_a_database_file_that_another_program_locked_is_an_error(tmp_path: Path, database_file: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    copied(database_file, tmp_path / "home")
    connection = sqlite3.connect(tmp_path / "home" / "watcher.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    refused(start(tmp_path), "another program has", "home/watcher.db locked", "end it")
    connection.close()


def test_a_port_that_is_taken_is_an_error(tmp_path: Path, database_file: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    copied(database_file, tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(start(tmp_path, api={"port": port}), f"cannot listen on 127.0.0.1:{port}", "free port")


def with_database(url: Any) -> dict[str, Any]:
    return {"url": make_url(url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)}


def test_a_server_that_refuses_or_has_no_schema_is_an_error(tmp_path: Path, postgres_server: PostgresServer) -> None:
    with postgres_server.database() as empty:
        url = make_url(empty.sqlalchemy_url)
        refused(start(tmp_path, database=with_database(url)), "at revision none", "watcher db upgrade")
        nobody = url.set(username="nobody-of-the-kind", password="secret-word")
        answer = start(tmp_path, database=with_database(nobody))
        refused(answer, "refuses the sign-in", "correct user and password")
        assert "secret-word" not in answer.output
        refused(start(tmp_path, database=with_database(url.set(database="nowhere"))), "no such database", "create it")
        refused(start(tmp_path, database=with_database(url.set(host="127.0.0.1", port=1))), "cannot be reached")
        postgres_server.execute("ALTER DATABASE {} SET default_transaction_read_only = on", empty.name)
        refused(start(tmp_path, database=with_database(url)), "the database is read-only", "name the primary")


def test_a_server_that_never_answers_is_an_error(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher.host.metadata.START_PATIENCE", 0.6)
    with migrated_postgres(postgres_server) as behind, proxied_in_a_thread(behind) as proxy:
        proxy.swallows = True
        answer = start(tmp_path, database=with_database(proxy.url))
    refused(answer, "the database cannot be reached", "start it")
    assert "database.awaited" in answer.stderr, "it is tried again"


async def test_a_daemon_starts_when_the_database_comes_back_in_time(database_url: str) -> None:
    attempts: list[int] = []

    async def attempt() -> str:
        attempts.append(len(attempts))
        proxy.swallows = len(attempts) == 1
        await migrations.check(database)
        return "started"

    with proxied_in_a_thread(database_url) as proxy, anyio.fail_after(PATIENCE):
        async with Database.open(proxy.url) as database:
            assert await insist("database.awaited", attempt, seconds=PATIENCE) == "started"
    assert len(attempts) >= 2


async def test_the_first_check_for_a_restored_backup_survives_a_broken_connection(
    tmp_path: Path, database: Database, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher.host.metadata.START_PATIENCE", PATIENCE)
    async with database.reading() as connection:
        pid = await connection.scalar(text("SELECT pg_backend_pid()"))
    postgres_server.execute(f"SELECT pg_terminate_backend({pid})")
    looks = EventLooks(file=tmp_path / "looks")
    watch = BackupWatch(database=database, home=Home(folder=tmp_path, id=""), health=Health(), looks=looks)
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch.run)
        tasks.cancel_scope.cancel()


# --- a second daemon


HOLDER = """
import sys, pathlib
from store.processes.file_locks import exclusive_database
with exclusive_database(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another_daemon(path: Path) -> Iterator[None]:
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


def test_a_second_daemon_on_a_database_is_refused_whatever_path_leads_to_it(
    tmp_path: Path, database_file: Path
) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    copied(database_file, first)
    database = first / "watcher.db"
    (other / "symbolic.db").symlink_to(database)
    (other / "hard.db").hardlink_to(database)
    (tmp_path / "folder").symlink_to(first)
    paths = [
        database,
        other / "symbolic.db",
        other / "hard.db",
        tmp_path / "folder" / "watcher.db",
        Path(os.path.relpath(other / ".." / "first" / "watcher.db")),
    ]
    with held_by_another_daemon(database):
        for path in paths:
            url = f"sqlite+aiosqlite:///{path}"
            refused(
                start(tmp_path, database={"url": url}), "watcher.db" if "first" in str(path) else path.name, "stop it"
            )
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
