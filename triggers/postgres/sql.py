"""Every statement that reaches a watched PostgreSQL, each once. All of them only read, and need SELECT on the table only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import ClassVar, Final, Protocol

from triggers.postgres.values import ValueType

NEWEST_IDS: Final = 100_000
"""How far back from the highest id `start: now` looks for ids that are still to come."""

MOST_PLACES: Final = 20_000
"""Of rows that wait in mode `updated_at`: so many are looked up at a time, and then told in parts."""

NOTIFY_CHANNEL: Final = "asset_watcher"
"""A notification's payload is the oid of the table that was written to."""

SERVER: Final = """
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline, pg_postmaster_start_time()::text AS boot
"""
"""Which server, which history and which life of it a connection leads to; fails on a standby."""

SET_LIMITS: Final = """
SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false), set_config('plan_cache_mode', $3, false)
"""
"""In milliseconds."""

ALIVE: Final = """
SELECT pg_postmaster_start_time()::text AS boot,
       to_char((statement_timestamp() - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment,
       ARRAY(SELECT ROW(virtualtransaction, pid) FROM pg_locks
             WHERE locktype = 'virtualxid' AND virtualxid = virtualtransaction AND pid <> pg_backend_pid()
               AND pid IN (SELECT a.pid FROM pg_stat_get_activity(NULL) a
                           WHERE a.datid = (SELECT oid FROM pg_database WHERE datname = current_database()))
                OR locktype = 'transactionid' AND pid IS NULL) AS alive,
       (SELECT ROW(to_char((query_start - interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pid)
        FROM pg_stat_get_activity(NULL) WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'active'
            AND coalesce(xact_start <= query_start, query_start IS NOT NULL) ORDER BY query_start LIMIT 1) AS earliest
"""
"""Which transactions of this database are alive; a prepared one has no process and no lock on its virtual transaction. The
`earliest` text of statements that may begin a further one, at the time when it came; in a procedure now() is a later time."""

MOST_COUNTED: Final = 100_000
"""Rows of a partition that was attached."""

MOST_AHEAD: Final = 10_000
"""Ids given by hand above those that the sequence has handed out, or ranges of them, that are kept in mind."""


def quoted(identifier: str) -> str:
    """The identifier as SQL, whatever characters it holds."""
    if not identifier or "\0" in identifier:
        raise ValueError("an SQL name is not empty and holds no NUL")
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Names exactly as the catalogue has them: case and blanks count."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Table:
        """`schema.table`; without a schema it is `public`. What follows the first dot is the table."""
        schema, dot, name = text.partition(".")
        table = cls(schema=schema, name=name) if dot else cls(schema="public", name=text)
        quoted(table.schema), quoted(table.name)
        return table

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def row_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """An expression that is one row's `columns` as JSON text, null when none are wanted.

    PostgreSQL's own rules of to_json hold (timestamps are ISO 8601 strings, bytea is a hexadecimal string, so is NaN a
    string), but for numeric, which becomes a string too: JSON readers would round it.
    """
    if not columns:
        return "NULL::text"
    items = ", ".join(f"{_exact(name, types)} AS {quoted(name)}" for name in columns)
    return f"(SELECT row_to_json(item)::text FROM (SELECT {items}) item)"  # noqa: S608  # names are quoted


def primary_key_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """A key's value as JSON text, a list of values when it has several columns."""
    values = ", ".join(_exact(name, types) for name in columns)
    return f"to_json({values})::text" if len(columns) == 1 else f"json_build_array({values})::text"


def _exact(name: str, types: Mapping[str, ValueType]) -> str:
    return quoted(name) + (types[name].cast if name in types else "")


def condition(where: str | None) -> str:
    """A user's condition as an expression; the line breaks end a comment in it."""
    return f"(\n{where}\n)" if where else "true"


def trial_of_condition(table: Table, where: str) -> str:
    """A statement that is valid if `where` is a condition on one row: no aggregate, no set, nothing but a boolean."""
    return f"SELECT FROM {table.sql} WHERE {condition(where)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A sequence, by which an id that it handed out is told from one that was given by hand."""

    sequence: str
    """As SQL."""
    increment: int

    @property
    def last(self) -> str:
        """The id handed out last, as a query. Read in a statement it is at least as high as any in the statement's snapshot."""
        last = f"last_value - CASE WHEN is_called THEN 0 ELSE {self.increment} END"
        return f"SELECT {last} AS last FROM {self.sequence}"  # noqa: S608  the catalogue's

    @property
    def known(self) -> str:
        return f"drawn AS MATERIALIZED ({self.last})"


