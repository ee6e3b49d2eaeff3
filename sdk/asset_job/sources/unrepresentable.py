"""Values of PostgreSQL's rows that Spark's types cannot hold, and the bad records that their rows become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from asset_job.sources.postgres_sql import TableColumn, key_of, literal
from asset_job.sources.records import LONGEST_BAD
from asset_job.sources.request import RowSelection
from asset_job.sources.table_names import table_sql

_MOST_SHOWN: Final = 200
"""The characters of a value that a sentence shows."""


def nulled_values(columns: Sequence[TableColumn]) -> str:
    """The expression for the number of a row's values that are unrepresentable, for which null is sent."""
    values = ", ".join(f"CASE WHEN {column.unrepresentable} THEN 1 END" for column in columns if column.unrepresentable)
    return f"num_nonnulls({values})" if values else "0"


def bad_rows(rows: RowSelection, columns: Sequence[TableColumn]) -> str | None:
    """The expression that is null for a row that Spark can hold, and otherwise JSON for `bad_row`. None: Spark can hold each.

    It is sent as bytes, because a database that takes all bytes for text would refuse to send some as text.
    """
    key = key_of(columns) or [column for column in columns if column.name == rows.column]
    place = "".join(f", {literal(column.name)}, left({column.text}, {_MOST_SHOWN})" for column in key)
    row = f"left(row_to_json({table_sql(rows.table)}.*)::text, {LONGEST_BAD})"
    cases = " ".join(
        f"WHEN {column.unrepresentable} THEN json_build_array({number}, left({column.text}, {_MOST_SHOWN}), {row}{place})"
        for number, column in enumerate(columns)
        if column.unrepresentable
    )
    encoding = "SQL_ASCII" if any(column.is_unchecked for column in columns) else "UTF8"
    return f"convert_to((CASE {cases} END)::text, '{encoding}')" if cases else None


def bad_row(report: bytes, table: str, columns: Sequence[TableColumn]) -> Mapping[str, Any]:
    """The bad record, as a value of the type `BAD`, that a value of `bad_rows` stands for."""
    number, *texts = json.loads(report.decode("utf-8", "surrogateescape"))
    value, record, *place = (
        text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for text in texts
    )
    column = columns[number]
    key = ", ".join(f"{name}={text}" for name, text in zip(place[::2], place[1::2], strict=True))
    reason = f"the column {column.name} holds {value}, which Spark's type {column.spark} cannot hold"
    return {"_record": record, "_at": f"{table} {key}", "_reason": reason, "_count": 1}
