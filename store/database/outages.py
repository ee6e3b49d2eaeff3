"""Errors that are the database's own: it is gone, starting, full, read-only, locked or out of connections.

Every other error, such as a violated constraint, belongs to whoever sent the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from store.errors import ConnectionLost, DatabaseUnavailable, DatabaseUnusable, StoreError

_SHARED: Final = "a pooler gives each transaction another session of the database; let it use session pooling (PgBouncer: pool_mode = session)"
_SQLSTATES: Final[Mapping[str | int, tuple[type[StoreError], str]]] = {
    "08": (ConnectionLost, "the connection to the database broke; nothing of the transaction was kept"),
    "25006": (
        ConnectionLost,
        "the database is read-only; let it write, or name the primary in settings.database.url",
    ),
    "25P03": (
        ConnectionLost,
        "this process was too slow for the database, which ended the session; give it more CPU time",
    ),
    "26000": (DatabaseUnusable, _SHARED),
    "42P05": (DatabaseUnusable, _SHARED),
    "28": (DatabaseUnusable, "the database refuses the sign-in; correct user and password in settings.database.url"),
    "3D": (DatabaseUnusable, "there is no such database; create it, or correct settings.database.url"),
    "53100": (DatabaseUnavailable, "the disk of the database is full; free some space there"),
    "53300": (
        DatabaseUnavailable,
        "the database has no connection left for us; raise its max_connections or end other sessions",
    ),
    "53": (DatabaseUnavailable, "the database is out of resources; check its log"),
    "55000": (DatabaseUnavailable, "the database takes no connections now; check its log"),
    "57P": (ConnectionLost, "the database is being stopped or started; nothing of the transaction was kept"),
    "58": (DatabaseUnavailable, "the database cannot read or write its files; check its log"),
    "XX": (DatabaseUnavailable, "the database reports damage or a fault of its own; check its log"),
}
"""Meanings by the beginning of PostgreSQL's error code: https://www.postgresql.org/docs/current/errcodes-appendix.html"""
_CONNECTING: Final = frozenset({"55000"})
"""Codes that mean this only while a connection is made."""
_WRITING: Final = frozenset({"25006", 8})
"""Codes that mean this only in a transaction that may write, and while a connection is made."""
_NOTHING_WRITTEN: Final = ("25006", "25P03", "57P")
"""Beginnings of codes with which PostgreSQL ends a session or refuses to write, always before it commits.

A session that is ended while it waits for a standby has committed already; it gets a warning with such a code, no error.
"""

_SQLITE: Final[Mapping[str | int, tuple[type[StoreError], str]]] = {
    3: (DatabaseUnusable, "this account may not open {place}; give it the file, or choose another one"),
    5: (DatabaseUnavailable, "another program has {place} locked; end it, or let it finish"),
    6: (DatabaseUnavailable, "another program has {place} locked; end it, or let it finish"),
    8: (DatabaseUnavailable, "{place} is read-only; let this account write the file and its folder"),
    10: (DatabaseUnavailable, "{place} cannot be read or written; check its disk"),
    11: (DatabaseUnusable, "{place} is damaged; put a backup in its place, or move it away to start over"),
    13: (DatabaseUnavailable, "the disk of {place} is full; free some space there"),
    14: (DatabaseUnusable, "{place} cannot be opened; make its folder, and let this account write there"),
    15: (DatabaseUnavailable, "another program has {place} locked; end it, or let it finish"),
    26: (
        DatabaseUnusable,
        "{place} is not a SQLite database; put a backup in its place, or move it away to start over",
    ),
}
"""Meanings by SQLite's primary result code: https://www.sqlite.org/rescode.html"""
_CODES: Final = {**_SQLSTATES, **_SQLITE}

_UNSENT: Final = "cannot switch to state"
"""How asyncpg begins its refusal to send anything on a session that the server has just ended."""


@dataclass(frozen=True, kw_only=True)
class Outages:
    """Judges errors of one database; `place` is its name in sentences: SQLite's file."""

    place: str
    writing: bool

    def named(self, error: BaseException, *, connecting: bool = False) -> StoreError | None:
        """Return what an error says about the database itself; None if it is the caller's own.

        While `connecting`, errors of the operating system are the database's as well.
        """
        if isinstance(error, PoolTimeout):
            return DatabaseUnavailable("all connections to the database are in use; find out who holds them so long")
        known = self._known(error.orig if isinstance(error, DBAPIError) and error.orig else error, connecting)
        if known is None and isinstance(error, DBAPIError) and error.connection_invalidated:
            return ConnectionLost("the connection to the database broke; nothing of the transaction was kept")
        if known is None and connecting and isinstance(error, OSError):  # asyncpg raises it as well if nobody listens
            reason = str(error) or "it does not answer"
            return ConnectionLost(
                f"the database cannot be reached: {reason}; start it, or correct settings.database.url"
            )
        return known

    def _known(self, cause: BaseException, connecting: bool) -> StoreError | None:
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF or sqlstate_of(cause)
        if (code in _CONNECTING and not connecting) or (code in _WRITING and not (self.writing or connecting)):
            return None
        beginnings = [code] if isinstance(code, int) else [code[:length] for length in (5, 3, 2)]
        kind, sentence = next((_CODES[each] for each in beginnings if each in _CODES), (None, ""))
        if kind is None:
            return None
        happened, _, remedy = sentence.format(place=self.place).partition("; ")
        reason = " ".join(str(cause.__cause__ or cause).split())
        return kind(f"{happened} ({reason}); {remedy}")


def sqlstate_of(error: BaseException) -> str:
    """Return the code that PostgreSQL gave an error, also if the driver reports only that the session ended after it; else ''."""
    code, cause = "", error.orig if isinstance(error, DBAPIError) else error
    while cause is not None:
        code, cause = getattr(cause, "sqlstate", None) or code, cause.__cause__
    return code


def nothing_written(error: OSError | DBAPIError) -> bool:
    """Whether a COMMIT with this error had certainly no effect.

    The server said so, or asyncpg knew that the session had ended and sent nothing.
    """
    unsent = isinstance(error, InterfaceError) or (isinstance(error, InternalError) and _UNSENT in str(error.orig))
    return unsent or sqlstate_of(error).startswith(_NOTHING_WRITTEN)
