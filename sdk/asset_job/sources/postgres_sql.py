"""The SQL that reads rows from PostgreSQL, and the mapping of its types to Spark's. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from asset_job.sources.request import RowSelection
from asset_job.sources.shares import chunks, merged, split_ranges
from asset_job.sources.table_names import quoted, table_sql

_MOST_IDS = 250_000
_MOST_RANGES = 10_000
_MOST_KEYS = 50_000
_RANGES = "ranges_of_asset_watcher"
"""A name that no table has."""
_MOST_PREDICATES = 200
"""Ranges in one condition of a JDBC read."""

COLUMNS = """\
WITH RECURSIVE base(attnum, oid, typmod) AS (
    SELECT attnum, atttypid, atttypmod FROM pg_attribute WHERE attrelid = {table}::regclass AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT b.attnum, t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype = 'd')
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(b.oid, b.typmod), b.oid <> 'varchar'::regtype AND EXISTS (
           SELECT FROM pg_cast WHERE castsource = b.oid AND casttarget = 'text'::regtype AND castmethod <> 'i'),
       COALESCE(k.place, 0)::int, getdatabaseencoding() = 'SQL_ASCII'
FROM pg_attribute a JOIN base b ON b.attnum = a.attnum JOIN pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
LEFT JOIN (SELECT i.indrelid, u.attnum, u.place FROM pg_index i,
           LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, place) WHERE i.indisprimary) k
  ON k.indrelid = a.attrelid AND k.attnum = a.attnum
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
"""Selects what `TableColumn` holds: a column's name, type, base type, `has_cast`, `key_place` and `is_unchecked`."""

_SETTINGS = {
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "3",
}
SETTINGS = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
"""Makes texts of values independent of what is set for the role or the database."""

_SPARK_TYPES = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "boolean": "boolean",
    "text": "string",
    "date": "date",
    "bytea": "binary",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}
_BEYOND_SPARK = {
    "date": "'infinity' = {value} OR '-infinity' = {value}",
    "timestamp with time zone": "'294247-01-10 04:00:54.775807+00' < {value} OR '-infinity' = {value}",
    "timestamp without time zone": "'294247-01-10 04:00:54.775807' < {value} OR '-infinity' = {value}",
}
"""When a value is outside of Spark's type: its moments are 64-bit microseconds from 1970 on, PostgreSQL's from 2000 on."""
_UTF8 = (
    "^([0-7].|(c[2-9a-f]|d.)[89ab].|e0[ab].[89ab].|e[1-9abcef]([89ab].){2}|ed[89].[89ab].|f0[9ab].([89ab].){2}"
    "|f[1-3]([89ab].){3}|f48.([89ab].){2})*$"
)
"""Bytes of UTF-8 in hexadecimal."""
_LARGEST_DECIMAL = 38


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of a PostgreSQL table."""

    name: str
    postgres: str
    """PostgreSQL's name of the type."""
    base: str
    """The same; for a domain, the type that it is based on."""
    has_cast: bool
    """Whether the type has a cast to text of its own, which may write another text: that of `char(n)` drops blanks."""
    key_place: int
    """The place in the primary key, from 1; 0: not part of it."""
    is_unchecked: bool = False
    """Whether the database takes all bytes for text (SQL_ASCII), so that they may not be UTF-8."""
    as_text: bool = False
    """Whether the values are sent as text although Spark has the type."""

    @property
    def expression(self) -> str:
        """The expression to select. Types without a counterpart in Spark are sent as text; null stands for an unrepresentable value."""
        name = quoted(self.name)
        value = name if self._counterpart else self.text
        if self.unrepresentable:
            return f"CASE WHEN {self.unrepresentable} THEN NULL ELSE {value} END AS {name}"
        return name if value == name else f"{value} AS {name}"

    @property
    def text(self) -> str:
        """The expression for the value as PostgreSQL writes it."""
        name = quoted(self.name)
        written = f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"
        return written if self.has_cast else f"{name}::text"

    @property
    def unrepresentable(self) -> str | None:
        """The condition on a value that Spark's type cannot hold; null or false for all others. None: Spark can hold each."""
        name, counterpart = quoted(self.name), self._counterpart
        if self.spark.startswith("decimal"):
            return f"{name} = 'NaN'"
        is_array = counterpart and self._plain.endswith("[]")
        conditions = [f"array_ndims({name}) > 1 OR array_lower({name}, 1) <> 1"] if is_array else []
        if counterpart and (beyond := _BEYOND_SPARK.get(self._plain.removesuffix("[]"))):
            conditions.append(beyond.format(value=f"ANY ({name})" if is_array else name))
        if self.is_unchecked and "string" in self.sent:
            conditions.append(f"encode(convert_to({self.text}, 'SQL_ASCII'), 'hex') !~ '{_UTF8}'")
        return " OR ".join(conditions) or None

    @property
    def sent(self) -> str:
        """The Spark type in which the value arrives."""
        return self._counterpart or "string"

    @property
    def _plain(self) -> str:
        return re.sub(r"\([^)]*\)", "", self.base)

    @property
    def _counterpart(self) -> str | None:
        counterpart = None if self.as_text else _SPARK_TYPES.get(self._plain.removesuffix("[]"))
        return f"array<{counterpart}>" if counterpart and self._plain.endswith("[]") else counterpart

    @property
    def spark(self) -> str:
        """The Spark type that the value becomes.

        A numeric becomes a decimal if Spark has its precision; otherwise it stays text, which loses nothing.
        """
        number = re.fullmatch(r"numeric\((\d+),(\d+)\)", self.base)
        if number and not self.as_text and int(number[2]) <= int(number[1]) <= _LARGEST_DECIMAL:
            return f"decimal({number[1]},{number[2]})"
        return self.sent


