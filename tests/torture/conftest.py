"""Databases and the table of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers import PostgresServer
from tests.service.conftest import database_file, database_url, dialect, postgres_server
from tests.torture.results import PROPERTY, Result

__all__ = ["database_file", "database_url", "dialect", "postgres_server"]


@pytest.fixture
def shop(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database that has what is watched."""
    with postgres_server.database() as database:
        yield database.dsn


@pytest.fixture
def record_result(record_property: Callable[[str, object], None]) -> Callable[[Result], None]:
    """A line of the table, whatever becomes of the test."""
    return lambda result: record_property(PROPERTY, result.to_json())
