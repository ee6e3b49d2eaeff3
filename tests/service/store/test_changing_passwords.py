"""A password of the metadata database that changes: it is read or asked for anew, and no restart is needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import insert, make_url, text

from config.reading.settings_loader import load_settings
from store.database import Database
from store.database.schema import setting
from store.errors import ConnectionLost, DatabaseUnavailable, DatabaseUnusable
from tests.databases import migrate
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import mortal
from triggers.shared.postgres.passwords import PasswordFile, PasswordSupply, password_supply
from watcher.host.database_address import connections_to_database, sessions_with
from watcher.installed import known_settings

pytestmark = pytest.mark.service
ROLE = "keyed"
SESSIONS = 5


@dataclass(frozen=True, kw_only=True)
class Door:
    """A server that asks the role for a password, and a file in which its password of now may stand."""

    server: PostgresServer
    file: Path

    @property
    def url(self) -> str:
        url = make_url(self.server.sqlalchemy_url("metadata"))
        return url.set(username=ROLE, password="outdated").render_as_string(hide_password=False)

    def rotate(self, password: str) -> None:
        self.file.write_text(f"{password}\n")
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(sql.SQL("ALTER ROLE keyed PASSWORD {}").format(sql.Literal(password)))
            admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'keyed'")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        server.execute("CREATE DATABASE {}", "metadata")
        migrate(server.sqlalchemy_url("metadata"))
        server.execute("CREATE ROLE {} LOGIN SUPERUSER", ROLE)
        rules = mortal(server).data / "pg_hba.conf"
        rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def door(server: PostgresServer, tmp_path: Path) -> Door:
    door = Door(server=server, file=tmp_path / "password")
    door.rotate("first")
    return door


async def use(database: Database) -> None:
    async with database.reading() as connection:
        await connection.execute(text("SELECT 1"))


async def notice(database: Database) -> None:
    """Let the pools notice that their sessions have been ended."""
    with suppress(ConnectionLost):
        await use(database)


async def use_all_sessions(database: Database) -> None:
    ready = anyio.Semaphore(0)

    async def hold() -> None:
        async with database.reading() as connection:
            await connection.execute(text("SELECT 1"))
            ready.release()
            await everybody.wait()

    everybody = anyio.Event()
    async with anyio.create_task_group() as holders:
        for _ in range(SESSIONS):
            holders.start_soon(hold)
        for _ in range(SESSIONS):
            await ready.acquire()
        everybody.set()


async def test_a_file_is_read_for_each_session(door: Door) -> None:
    async with Database.open(door.url, connect=sessions_with(PasswordFile(door.file))) as database:
        for password in ("second", "third"):
            await use(database)
            door.rotate(password)
            await notice(database)
        async with database.transaction() as connection:
            await connection.execute(insert(setting).values(key="key", value="1"))


async def test_the_password_of_the_address_alone_is_refused(door: Door) -> None:
    async with Database.open(door.url) as database:
        with pytest.raises(DatabaseUnusable, match="refuses the sign-in"):
            await use(database)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that prints the content of a file and notes each call."""

    prints: Path
    calls: Path

    def supply(self, ttl: float) -> PasswordSupply:
        source = "import sys; print(open(sys.argv[1]).read()); open(sys.argv[2], 'a').write('x')"
        return password_supply(None, [sys.executable, "-c", source, str(self.prints), str(self.calls)], ttl)

    def count(self) -> int:
        return len(self.calls.read_text())


@pytest.fixture
def program(door: Door, tmp_path: Path) -> Program:
    return Program(prints=door.file, calls=tmp_path / "calls")


async def test_a_command_is_run_once_for_all_and_again_when_the_server_refuses(door: Door, program: Program) -> None:
    async with Database.open(door.url, pool_size=SESSIONS, connect=sessions_with(program.supply(ttl=3600))) as database:
        await use_all_sessions(database)
        assert program.count() == 1
        door.rotate("second")
        await notice(database)
        await use_all_sessions(database)
        assert program.count() == 2


async def test_a_command_is_run_again_after_its_ttl(door: Door, program: Program) -> None:
    supply = program.supply(ttl=0.2)
    assert [await supply.current(), await supply.current()] == ["first", "first"]
    await anyio.sleep(0.3)
    door.file.write_text("second")
    assert await supply.current() == "second"
    assert program.count() == 2


async def test_a_password_that_is_refused_twice_is_an_outage_until_there_is_another(
    door: Door, program: Program
) -> None:
    door.file.write_text("wrong")
    async with Database.open(door.url, connect=sessions_with(program.supply(ttl=3600))) as database:
        with pytest.raises(DatabaseUnavailable, match=r"refuses the sign-in .*; correct what gives the password"):
            await use(database)
        assert program.count() == 2
        door.file.write_text("first")
        await use(database)


async def test_the_settings_name_the_place(door: Door, tmp_path: Path) -> None:
    """A relative path starts at the folder of the configuration."""
    document = {"version": 1, "settings": {"database": {"url": door.url, "password": {"file": door.file.name}}}}
    (tmp_path / "watchers.yaml").write_text(json.dumps(document))
    async with connections_to_database(load_settings(tmp_path / "watchers.yaml", {}, known_settings)) as database:
        await use(database)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("print('secret'); raise SystemExit(3)", "it ended with exit code 3"),
        ("print()", "its first line is empty"),
        ("import sys; sys.stdout.buffer.write(bytes([255]))", "it is not UTF-8"),
        ("import time; time.sleep(60)", r"it took longer than 0\.5 s"),
    ],
)
async def test_a_command_without_a_password_is_an_outage_with_a_sentence(
    door: Door, source: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.shared.postgres.passwords.COMMAND_DEADLINE", 0.5 if "sleep" in source else 30.0)
    command = password_supply(None, [sys.executable, "-c", source], 60)
    async with Database.open(door.url, connect=sessions_with(command)) as database:
        with pytest.raises(DatabaseUnavailable, match=f"gives no password for the database: {reason}; ") as refused:
            await use(database)
        assert "secret" not in str(refused.value)
        assert not isinstance(refused.value, ConnectionLost)


async def test_a_file_that_is_being_written_in_place_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write_after, file, 0.2)
        assert await PasswordFile(file).current() == "new"


async def _write_after(file: Path, seconds: float) -> None:
    await anyio.sleep(seconds)
    file.write_text("new")


async def test_a_file_that_is_missing_is_an_outage_until_it_is_there(door: Door) -> None:
    content = door.file.read_text()
    door.file.unlink()
    async with Database.open(door.url, connect=sessions_with(PasswordFile(door.file))) as database:
        with pytest.raises(DatabaseUnavailable, match="No such file"):
            await use(database)
        door.file.write_text(content)
        await use(database)
