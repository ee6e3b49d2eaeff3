"""The servers of the service tests: started once a session, with a fresh database or bucket for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import (
    PostgresDatabase,
    PostgresServer,
    S3Server,
    external_postgres,
    fresh_bucket,
    running_postgres,
    running_s3,
)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """PostgreSQL 18, or the one that WATCHER_TEST_POSTGRES names."""
    address = external_postgres()
    if address is not None:
        server = PostgresServer(address=address)
        yield server
        server.drop_templates()
        return
    with running_postgres(max_prepared_transactions=64, max_connections=200) as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    with postgres_server.database() as database:
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
