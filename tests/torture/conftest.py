"""Fixtures for databases and for the table of results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers import PostgresDatabase
from tests.service.conftest import (
    database_file,
    database_url,
    dialect,
    older_postgres_server,
    postgres_database,
    postgres_server,
)
from tests.torture.results import PROPERTY, Result

__all__ = [
    "database_file",
    "database_url",
    "dialect",
    "older_postgres_server",
    "postgres_database",
    "postgres_server",
]


@pytest.fixture
def shop(postgres_database: PostgresDatabase) -> str:
    """The address of a database with the watched table, which is empty."""
    return postgres_database.dsn


@pytest.fixture
def record_result(record_property: Callable[[str, object], None]) -> Callable[[Result], None]:
    """Add a line to the table of results, whether the test passes or fails."""
    return lambda result: record_property(PROPERTY, result.to_json())
