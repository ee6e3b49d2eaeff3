"""The server's marks: functions that say where its history stands, most of which a managed server may refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from triggers.postgres.catalog.statements import MARK
from triggers.postgres.history.kept_rows import ServerMarks
from triggers.postgres.server.functions import OF_HISTORY

_MOVING: Final = (
    "(pg_current_wal_insert_lsn() - '0/0')::int8 AS inserted, (pg_current_wal_flush_lsn() - '0/0')::int8 AS flushed,"
    " pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS xmax"
)

SERVER: Final = f"""
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline, pg_postmaster_start_time()::text AS boot,
       (pg_last_wal_replay_lsn() - '0/0')::int8 AS replayed, (pg_last_wal_receive_lsn() - '0/0')::int8 AS received, {_MOVING}
"""  # noqa: S608
"""Which server a connection leads to: its identity, when it was started, and its marks. The statement fails on a standby."""

MOVING_MARKS: Final = f"SELECT {_MOVING}"
"""The marks that change while a connection lasts."""

MARK_AND_MARKS: Final = f"SELECT mark, {_MOVING} FROM (SELECT $1::oid[] AS oids) r {MARK}"  # noqa: S608
"""The mark of the relations `$1`, and those of the server's marks that move. It is read after rows."""


def marks_of(row: Mapping[str, Any], refused: Collection[str]) -> ServerMarks:
    """Return the marks from a row of `SERVER` on a server that refuses these functions."""
    return moved(
        ServerMarks(
            boot=row["boot"],
            timeline=row["timeline"],
            replayed=row["replayed"],
            received=row["received"],
            complete=OF_HISTORY.isdisjoint(refused),
        ),
        row,
    )


def moved(marks: ServerMarks, row: Mapping[str, Any]) -> ServerMarks:
    """Return the marks of a connection with the positions that a later statement on it has returned."""
    return replace(marks, inserted=row["inserted"], flushed=row["flushed"], xmax=row["xmax"])
