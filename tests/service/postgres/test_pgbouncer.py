"""Behind the real PgBouncer: session pooling works, transaction pooling is refused before it harms another client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, text

from store.database import Database
from store.database.schema import setting
from store.errors import DatabaseUnusable
from tests.databases import migrate
from tests.pgbouncer import MISSING, PROGRAM, running_pgbouncer
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import ORDERS
from tests.service.postgres.tiny_host import hosted
from triggers.errors import ConfigurationError
from triggers.postgres.connection import SETTINGS, PostgresConnection
from triggers.shared.postgres.failures import driver_errors
from watcher.host.database_address import sessions_with

pytestmark = [pytest.mark.service, pytest.mark.skipif(PROGRAM is None, reason=MISSING)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        server.execute("CREATE DATABASE {}", "metadata")
        migrate(server.sqlalchemy_url("metadata"))
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(ORDERS)
        yield server


@pytest.fixture(params=["", ",".join([*SETTINGS, "idle_in_transaction_session_timeout"])], ids=["refuses", "drops"])
def ignored(request: pytest.FixtureRequest) -> dict[str, str]:
    """The startup parameters that PgBouncer drops; it refuses others."""
    return {"ignore_startup_parameters": request.param} if request.param else {}


@pytest.fixture
def by_session(
    server: PostgresServer, tmp_path_factory: pytest.TempPathFactory, ignored: dict[str, str]
) -> Iterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("pgbouncer")
    with running_pgbouncer(server, folder, pool_mode="session", default_pool_size=30, **ignored) as pooler:
        yield pooler


@pytest.fixture(params=["transaction", "statement"])
def shared(
    server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
    ignored: dict[str, str],
    request: pytest.FixtureRequest,
) -> Iterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("pgbouncer")
    with running_pgbouncer(
        server, folder, pool_mode=request.param, server_round_robin=int(bool(ignored)), **ignored
    ) as pooler:
        yield pooler


def connection_to(server: PostgresServer) -> PostgresConnection:
    return PostgresConnection.model_validate({"dsn": server.dsn()})


async def test_settings_are_made_after_connecting_where_they_are_refused_or_dropped(by_session: PostgresServer) -> None:
    async with connection_to(by_session).open() as client:
        for session in (client.session("any"), client.patient, client.session("other")):
            rows = (await session.fetch("SELECT name, setting FROM pg_settings")).rows
            in_force = {row["name"].lower(): row["setting"] for row in rows}
            assert in_force["default_transaction_read_only"] == "off"
            assert in_force["statement_timeout"] == "60000"
            assert in_force["timezone"] == "UTC"
            assert in_force["enable_bitmapscan"] == in_force["enable_sort"] == in_force["jit"] == "off"
            assert in_force["application_name"] == "asset-watcher"


async def test_the_next_client_of_a_session_finds_its_own_settings(by_session: PostgresServer) -> None:
    async with connection_to(by_session).open() as client:
        await client.session("any").fetch("SELECT 1")
    assert_writes(by_session)


async def test_a_watcher_reports_each_row_once(by_session: PostgresServer) -> None:
    async with hosted(by_session.dsn(), start="all") as host:
        for _ in range(3):
            with psycopg.connect(by_session.dsn(), autocommit=True) as writer:
                writer.execute("INSERT INTO orders (note) VALUES ('one'), ('two')")
                ids = [id_ for (id_,) in writer.execute("SELECT id FROM orders ORDER BY id")]
            await host.catch_up()
            assert sorted(host.committed.ids) == ids


async def test_the_metadata_database_works(by_session: PostgresServer) -> None:
    async with Database.open(by_session.sqlalchemy_url("metadata"), connect=sessions_with(None)) as database:
        async with database.transaction() as connection:
            await connection.execute(text("DELETE FROM setting WHERE key = 'pooled'"))
            await connection.execute(insert(setting).values(key="pooled", value="1"))
        async with database.reading() as connection:
            limit = text("SELECT current_setting('idle_in_transaction_session_timeout')")
            assert (await connection.execute(limit)).scalar_one() == "10s"


async def test_a_connection_is_refused_with_the_remedy_where_sessions_are_shared(shared: PostgresServer) -> None:
    async with connection_to(shared).open() as client:
        with pytest.raises(ConfigurationError, match="let the pooler use session pooling"):
            await client.session("any").fetch("SELECT 1")
    assert_writes(shared)


async def test_the_metadata_database_is_refused_with_the_remedy_where_sessions_are_shared(
    shared: PostgresServer,
) -> None:
    async with Database.open(shared.sqlalchemy_url("metadata"), connect=sessions_with(None)) as database:
        with pytest.raises(DatabaseUnusable, match="let the pooler use session pooling"):
            async with database.reading() as connection:
                await connection.execute(text("SELECT 1"))
    assert_writes(shared)


@pytest.mark.parametrize("pool", [3, 20])
async def test_other_clients_of_a_shared_pooler_notice_nothing_of_the_attempts(
    server: PostgresServer, tmp_path: Path, ignored: dict[str, str], pool: int
) -> None:
    stopped = threading.Event()
    with (
        running_pgbouncer(server, tmp_path, pool_mode="transaction", default_pool_size=pool, **ignored) as pooler,
        ThreadPoolExecutor() as threads,
    ):
        others = [threads.submit(write_until, stopped, pooler.dsn()) for _ in range(4)]
        try:
            for _ in range(20):
                with pytest.raises(ConfigurationError, match="let the pooler use session pooling"), driver_errors():
                    await connection_to(pooler).connect()
        finally:
            stopped.set()
        assert all(each.result() > 0 for each in others)


def write_until(stopped: threading.Event, dsn: str) -> int:
    """Write and read as another client of the pooler. Raises if a write is refused, or a setting is not the server's own."""
    count = 0
    while not stopped.is_set():
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as other:
            for _ in range(20):
                other.execute("INSERT INTO orders (note) VALUES ('another client')")
                assert other.execute("SHOW enable_sort").fetchone() == ("on",)
                count += 1
    return count


def assert_writes(pooler: PostgresServer) -> None:
    """Another client of the pooler has the server's own settings, and writes, on each session that is open by now."""
    ours = ("statement_timeout", "enable_sort", "default_transaction_read_only", "work_mem", "lock_timeout")
    for _ in range(5):
        with psycopg.connect(pooler.dsn(), autocommit=True, prepare_threshold=None) as other:
            for name in ours:
                own = other.execute("SELECT setting = reset_val FROM pg_settings WHERE name = %s", [name]).fetchone()
                assert own == (True,), name
            other.execute("INSERT INTO orders (note) VALUES ('another client')")