SET_BACK: Final = -1
"""The `note` of a row that is none: its `id` is the last that the sequence has handed out."""
AHEAD: Final = -2
"""The `note` of a row whose id the sequence has not handed out."""
_MOST_TEXTS: Final = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsById:
    """Statement B of mode `id`: the id first, then `keep` if there is a `where`, `row` as JSON text if columns are wanted, `note`.

    `where` never filters: it tells by `keep` which rows are wanted; `row` is null for the others. `note` is null for a row whose
    id was handed out, else `SET_BACK` or `AHEAD`. Only the texts in use are kept: thousands of tables are at rest.
    """

    table: Table
    column: str
    where: str | None
    row: str | None
    """An expression."""
    drawn: Drawn | None = None
    free: bool = False
    """Some ids that were not handed out have been told: only those within ranges are read."""

    @property
    def fresh(self) -> str:
        """Rows above `$1`, the lowest `$2` of them; `free`: those not handed out only within the ranges `$3` to `$4`, as many again."""
        return _fresh(self)

    @property
    def fresh_and_late(self) -> str:
        """In the same snapshot also those in the gaps, whose limits and how many rows of each are the last three arguments."""
        return _fresh_and_late(self)

    @property
    def newest(self) -> str:
        """Highest and lowest id, number of ids and holes among the newest `NEWEST_IDS` handed out, and the others, in one snapshot."""
        ids, order = f"SELECT {self.cursor}::int8 AS id FROM {self.table.sql}", f"ORDER BY {self.cursor}"  # noqa: S608
        newest = f"DESC LIMIT {NEWEST_IDS}"
        if self.drawn is None:
            return _NEWEST.format(newest=f"{ids} {order} {newest}", ahead="NULL::int8[]")
        last = "(SELECT last FROM drawn)"
        ahead = f"ARRAY({ids} WHERE {self.cursor} > {last} {order} LIMIT {MOST_AHEAD + 1})"
        pairs = _NEWEST.format(newest=f"{ids} WHERE {self.cursor} <= {last} {order} {newest}", ahead=ahead)
        return f"WITH {self.drawn.known} {pairs}"

    @property
    def cursor(self) -> str:
        """The column, qualified: never taken for a result's name."""
        return f"{self.table.sql}.{quoted(self.column)}"

    def rows(self, among: str, limit: str = "$2", note: str = "NULL::int") -> str:
        """Those for which `among` holds, the lowest first."""
        keep = f", {condition(self.where)} IS TRUE AS keep" if self.where else ""
        kept = f", CASE WHEN {condition(self.where)} THEN {self.row} END AS row" if self.row else ""
        select = f"SELECT {self.cursor}::int8 AS id{keep}{kept}, {note} AS note FROM {self.table.sql}"  # noqa: S608
        return f"{select} WHERE {among} ORDER BY {self.cursor} LIMIT {limit}::int8"


@lru_cache(maxsize=_MOST_TEXTS)
def _fresh(of: RowsById) -> str:
    if of.drawn is None:
        return f"({of.rows(f'{of.cursor} > $1::int8')})"
    return f"WITH {of.drawn.known} " + " UNION ALL ".join(f"({part})" for part in _parts(of))


@lru_cache(maxsize=_MOST_TEXTS)
def _fresh_and_late(of: RowsById) -> str:
    place = 5 if of.free else 3
    in_gap = of.rows(f"{of.cursor} >= gap.low AND {of.cursor} <= gap.high", f"${place + 2}")
    late = _WITHIN.format(name="gap", low=place, high=place + 1, rows=in_gap)
    return f"{of.fresh} UNION ALL ({late})"


def _parts(of: RowsById) -> list[str]:
    """What was handed out, what was not, and whether the sequence was set back."""
    cursor, last = of.cursor, "(SELECT last FROM drawn)"
    nothing = ("NULL AS keep, " if of.where else "") + ("NULL AS row, " if of.row else "")
    set_back = f"SELECT last AS id, {nothing}{SET_BACK} AS note FROM drawn WHERE last < $1::int8"  # noqa: S608
    if not of.free:
        return [set_back, of.rows(f"{cursor} > $1::int8", note=f"CASE WHEN {cursor} > {last} THEN {AHEAD} END")]
    ahead = of.rows(f"{cursor} > {last} AND {cursor} >= free.low AND {cursor} <= free.high", note=str(AHEAD))
    within = _WITHIN.format(name="free", low=3, high=4, rows=ahead)
    return [set_back, of.rows(f"{cursor} > $1::int8 AND {cursor} <= {last}"), f"{within} LIMIT $2::int8"]


_WITHIN: Final = "SELECT {name}s.* FROM unnest(${low}::int8[], ${high}::int8[]) AS {name}(low, high) CROSS JOIN LATERAL ({rows}) {name}s"


