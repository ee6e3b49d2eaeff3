"""The servers of the service tests: started once for each worker, with a fresh database or bucket for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from store.database import Database
from tests.databases import OLDER_POSTGRES, copied, emptied, migrated_file, migrated_postgres
from tests.servers import (
    PostgresDatabase,
    PostgresServer,
    S3Server,
    external_postgres,
    fresh_bucket,
    running_postgres,
    running_s3,
)

UNSAFE = {"fsync": "off", "full_page_writes": "off"}
"""Nobody takes the power away."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """PostgreSQL 18, or the one that WATCHER_TEST_POSTGRES names."""
    address = external_postgres()
    if address is not None:
        server = PostgresServer(address=address)
        yield server
        server.drop_templates()
        return
    with running_postgres(max_prepared_transactions=64, max_connections=200, **UNSAFE) as server:
        yield server


@pytest.fixture(scope="session")
def older_postgres_server() -> Iterator[PostgresServer]:
    with running_postgres(version=OLDER_POSTGRES, max_prepared_transactions=64, **UNSAFE) as server:
        yield server


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest) -> Iterator[PostgresDatabase]:
    """On the newest server, or on what `tests.databases.on_both_versions` says."""
    name = "older_postgres_server" if getattr(request, "param", None) == OLDER_POSTGRES else "postgres_server"
    server: PostgresServer = request.getfixturevalue(name)
    with server.database() as database:
        yield database


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[str]:
    """The name of an empty bucket."""
    with fresh_bucket(s3_server) as name:
        yield name


@pytest.fixture(scope="session")
def database_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with the schema in it, to copy."""
    return migrated_file(tmp_path_factory.mktemp("template"))


@pytest.fixture
def dialect(request: pytest.FixtureRequest) -> str:
    """Of `database`: PostgreSQL, or what `tests.databases.on_both` says."""
    return str(getattr(request, "param", "postgresql"))


@pytest.fixture
def database_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty metadata database of this test alone, beside `database`."""
    if dialect == "sqlite":
        yield copied(request.getfixturevalue("database_file"), tmp_path)
    else:
        with migrated_postgres(request.getfixturevalue("postgres_server")) as url:
            yield url


@pytest.fixture(scope="module")
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a metadata database of this module's tests."""
    with migrated_postgres(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
async def open_postgresql(postgres_url: str) -> AsyncIterator[Database]:
    async with Database.open(postgres_url) as database:
        yield database


@pytest.fixture(scope="module")
async def open_sqlite(database_file: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Database]:
    async with Database.open(copied(database_file, tmp_path_factory.mktemp("database"))) as database:
        yield database


@pytest.fixture
def open_database(dialect: str, request: pytest.FixtureRequest) -> Database:
    return request.getfixturevalue(f"open_{dialect}")  # type: ignore[no-any-return]


@pytest.fixture
async def database(open_database: Database) -> Database:
    """An empty metadata database: one for a module's tests, which is four times faster than one for each."""
    return await emptied(open_database)
