"""SQL for a watched PostgreSQL: the statements that do not depend on the mode.

Every statement that reaches a watched server is written once, here, in `catalog`, or in the `statements` of a mode.
All of them only read, and need no right but SELECT on the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, Protocol

from triggers.partition_keys import LONGEST
from triggers.shared.postgres.sql import TableName, quoted

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

SNAPSHOT: Final = (
    "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8) AS xmax,"
    " (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8) AS snapshot_xmin"
)
"""Columns that show a statement's snapshot."""

MOST_COUNTED: Final = 100_000
"""The number at which counting the rows of an attached partition stops."""


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
