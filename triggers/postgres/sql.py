"""SQL for a watched PostgreSQL: names and expressions, and the statements that do not depend on the mode.

Every statement that reaches a watched server is written once, here, in `catalog`, `id_statements` or `update_statements`.
All of them only read, and need no right but SELECT on the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from triggers.partition_keys import LONGEST
from triggers.postgres.values import ValueType

NOTIFY_CHANNEL: Final = "asset_watcher"
"""The channel of all notifications; the payload is the oid of the table that was written to."""

SET_LIMITS: Final = """
SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false), set_config('plan_cache_mode', $3, false)
"""
"""The two timeouts `$1` and `$2` are in milliseconds."""

ALIVE: Final = """
SELECT pg_postmaster_start_time()::text AS boot,
       to_char((statement_timestamp() - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment,
       ARRAY(SELECT ROW(virtualtransaction, pid) FROM pg_locks
             WHERE locktype = 'virtualxid' AND virtualxid = virtualtransaction AND pid <> pg_backend_pid()
               AND pid IN (SELECT a.pid FROM pg_stat_get_activity(NULL) a
                           WHERE a.datid = (SELECT oid FROM pg_database WHERE datname = current_database()))
                OR locktype = 'transactionid' AND pid IS NULL) AS alive,
       (SELECT ROW(to_char((query_start - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pid)
        FROM pg_stat_get_activity(NULL) WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'active'
            AND coalesce(xact_start <= query_start, query_start IS NOT NULL) ORDER BY query_start LIMIT 1) AS earliest
"""
"""The transactions of this database that are open. A prepared transaction has no process and no lock on its virtual transaction.
`earliest` is the oldest multi-statement text that may still begin another transaction, with the time at which the server
received it; in a procedure now() is a later time. Each margin covers a column that rounds to seconds."""

_QUOTED_TABLE: Final = re.compile(r'"((?:[^"]|"")+)"\."((?:[^"]|"")+)"')

SNAPSHOT: Final = (
    "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8) AS xmax,"
    " (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8) AS snapshot_xmin"
)
"""Columns that show a statement's snapshot."""

MOST_COUNTED: Final = 100_000
"""The number at which counting the rows of an attached partition stops."""


def quoted(identifier: str) -> str:
    """Return the identifier as SQL, whatever characters it holds."""
    if not identifier or "\0" in identifier:
        raise ValueError("an SQL name is not empty and holds no NUL")
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, kw_only=True, slots=True)
class TableName:
    """A table's schema and name, exactly as the catalog has them: case and blanks count."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `schema.table`, or `"schema"."table"` as SQL quotes it.

        Unquoted, everything after the first dot is the table, and without a dot the schema is `public`.
        """
        schema, dot, name = text.partition(".")
        table = cls(schema=schema, name=name) if dot else cls(schema="public", name=text)
        if text.startswith('"'):
            if (parts := _QUOTED_TABLE.fullmatch(text)) is None:
                raise ValueError(
                    'a table that begins with " is "schema"."table" as SQL quotes it, each " in a name doubled'
                )
            table = cls(schema=parts[1].replace('""', '"'), name=parts[2].replace('""', '"'))
        quoted(table.schema), quoted(table.name)
        return table

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        """The name as events and positions have it: in quotes only if it would be read as another one without them."""
        return self.sql if "." in self.schema or self.schema.startswith('"') else f"{self.schema}.{self.name}"


def row_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """Return an expression for one row's `columns` as JSON text; without columns it is null.

    The rules of PostgreSQL's to_json apply: timestamps are ISO 8601 strings, bytea is a hexadecimal string, NaN is a string.
    The exceptions are numeric, which becomes a string too, because JSON readers would round it, and an array whose subscripts
    do not begin at 1, which becomes the string that PostgreSQL writes.
    """
    if not columns:
        return "NULL::text"
    items = ", ".join(f"{_exact(name, types)} AS {quoted(name)}" for name in columns)
    return f"(SELECT row_to_json(item)::text FROM (SELECT {items}) item)"  # noqa: S608  # names are quoted


def parts_as_texts(rows: str, columns: Sequence[str | None]) -> str:
    """Return an expression for the values of the columns that decide which event a row is in, as PostgreSQL writes them.

    It is null without columns. `rows` is the table, or its name in the statement. A value without a column is null. Longer
    values than a key may have are cut: they make no key.
    """
    if not columns:
        return "NULL::text[]"
    most = LONGEST + 1
    parts = ("NULL::text" if name is None else f"left({rows}.{quoted(name)}::text, {most})" for name in columns)
    return f"ARRAY[{', '.join(parts)}]"


def primary_key_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """Return an expression for a key as JSON text: its value, or a list of values when it has several columns."""
    values = ", ".join(_exact(name, types) for name in columns)
    return f"to_json({values})::text" if len(columns) == 1 else f"json_build_array({values})::text"


def _exact(name: str, types: Mapping[str, ValueType]) -> str:
    return types[name].in_json(quoted(name)) if name in types else quoted(name)


def condition(where: str | None) -> str:
    """Return a user's condition as an expression. The line breaks end a comment in it."""
    return f"(\n{where}\n)" if where else "true"


def trial_of_condition(table: TableName, where: str) -> str:
    """Return a statement that is valid only if `where` is a boolean condition on one row: no aggregate, no set."""
    return f"SELECT FROM {table.sql} WHERE {condition(where)}"


def row_of_key(
    table: TableName, *, names: Sequence[str], key: str, where: str | None, above: str, written: str = "NULL::text"
) -> str:
    """Return a statement for the one row whose columns `names` are those of the JSON object `$1`.

    `keep` says whether it meets `where`, `above` whether it lies above the place `$2`; `key` and `written` are expressions.
    """
    columns, name = ", ".join(map(quoted, names)), table.sql
    given = f"json_populate_record(NULL::{name}, $1::text::json)"
    return (
        f"SELECT {condition(where)} IS TRUE AS keep, ({above}) IS TRUE AS above, {key} AS key, {written} AS written,"  # noqa: S608
        f" {name}.xmin::text::int8 AS xid, {name}.tableoid::int8 AS relation, {name}.ctid AS place,"
        " pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS xmax"
        f" FROM {name} WHERE ({columns}) = (SELECT {columns} FROM {given})"
    )


def key_of_values(table: TableName, key: str) -> str:
    """Return a statement for the key in the JSON object `$1`, as the table's rows have it. It fails for no value of a column's type."""
    return f"SELECT {key} AS key FROM json_populate_record(NULL::{table.sql}, $1::text::json)"  # noqa: S608


def plan_of_condition(table: TableName, where: str) -> str:
    """Return a statement that shows the condition as a poll evaluates it: nothing of it is used up by an index or by partitions."""
    return f"EXPLAIN (VERBOSE, FORMAT JSON) SELECT {condition(where)} IS TRUE FROM {table.sql}"  # noqa: S608


ANY_ROW: Final = "(SELECT {number} FROM {table} WHERE {condition} ORDER BY {order} LIMIT 1)"
"""The order makes the planner use the index. For an EXISTS it would scan the table up to the first row that matches."""

OLD_ROWS: Final = """
SELECT count(*) AS rows, min(place) AS lowest, max(place) AS highest
FROM (SELECT {place} AS place FROM {table} WHERE {table}.tableoid = $1::oid AND ({bounds}) AND {old} LIMIT {most}) old
"""


class Question(Protocol):
    """A question about one table: is there anything that a poll would read? Equal questions are asked once.

    `arguments` are the types of the question's arguments.
    """

    @property
    def arguments(self) -> Sequence[type]: ...

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """Return an expression that is `number` if the answer is yes, else null. `arguments` are expressions of type int8 or text."""


def news_of(questions: Sequence[Question]) -> str:
    """Return a statement whose `news` are the numbers of the questions that are answered with yes.

    `$1` holds the numeric arguments of all questions, `$2` their text arguments.
    """
    numbers, texts = count(1), count(1)
    parts = [
        question.part(
            number,
            [f"$1[{next(numbers)}]" if kind is int else f"$2[{next(texts)}]" for kind in question.arguments],
        )
        for number, question in enumerate(questions)
    ]
    types = "(SELECT $1::int8[], $2::text[]) types"  # declares both types, even if no question has an argument of one of them
    return f"SELECT array_remove(ARRAY[{', '.join(parts)}]::int4[], NULL) AS news FROM {types}"  # noqa: S608
