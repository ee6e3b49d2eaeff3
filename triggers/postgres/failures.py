"""What the driver and PostgreSQL raise, told apart: what a person must mend, and what may pass by itself."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
import asyncpg

from triggers.errors import ConfigurationError, SourceUnavailable

UNREADABLE_ADDRESS: Final = (
    "the connection's address is not understood: percent-encode special characters in the dsn's user and password"
)
CLOSE_TIMEOUT: Final = 5.0
READ_ONLY_TRANSACTION: Final = "25006"
NAMES_AND_RIGHTS: Final = "42"
LOCK_TIMEOUT: Final = "55P03"
STATEMENT_TIMEOUT: Final = "57014"
DATA_EXCEPTION: Final = "22"
TOO_COMPLEX: Final = "54001"
"""The server's stack is too small for it, as for JSON that is nested very deeply."""


class NotPrimary(SourceUnavailable):
    """A standby answered: it lists no lock holders and may be behind."""


class UnreadableRows(ConfigurationError):
    """A value of one of the rows that were asked for cannot be computed, sent or decoded; which one is not said."""

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        """SQLSTATE; '' where it is our own decoding that refused."""


async def close_connection(connection: Any) -> None:
    """Close an asyncpg connection, also one whose server is gone or in the middle of an answer."""
    with (
        anyio.move_on_after(CLOSE_TIMEOUT, shield=True),
        suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError),
    ):
        await connection.close()
    connection.terminate()


@contextmanager
def driver_errors() -> Iterator[None]:
    """Only a person mends refused names, rights and expressions; all else may pass by itself.

    Texts of the driver about the address are not repeated: they may quote a part of a password.
    """
    try:
        yield
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise NotPrimary("the server is a standby: connect to the primary") from error
    except asyncpg.PostgresError as error:
        raise _judged(error) from error
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(f"the server's certificate was refused: {error}") from error
    except OSError as error:
        raise SourceUnavailable(f"PostgreSQL did not answer: {str(error) or 'timeout'}") from error
    except ValueError:  # the driver's, of addresses; statements and their arguments are ours
        raise ConfigurationError(UNREADABLE_ADDRESS) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise SourceUnavailable(f"the connection to PostgreSQL was lost: {error}") from error


def sqlstate_of(error: BaseException) -> str | None:
    """Of what `driver_errors` raised; None where PostgreSQL did not say."""
    return getattr(error.__cause__, "sqlstate", None)


def _judged(error: asyncpg.PostgresError) -> ConfigurationError | SourceUnavailable:
    """By SQLSTATE (PostgreSQL manual, appendix A). Details and hints are left out: they may quote rows."""
    code = error.sqlstate or ""
    sentence = f"PostgreSQL refused: {error.args[0]} (SQLSTATE {code})"
    if code[:2] == DATA_EXCEPTION or code == TOO_COMPLEX:
        return UnreadableRows(sentence, code)
    lasting = code[:2] in {"0A", "28", "3D", "3F", "42"} or code == READ_ONLY_TRANSACTION
    if lasting and not isinstance(error, asyncpg.InvalidCachedStatementError):
        return ConfigurationError(sentence)
    return SourceUnavailable(sentence)