def literal(text: str) -> str:
    """A text literal that is valid whatever the server's standard_conforming_strings is."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def key_of(columns: Sequence[TableColumn]) -> Sequence[TableColumn]:
    """The columns of the primary key, in its order."""
    return sorted((column for column in columns if column.key_place), key=lambda column: column.key_place)


def queries(rows: RowSelection, columns: Sequence[TableColumn], *, tasks: int, last: str | None = None) -> list[str]:
    """One query for each task. Together they return each selected row that still exists exactly once.

    The value of the expression `last` follows the columns.
    """
    chosen = ", ".join([*(column.expression for column in columns), *([f'{last} AS "last"'] if last else [])])
    select = f"SELECT {chosen} FROM {table_sql(rows.table)}"  # noqa: S608 - quoted
    shares = split_ranges(merged(rows.ranges), tasks=tasks, most_ids=_MOST_IDS, most_ranges=_MOST_RANGES)
    keys = list(dict.fromkeys(rows.keys))
    some_keys = chunks(keys, max(1, min(_MOST_KEYS, -(-len(keys) // max(tasks, 1)))))
    return [
        *(_in_ranges(select, quoted(rows.column), share) for share in shares),
        *(f"{select} WHERE {_is_among(some, columns)}" for some in some_keys),
    ]


def _in_ranges(select: str, column: str, share: Sequence[tuple[int, int]]) -> str:
    """A query that reads each range by the index."""
    if len(share) == 1:
        return f"{select} WHERE {between(column, share[0])}"
    lows, highs = (",".join(map(str, ends)) for ends in zip(*share, strict=True))
    ranges = f"unnest('{{{lows}}}'::int8[], '{{{highs}}}'::int8[]) AS {_RANGES}(low, high)"
    within = f"{select} WHERE {column} BETWEEN {_RANGES}.low AND {_RANGES}.high"
    return f"SELECT w.* FROM {ranges} CROSS JOIN LATERAL ({within}) AS w"  # noqa: S608


def between(column: str, limits: tuple[int, int]) -> str:
    """The condition for a range of ids, both ends inclusive."""
    low, high = limits
    return f"{column} = {low}" if low == high else f"{column} BETWEEN {low} AND {high}"


def _is_among(keys: Sequence[Any], columns: Sequence[TableColumn]) -> str:
    key = key_of(columns)
    values = json.dumps([list(each) if isinstance(each, tuple) else [each] for each in keys], ensure_ascii=False)
    of_table = ", ".join(quoted(column.name) for column in key)
    of_json = ", ".join(f"(k.value->>{at})::{column.postgres}" for at, column in enumerate(key))
    return f"({of_table}) IN (SELECT {of_json} FROM json_array_elements({literal(values)}::json) AS k)"  # noqa: S608


def predicates(rows: RowSelection, *, tasks: int) -> list[str]:
    """The conditions on the table for Spark's JDBC reader, one for each task."""
    column = quoted(rows.column)
    shares = split_ranges(merged(rows.ranges), tasks=tasks, most_ids=_MOST_IDS, most_ranges=_MOST_PREDICATES)
    return [" OR ".join(between(column, limits) for limits in share) for share in shares]


_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")


def address(connection: Mapping[str, Any]) -> str:
    """The URI for libpq of a job's connection (`type: postgres`)."""
    tls = "&".join(f"{name}={quote(str(connection[name]))}" for name in _TLS if connection.get(name))
    if connection.get("dsn"):
        dsn, mark, query = str(connection["dsn"]).partition("?")
        own = [each for each in query.split("&") if mark and each.partition("=")[0] not in connection]
        return "?".join(filter(None, (dsn, "&".join(filter(None, (*own, tls))))))
    who = quote(connection["user"], safe="") if connection.get("user") else ""
    if connection.get("password"):
        who += ":" + quote(connection["password"], safe="")
    port = f":{connection['port']}" if connection.get("port") else ""
    host, database = connection["host"], quote(connection.get("database") or "", safe="")
    host = quote(host, safe="") if host.startswith("/") else host
    return f"postgresql://{who}{'@' if who else ''}{host}{port}/{database}{'?' if tls else ''}{tls}"


def jdbc(uri: str) -> tuple[str, dict[str, str]]:
    """The URL and the properties for JDBC. User and password are not in the URL, because Spark shows it."""
    parts = urlsplit(uri)
    place = parts.netloc.rpartition("@")[2]
    url = f"jdbc:postgresql://{place}{parts.path}{'?' + parts.query if parts.query else ''}"
    properties = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    return url, {name: value for name, value in properties.items() if value}
