"""Errors of the driver and of PostgreSQL, divided into those that a person must fix and those that may pass by themselves."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
import asyncpg

from triggers.errors import ConfigurationError, SourceUnavailable

PERCENT_ENCODED: Final = "percent-encode special characters in a dsn's password (@ is %40, / is %2F, # is %23, ? is %3F, : is %3A, [ is %5B, % is %25)"
UNREADABLE_ADDRESS: Final = f"the connection's address cannot be parsed: {PERCENT_ENCODED}"
SIGN_IN_REFUSED: Final = "28P01"
SHARED_SESSIONS: Final = (
    "a pooler gives each transaction another session of the server, so prepared statements, settings and notifications are lost;"
    " connect to the server itself, or let the pooler use session pooling (PgBouncer: pool_mode = session)"
)
CLOSE_TIMEOUT: Final = 5.0
READ_ONLY_TRANSACTION: Final = "25006"
NAMES_AND_RIGHTS: Final = "42"
LOCK_TIMEOUT: Final = "55P03"
STATEMENT_TIMEOUT: Final = "57014"
DATA_EXCEPTION: Final = "22"
FOREIGN_STATEMENT: Final = frozenset({"26000", "42P05"})
"""SQLSTATEs of a session that lacks a statement that was prepared on it, or has one of that name already."""
TOO_COMPLEX: Final = "54001"
"""SQLSTATE of a statement for which the server's stack is too small, for example because of very deeply nested JSON."""


class NotPrimary(SourceUnavailable):
    """The server is a standby: it lists no lock holders and may be behind."""


class UnreadableRows(ConfigurationError):
    """A value of one of the requested rows cannot be computed, sent or decoded; the error does not say which."""

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        """The SQLSTATE; '' if our own decoding refused the value."""


async def close_connection(connection: Any) -> None:
    """Close an asyncpg connection, even if its server is gone or is in the middle of a result."""
    with (
        anyio.move_on_after(CLOSE_TIMEOUT, shield=True),
        suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError),
    ):
        await connection.close()
    connection.terminate()


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raise the driver's errors as `TriggerError`s: refused names, rights and expressions are for a person to fix, others may pass.

    The driver's messages about the address are not repeated, because they may quote a part of a password.
    """
    try:
        yield
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise NotPrimary("the server is a standby: connect to the primary") from error
    except asyncpg.PostgresError as error:
        raise _translated(error) from error
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(f"the server's certificate was refused: {error}") from error
    except OSError as error:
        raise SourceUnavailable(f"PostgreSQL did not answer: {str(error) or 'timeout'}") from error
    except ValueError:  # from the driver, about the address; statements and arguments are ours and raise none
        raise ConfigurationError(UNREADABLE_ADDRESS) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise SourceUnavailable(f"the connection to PostgreSQL was lost: {error}") from error


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error that `driver_errors` raised; None if PostgreSQL gave none."""
    return getattr(error.__cause__, "sqlstate", None)


def _translated(error: asyncpg.PostgresError) -> ConfigurationError | SourceUnavailable:
    """Translate an error by its SQLSTATE (PostgreSQL manual, appendix A). Details and hints are left out: they may quote rows."""
    code = error.sqlstate or ""
    if code in FOREIGN_STATEMENT:
        return ConfigurationError(SHARED_SESSIONS)
    remedy = f"; if it is right, {PERCENT_ENCODED}" if code == SIGN_IN_REFUSED else ""
    sentence = f"PostgreSQL refused: {error.args[0]} (SQLSTATE {code}){remedy}"
    if code[:2] == DATA_EXCEPTION or code == TOO_COMPLEX:
        return UnreadableRows(sentence, code)
    lasting = code[:2] in {"0A", "28", "3D", "3F", "42"} or code == READ_ONLY_TRANSACTION
    if lasting and not isinstance(error, asyncpg.InvalidCachedStatementError):
        return ConfigurationError(sentence)
    return SourceUnavailable(sentence)
