"""Which column, or which hash, tells a reported row from another one under the same key (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from triggers.errors import ConfigurationError
from triggers.postgres.catalog.defaults import is_time_of_write
from triggers.postgres.history.kept_rows import Witness, WitnessKind
from triggers.shared.postgres.sql import TableName, quoted

COLUMNS: Final = """
SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type, a.atttypmod IN (-1, 6) AS is_exact,
       pg_get_expr(d.adbin, d.adrelid) AS default,
       has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS readable
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
"""The columns of the table `$1`, for its witness."""

_SEND: Final = {"timestamp with time zone": "timestamptz_send", "timestamp without time zone": "timestamp_send"}
_ROUNDED: Final = re.compile(r"\([0-5]\)")
_OF_INSERT: Final = re.compile(r"(^|_)(creat|insert|add|register)", re.IGNORECASE)
_OF_UPDATE: Final = re.compile(r"upd|mod|chang|touch|edit|seen|sync|last|delet|process", re.IGNORECASE)


def witness_by_id(table: TableName, columns: Sequence[Mapping[str, Any]], configured: str | None) -> Witness:
    """Return the witness of mode `id`. Raises `ConfigurationError` if the configured column is no time.

    Without a configured one it is a time whose default is that of the inserting transaction; else a hash of the row.
    """
    times = {
        column["name"]: column
        for column in columns
        if column["type"] in _SEND and column["is_exact"] and column["readable"]
    }
    if configured is None:
        configured = _default_of(times)
    elif configured != "row" and configured not in times:
        raise ConfigurationError(
            f"the witness {configured!r} is no column of type timestamp or timestamptz, with microseconds, of {table} that the"
            " role may read: name one that the inserting transaction sets, or write `witness: row`"
        )
    if configured != "row":
        sql = f"{_SEND[times[configured]['type']]}({table.sql}.{quoted(configured)})"
        return Witness(kind=WitnessKind.TIME, sql=sql, column=configured)
    values = ", ".join(f"{table.sql}.{quoted(column['name'])}" for column in columns if column["readable"])
    return Witness(kind=WitnessKind.ROW, sql=f"int8send(hashtextextended(ROW({values})::text, 0))")


def witness_by_update(table: TableName, column: str, type_: str) -> Witness:
    """Return the witness of mode `updated_at`: the column itself, as it is stored."""
    kind = "timestamp with time zone" if "with time zone" in type_ else "timestamp without time zone"
    sql = f"{_SEND[kind]}({table.sql}.{quoted(column)}::{kind})"
    return Witness(kind=WitnessKind.UPDATE, sql=sql, column=column)


def _default_of(times: Mapping[str, Mapping[str, Any]]) -> str:
    names = [name for name, column in times.items() if _is_time_of_insert(name, column["default"])]
    return next((name for name in names if _OF_INSERT.search(name)), names[0] if names else "row")


def _is_time_of_insert(name: str, default: str | None) -> bool:
    """Return whether it is the time of the insert in microseconds: rows of one second could not be told apart."""
    if default is None or _ROUNDED.search(default) or _OF_UPDATE.search(name):
        return False
    return is_time_of_write(default, None) or is_time_of_write(default, "UTC")