@dataclass(frozen=True, kw_only=True)
class RowsByUpdate:
    """The statements of mode `updated_at`. All but `rows` carry their snapshot: one row without `xid` when there is none.

    `files` is another number once one of the relations `$1` is rewritten or emptied.
    """

    visible_xids: str
    """The xids at or above the snapshot's own xmin that wrote visible rows."""
    all_places: str
    """Where the rows above the floor `$2` are, behind the place `$4` `$5` among those that are older than xid `$3` (or else than
    the snapshot): these come first, in the order of their places, and have no xid but 0. With keys, and sizes."""
    new_places: str
    """The same for what was written at or above xid `$3`, by none of the xids `$4`: first those of xid `$5`, behind the place
    `$6` `$7`, then as their transactions began."""
    rows: str
    """What stands at the places `$1` `$2` if it was written by the xids `$3`: the number of the place, `keep`, and `row`."""
    by_key: str
    """Where the rows are whose keys are those of the JSON objects `$1`, and who wrote them."""

    @classmethod
    def of(
        cls,
        table: Table,
        column: str,
        *,
        key: str,
        key_columns: Sequence[str],
        where: str | None,
        row: str,
        size: str | None,
    ) -> RowsByUpdate:
        name, xmin, place = table.sql, f"{table.sql}.xmin", f"({table.sql}.tableoid, {table.sql}.ctid)"
        found = f"{xmin}::text::int8 AS written_by, {name}.tableoid::int8 AS relation, {name}.ctid AS place"
        seen = f"{found}, {key} AS key, ({size or 0})::int8 AS size FROM {name}"
        above = f"WHERE {name}.{quoted(column)} > $2::text::timestamptz"
        ordered = f"{place[1:-1]} LIMIT {MOST_PLACES}"
        oldest = "age(coalesce($3::text::xid, pg_snapshot_xmin(s.snapshot)::xid))"
        rank = f"CASE WHEN age({xmin}) BETWEEN 1 AND {oldest} THEN age({xmin}) ELSE 2147483647 END"
        all_places = (
            f"SELECT CASE WHEN age({xmin}) BETWEEN 1 AND {oldest} THEN {xmin}::text::int8 ELSE 0 END AS xid, {seen} {above}"
            f" AND ({rank} = 2147483647 AND {place} <= ($4::int8::oid, $5::text::tid)) IS NOT TRUE"
            f" ORDER BY {rank} DESC, {ordered}"
        )
        rest = f"{xmin} = $5::text::xid"
        new_places = (
            "SELECT xid, written_by, relation, place, key, size FROM ("  # noqa: S608
            f"SELECT {xmin}::text::int8 AS xid, age({xmin}) AS age, ({rest}) IS TRUE AS is_rest, {seen} {above}"
            f" AND age({xmin}) BETWEEN 1 AND age($3::text::xid) AND {xmin} NOT IN (SELECT unnest($4::text[]::xid[]))"
            f" AND ({rest} AND {place} <= ($6::int8::oid, $7::text::tid)) IS NOT TRUE"
            f" ORDER BY {name}.{quoted(column)}"  # along the index, whatever the planner thinks of a floor that it does not know
            f") new ORDER BY is_rest DESC, age DESC, relation, place LIMIT {MOST_PLACES}"
        )
        xids = f"SELECT DISTINCT {xmin}::text::int8 AS xid FROM {name}"  # noqa: S608
        visible = f"{xids} WHERE age({xmin}) BETWEEN 1 AND age(pg_snapshot_xmin(s.snapshot)::xid)"
        keep = f"{condition(where)} IS TRUE"
        names, given = ", ".join(map(quoted, key_columns)), f"json_populate_recordset(NULL::{name}, $1::text::json)"
        rows = (
            f"SELECT wanted.number, {keep} AS keep, CASE WHEN {condition(where)} THEN {row} END AS row"  # noqa: S608
            " FROM unnest($1::int8[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted(relation, place, xid, number)"
            f" JOIN {name} ON {name}.ctid = wanted.place::tid AND {name}.tableoid = wanted.relation::oid"
            f" AND {xmin} = wanted.xid::xid"
        )
        return cls(
            visible_xids=_IN_SNAPSHOT.format(rows=visible),
            all_places=_IN_SNAPSHOT.format(rows=all_places),
            new_places=_IN_SNAPSHOT.format(rows=new_places),
            rows=rows,
            by_key=f"SELECT {seen} WHERE ({names}) IN (SELECT {names} FROM {given})",  # noqa: S608
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NewsById:
    """Whether a table has an id above the argument, what `RowsById.fresh` would read, or its sequence stands below."""

    table: Table
    column: str
    drawn: Drawn | None = None
    arguments: ClassVar[Sequence[type]] = (int,)

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """`number` if so, else null."""
        cursor, [highest] = f"{self.table.sql}.{quoted(self.column)}", arguments
        news = _ANY_ROW.format(number=number, table=self.table.sql, condition=f"{cursor} > {highest}", order=cursor)
        if self.drawn is None:
            return news
        return f"coalesce({news}, (SELECT {number} FROM ({self.drawn.last}) drawn WHERE last < {highest}))"  # noqa: S608


@dataclass(frozen=True, kw_only=True)
class NewsByUpdate:
    """Whether a row above the floor was written at or above the xid, of 64 bits: what `RowsByUpdate.new_places` would show."""

    table: Table
    column: str
    arguments: ClassVar[Sequence[type]] = (str, int)

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """`number` if so, else null."""
        cursor, xmin = f"{self.table.sql}.{quoted(self.column)}", f"{self.table.sql}.xmin"
        floor, xid = arguments
        oldest = f"age(({xid} % 4294967296)::text::xid)"
        new = f"{cursor} > {floor}::timestamptz AND age({xmin}) BETWEEN 1 AND {oldest}"
        return _ANY_ROW.format(number=number, table=self.table.sql, condition=new, order=cursor)


_OLD_ROWS: Final = """
SELECT count(*) AS rows, min(place) AS lowest, max(place) AS highest
FROM (SELECT {place} AS place FROM {table} WHERE {table}.tableoid = $1::oid AND ({bounds}) AND {old} LIMIT {most}) old
"""


def old_rows_by_id(table: Table, column: str, bounds: str) -> str:
    """Those of the partition `$1` with ids up to `$2`, outside the ranges `$3` to `$4`."""
    cursor = f"{table.sql}.{quoted(column)}"
    gaps = f"SELECT FROM unnest($3::int8[], $4::int8[]) AS gap(low, high) WHERE {cursor} BETWEEN gap.low AND gap.high"
    old = f"{cursor} <= $2::int8 AND NOT EXISTS ({gaps}) ORDER BY {cursor}"
    return _OLD_ROWS.format(place=f"{cursor}::int8", table=table.sql, bounds=bounds, old=old, most=MOST_COUNTED)


def old_rows_by_update(table: Table, column: str, bounds: str) -> str:
    """Those of the partition `$1` that are not above the floor `$2` and written at or above xid `$3`, or by the xids `$4`."""
    cursor, xmin = f"{table.sql}.{quoted(column)}", f"{table.sql}.xmin"
    new = f"{cursor} > $2::text::timestamptz AND age({xmin}) BETWEEN 1 AND age($3::text::xid)"
    old = f"(({new}) IS NOT TRUE OR {xmin} IN (SELECT unnest($4::text[]::xid[])))"
    moment = f"to_char({cursor} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    return _OLD_ROWS.format(place=moment, table=table.sql, bounds=bounds, old=old, most=MOST_COUNTED)


class Question(Protocol):
    """About one table; equal questions are asked once. `arguments` are the types of those that it takes."""

    @property
    def arguments(self) -> Sequence[type]: ...

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """An expression that is `number` when there are news, else null; `arguments` are expressions of type int8 or text."""


def news_of(questions: Sequence[Question]) -> str:
    """A statement that gives as `news` the numbers of those questions that have any; `$1` are their numbers, `$2` their texts."""
    numbers, texts = count(1), count(1)
    parts = [
        question.part(
            number,
            [f"$1[{next(numbers)}]" if kind is int else f"$2[{next(texts)}]" for kind in question.arguments],
        )
        for number, question in enumerate(questions)
    ]
    types = "(SELECT $1::int8[], $2::text[]) types"  # of the arguments, also where no part has any of one type
    return f"SELECT array_remove(ARRAY[{', '.join(parts)}]::int4[], NULL) AS news FROM {types}"  # noqa: S608


_ANY_ROW: Final = "(SELECT {number} FROM {table} WHERE {condition} ORDER BY {order} LIMIT 1)"
"""The order keeps the planner on the index: for an EXISTS it would read the table until the first row that matches."""

_IN_SNAPSHOT: Final = """
WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
SELECT pg_snapshot_xmin(s.snapshot)::text::int8 AS snapshot_xmin, pg_snapshot_xmax(s.snapshot)::text::int8 AS snapshot_xmax,
       (SELECT hashtextextended(string_agg(c.oid::int8 || ':' || c.relfilenode::int8, ' ' ORDER BY c.oid), 0)
        FROM pg_class c WHERE c.oid = ANY($1::oid[])) AS files, r.*
FROM s LEFT JOIN LATERAL ({rows}) r ON true
"""

_NEWEST: Final = """
SELECT max(id) AS highest, min(id) AS lowest, count(*) AS ids,
       array_agg(ARRAY[below + 1, id - 1] ORDER BY id) FILTER (WHERE id - below > 1) AS holes, {ahead} AS ahead
FROM (SELECT id, lead(id) OVER (ORDER BY id DESC) AS below FROM ({newest}) newest) pairs
"""
