from __future__ import annotations

import ssl

import asyncpg
import pytest

from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.postgres.connection import PostgresConnection
from triggers.shared.postgres.failures import NotPrimary, UnreadableRows, driver_errors


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (asyncpg.UndefinedTableError("no such table"), ConfigurationError),
        (asyncpg.InsufficientPrivilegeError("permission denied"), ConfigurationError),
        (asyncpg.InvalidPasswordError("wrong"), ConfigurationError),
        (asyncpg.DivisionByZeroError("division by zero"), UnreadableRows),
        (asyncpg.StatementTooComplexError("stack depth limit exceeded"), UnreadableRows),
        (asyncpg.FeatureNotSupportedError("never"), ConfigurationError),
        (asyncpg.InvalidCachedStatementError("the table changed"), SourceUnavailable),
        (asyncpg.InvalidSQLStatementNameError("no such statement"), ConfigurationError),
        (asyncpg.DuplicatePreparedStatementError("it exists"), ConfigurationError),
        (asyncpg.QueryCanceledError("statement timeout"), SourceUnavailable),
        (asyncpg.AdminShutdownError("terminating"), SourceUnavailable),
        (asyncpg.TooManyConnectionsError("too many"), SourceUnavailable),
        (asyncpg.ConnectionDoesNotExistError("gone"), SourceUnavailable),
        (asyncpg.InterfaceError("closed"), SourceUnavailable),
        (asyncpg.TargetServerAttributeNotMatched("standby"), NotPrimary),
        (ConnectionRefusedError("refused"), SourceUnavailable),
        (TimeoutError(), SourceUnavailable),
        (ssl.SSLCertVerificationError("self-signed"), ConfigurationError),
    ],
)
def test_refusals_are_configuration_errors_and_other_errors_may_pass(error: Exception, told: type[Exception]) -> None:
    with pytest.raises(told) as raised, driver_errors():
        raise error
    assert type(raised.value) is told


@pytest.mark.parametrize("dsn", ["postgresql://user:hush@host:hush/d", "postgresql://user@host:hush/d"])
async def test_an_address_that_cannot_be_parsed_is_never_repeated(dsn: str) -> None:
    async with PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        with pytest.raises(ConfigurationError, match="percent-encode special characters") as raised:
            await client.session("any").fetch("SELECT 1")
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None
