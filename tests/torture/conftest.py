"""Databases and the table of results."""

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
    """The address of an empty database that has what is watched."""
    return postgres_database.dsn


@pytest.fixture
def record_result(record_property: Callable[[str, object], None]) -> Callable[[Result], None]:
    """A line of the table, whatever becomes of the test."""
    return lambda result: record_property(PROPERTY, result.to_json())
