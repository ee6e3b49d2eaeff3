"""The server's marks: functions that say where its history stands, each of which a managed server may refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import asyncpg

from triggers.errors import Finding
from triggers.postgres.catalog import MARK
from triggers.postgres.kept_rows import ServerMarks

FUNCTIONS: Final[Mapping[str, str]] = {
    "inserted": "pg_current_wal_insert_lsn()",
    "flushed": "pg_current_wal_flush_lsn()",
    "replayed": "pg_last_wal_replay_lsn()",
    "received": "pg_last_wal_receive_lsn()",
}
"""What each position in the WAL is read with."""
_MOVING: Final = ("inserted", "flushed")
"""The positions that change while a connection lasts."""

_REFUSED: Final = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
    asyncpg.FeatureNotSupportedError,
)


def _columns(names: Collection[str], refused: Collection[str]) -> str:
    positions = {name: "NULL" if name in refused else f"({FUNCTIONS[name]} - '0/0')" for name in names}
    columns = (f"{position}::int8 AS {name}" for name, position in positions.items())
    return ", ".join([*columns, "pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS xmax"])


@cache
def marks(refused: frozenset[str]) -> str:
    """Return the statement that reads all marks, but those that the server refuses."""
    return f"SELECT {_columns(FUNCTIONS, refused)}"


@cache
def moving_marks(refused: frozenset[str]) -> str:
    """Return the statement that reads those of the marks that move."""
    return f"SELECT {_columns(_MOVING, refused)}"


@cache
def mark_and_marks(refused: frozenset[str]) -> str:
    """Return the statement that reads the mark of the relations `$1`, and those of the server's marks that move, behind rows."""
    return f"SELECT mark, {_columns(_MOVING, refused)} FROM (SELECT $1::oid[] AS oids) r {MARK}"  # noqa: S608


def moved(marks: ServerMarks, row: Mapping[str, Any]) -> ServerMarks:
    """Return the marks of a connection with the positions that a later statement on it has returned."""
    return replace(marks, inserted=row["inserted"], flushed=row["flushed"], xmax=row["xmax"])


async def first_marks(
    connection: asyncpg.Connection, *, boot: str, timeline: int
) -> tuple[ServerMarks, frozenset[str]]:
    """Return the marks of the server on a new connection, and the names of those that it refuses to this role."""
    refused = frozenset[str]()
    try:
        row = await connection.fetchrow(marks(refused))
    except _REFUSED:
        refused = frozenset([name for name, function in FUNCTIONS.items() if not await _answers(connection, function)])
        row = await connection.fetchrow(marks(refused))
    return _with_row(ServerMarks(boot=boot, timeline=timeline, complete=not refused), row), refused


def _with_row(marks: ServerMarks, row: Mapping[str, Any]) -> ServerMarks:
    return replace(moved(marks, row), replayed=row["replayed"], received=row["received"])


async def _answers(connection: asyncpg.Connection, function: str) -> bool:
    try:
        await connection.fetchrow(f"SELECT {function}")
    except _REFUSED:
        return False
    return True


def refusal(refused: Collection[str], role: str) -> list[Finding]:
    """Return a finding about the functions that the server refuses, if there are any."""
    if not refused:
        return []
    functions = [FUNCTIONS[name] for name in FUNCTIONS if name in refused]
    return [
        Finding.info(
            "functions",
            f"{role} may not execute {', '.join(functions)}: every new connection examines the rows read last, and only rows"
            " prove what a server still has",
            "; ".join(f'GRANT EXECUTE ON FUNCTION {function} TO "{role}"' for function in functions)
            + ", where the server allows it",
        )
    ]
