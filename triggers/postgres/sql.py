"""Every statement that reaches a watched PostgreSQL, each once. All of them only read, and need SELECT on the table only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from triggers.postgres.values import ValueType

NEWEST_IDS: Final = 100_000
"""How far back from the highest id `start: now` looks for ids that are still to come."""

MOST_PLACES: Final = 20_000
"""Of rows that wait in mode `updated_at`: so many are looked up at a time, and then told in parts."""

NOTIFY_CHANNEL: Final = "asset_watcher"
"""A notification's payload is the oid of the table that was written to."""

SERVER: Final = """
SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline,
       pg_postmaster_start_time()::text AS boot
"""
"""Which server, which history and which life of it a connection leads to; fails on a standby."""

LOCKS: Final = """
SELECT pg_postmaster_start_time()::text AS boot,
       to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at,
       ARRAY(SELECT ROW(relation::int8, virtualtransaction, pid) FROM pg_locks
             WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND relation = ANY($1::oid[])) AS locks
"""
"""Who writes to the relations `$1` now; pid is null for a prepared transaction."""

ALIVE: Final = """
SELECT pg_postmaster_start_time()::text AS boot,
       to_char((statement_timestamp() - interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS moment,
       ARRAY(SELECT ROW(virtualtransaction, pid) FROM pg_locks
             WHERE locktype = 'virtualxid' AND virtualxid = virtualtransaction AND pid <> pg_backend_pid()
               AND pid IN (SELECT a.pid FROM pg_stat_activity a WHERE a.datname = current_database())
                OR locktype = 'transactionid' AND pid IS NULL) AS alive
"""
"""Which transactions of this database are alive; a prepared one has no process and no lock on its virtual transaction."""

HOLDER: Final = """
SELECT a.usename AS "user", a.application_name AS application, a.state, left(a.query, 200) AS query,
       coalesce(a.xact_start, p.prepared)::text AS started, p.gid AS prepared_as
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid' AND x.pid IS NULL
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.virtualtransaction = $1 LIMIT 1
"""
"""What may be known about one virtual transaction; what belongs to other users is null without pg_read_all_stats."""

_MARK: Final = """
CROSS JOIN LATERAL (
    SELECT hashtextextended(string_agg(part, ' ' ORDER BY part), 0) AS mark FROM (
        SELECT concat_ws(' ', 'c', c.oid, c.xmin, n.nspname) AS part
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (r.oids)
        UNION ALL SELECT concat_ws(' ', 'a', attrelid, attnum, xmin) FROM pg_attribute WHERE attrelid = ANY (r.oids) AND attnum > 0
        UNION ALL SELECT concat_ws(' ', 'i', indexrelid, xmin) FROM pg_index WHERE indrelid = ANY (r.oids)
        UNION ALL SELECT concat_ws(' ', 's', seqrelid, xmin) FROM pg_sequence WHERE seqrelid = ANY (r.oids)
        UNION ALL SELECT concat_ws(' ', 'p', inhparent, inhrelid) FROM pg_inherits WHERE inhparent = ANY (r.oids)) parts) m
"""
"""A number that is another once somebody has altered one of the relations `r.oids`: each of these rows has a new version then."""

FACTS: Final = """
WITH RECURSIVE
watched AS (SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2),
tree(oid) AS (SELECT oid FROM watched UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.oid),
cursors AS (SELECT a.attrelid, a.attnum, a.attidentity, d.oid AS default_oid, pg_get_expr(d.adbin, d.adrelid) AS default_expression
            FROM tree JOIN pg_attribute a ON a.attrelid = tree.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum),
sequences AS (SELECT DISTINCT s.* FROM cursors k
              JOIN pg_depend d ON (d.refclassid, d.refobjid, d.refobjsubid, d.classid)
                                = ('pg_class'::regclass, k.attrelid, k.attnum::int, 'pg_class'::regclass)
              JOIN pg_sequence s ON s.seqrelid = d.objid
              UNION
              SELECT s.* FROM cursors k
              JOIN pg_depend d ON (d.classid, d.objid, d.refclassid) = ('pg_attrdef'::regclass, k.default_oid, 'pg_class'::regclass)
              JOIN pg_sequence s ON s.seqrelid = d.refobjid),
indexes AS (SELECT i.*, (i.indkey::int2[])[0] = k.attnum AS leads, i.indnkeyatts = 1 AS alone,
                   k.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AS includes
            FROM pg_index i JOIN cursors k ON k.attrelid = i.indrelid JOIN watched ON watched.oid = i.indrelid
            JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
            WHERE m.amname = 'btree' AND i.indisvalid AND i.indpred IS NULL)
SELECT w.oid::int8 AS table_oid, (SELECT oid::int8 FROM pg_database WHERE datname = current_database()) AS database_oid,
       current_setting('server_version_num')::int AS server_version, session_user AS role,
       least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                 - coalesce(current_setting('reserved_connections', true)::int, 0),
             (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
             (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)) AS most_sessions,
       w.relkind::text AS kind, w.relpersistence::text AS persistence, a.attnotnull AS not_null, a.atttypid::regtype::text AS type,
       ARRAY(SELECT oid::int8 FROM tree) AS relations,
       (SELECT count(*) FROM tree) - 1 AS children,
       EXISTS (SELECT FROM indexes WHERE leads) AS has_index,
       EXISTS (SELECT FROM indexes WHERE indisunique AND alone AND leads) AS is_unique,
       EXISTS (SELECT FROM indexes WHERE indisunique AND includes) AS is_unique_per_partition,
       ARRAY(SELECT coalesce(default_expression, '') FROM cursors WHERE attidentity = '' AND (default_oid IS NOT NULL OR attrelid = w.oid)) AS defaults,
       EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid IN (SELECT oid FROM tree)) AS subscribed,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = w.oid AND NOT tgisinternal AND tgenabled <> 'D'
               AND tgtype & 2 = 2 AND tgtype & 16 = 16) AS has_update_trigger,
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = w.oid AND starts_with(tgname::text, 'asset_watcher_') AND tgenabled <> 'D') AS notifies,
       ARRAY(SELECT json_build_object('name', seqrelid::regclass::text, 'oid', seqrelid::int8, 'cache', seqcache,
             'increment', seqincrement, 'cycle', seqcycle, 'minimum', seqmin)::text FROM sequences ORDER BY seqrelid) AS sequences,
       ARRAY(SELECT k.attname::text FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY u(attnum, place)
             JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = u.attnum
             WHERE i.indrelid = w.oid AND i.indisprimary AND u.place <= i.indnkeyatts ORDER BY u.place) AS primary_key,
       (SELECT json_object_agg(attname, atttypid::regtype)::text FROM pg_attribute
        WHERE attrelid = w.oid AND attnum > 0 AND NOT attisdropped) AS columns,
       (SELECT mark FROM (SELECT ARRAY(SELECT oid FROM tree UNION SELECT seqrelid FROM sequences) AS oids) r {mark}) AS mark
FROM watched w LEFT JOIN pg_attribute a ON a.attrelid = w.oid AND a.attname = $3 AND a.attnum > 0 AND NOT a.attisdropped
""".replace("{mark}", _MARK)
"""What the catalogue knows about table `$1.$2` and its column `$3`: no row when there is no such table."""

TYPES: Final = """
WITH RECURSIVE used(oid) AS (
    SELECT reltype FROM pg_class WHERE oid = $1::oid
    UNION
    SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A' AND t.typelem <> 0
        UNION ALL SELECT atttypid FROM pg_attribute
                  WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) part(oid))
SELECT t.oid::int8 AS oid, t.oid = (SELECT reltype FROM pg_class WHERE oid = $1::oid) AS is_row,
       CASE WHEN t.typtype = 'd' THEN t.typbasetype::int8 END AS base,
       CASE WHEN t.typtype = 'b' AND t.typcategory = 'A' THEN nullif(t.typelem::int8, 0) END AS element,
       (SELECT json_object_agg(attname, atttypid::int8 ORDER BY attnum)::text FROM pg_attribute
        WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) AS fields
FROM used JOIN pg_type t ON t.oid = used.oid
"""
"""The type of the rows of table `$1`, and all types that its values are made of."""

MARKS: Final = """
SELECT r.number, mark
FROM (SELECT number, array_agg(oid) AS oids FROM unnest($1::int4[], $2::oid[]) u(number, oid) GROUP BY number) r {mark}
""".replace("{mark}", _MARK)
"""The mark of each numbered set of relations, of which `$2` holds the oids and `$1` to which set each belongs."""


def quoted(identifier: str) -> str:
    """The identifier as SQL, whatever characters it holds."""
    if not identifier or "\0" in identifier:
        raise ValueError("an SQL name is not empty and holds no NUL")
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class RowsById:
    """Statement B of mode `id`: the id first, then `keep` if there is a `where`, and `row` as JSON text if columns are wanted.

    `where` never filters: it tells by `keep` which rows are wanted; `row` is null for the others.
    """

    fresh: str
    """Rows above `$1`, the lowest `$2` of them."""
    fresh_and_late: str
    """In the same snapshot also those in the gaps `$3` to `$4`, the lowest `$5` of each."""
    newest: str
    """Highest and lowest id, number of ids and holes among the newest `NEWEST_IDS`, in one snapshot."""

    @classmethod
    def of(cls, table: Table, column: str, *, where: str | None, row: str | None) -> RowsById:
        name, cursor = table.sql, f"{table.sql}.{quoted(column)}"  # qualified: never taken for a result's name
        keep = f", {condition(where)} IS TRUE AS keep" if where else ""
        kept = f", CASE WHEN {condition(where)} THEN {row} END AS row" if row else ""
        select = f"SELECT {cursor}::int8 AS id{keep}{kept} FROM {name}"  # noqa: S608
        fresh = f"{select} WHERE {cursor} > $1::int8 ORDER BY {cursor} LIMIT $2::int8"
        late = f"{select} WHERE {cursor} >= gap.low AND {cursor} <= gap.high ORDER BY {cursor} LIMIT $5::int8"
        newest = f"SELECT {cursor}::int8 AS id FROM {name} ORDER BY {cursor} DESC LIMIT {NEWEST_IDS}"  # noqa: S608
        return cls(
            fresh=fresh,
            fresh_and_late=_FRESH_AND_LATE.format(fresh=fresh, late=late),
            newest=_NEWEST.format(newest=newest),
        )


@dataclass(frozen=True, kw_only=True)
class RowsByUpdate:
    """The statements of mode `updated_at`. All but `rows` carry their snapshot: one row without `xid` when there is none.

    `files` changes when the table is rewritten, for `$1` the table and its partitions.
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

    @classmethod
    def of(cls, table: Table, column: str, *, key: str, where: str | None, row: str, size: str | None) -> RowsByUpdate:
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
            f"SELECT {xmin}::text::int8 AS xid, {seen} {above}"
            f" AND age({xmin}) BETWEEN 1 AND age($3::text::xid) AND {xmin} <> ALL ($4::text[]::xid[])"
            f" AND ({rest} AND {place} <= ($6::int8::oid, $7::text::tid)) IS NOT TRUE"
            f" ORDER BY ({rest}) IS TRUE DESC, age({xmin}) DESC, {ordered}"
        )
        xids = f"SELECT DISTINCT {xmin}::text::int8 AS xid FROM {name}"  # noqa: S608
        visible = f"{xids} WHERE age({xmin}) BETWEEN 1 AND age(pg_snapshot_xmin(s.snapshot)::xid)"
        keep = f"{condition(where)} IS TRUE"
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
        )


@dataclass(frozen=True, kw_only=True)
class NewsById:
    """Whether a table has an id above the argument: what `RowsById.fresh` would read."""

    table: Table
    column: str
    arguments: ClassVar[int] = 1

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """`number` if so, else null."""
        cursor = f"{self.table.sql}.{quoted(self.column)}"
        above = f"{cursor} > {arguments[0]}::int8"
        return _ANY_ROW.format(number=number, table=self.table.sql, condition=above, order=cursor)


@dataclass(frozen=True, kw_only=True)
class NewsByUpdate:
    """Whether a row above the floor was written at or above the xid, of 64 bits: what `RowsByUpdate.new_places` would show."""

    table: Table
    column: str
    arguments: ClassVar[int] = 2

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """`number` if so, else null."""
        cursor, xmin = f"{self.table.sql}.{quoted(self.column)}", f"{self.table.sql}.xmin"
        floor, xid = arguments
        oldest = f"age(({xid}::int8 % 4294967296)::text::xid)"
        new = f"{cursor} > {floor}::timestamptz AND age({xmin}) BETWEEN 1 AND {oldest}"
        return _ANY_ROW.format(number=number, table=self.table.sql, condition=new, order=cursor)


def news_of(parts: Sequence[str]) -> str:
    """A statement that gives as `news` the numbers of those parts that are not null; their arguments are `$1`, a text array."""
    return f"SELECT array_remove(ARRAY[{', '.join(parts)}]::int4[], NULL) AS news"


_ANY_ROW: Final = "(SELECT {number} FROM {table} WHERE {condition} ORDER BY {order} LIMIT 1)"
"""The order keeps the planner on the index: for an EXISTS it would read the table until the first row that matches."""

_IN_SNAPSHOT: Final = """
WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
SELECT pg_snapshot_xmin(s.snapshot)::text::int8 AS snapshot_xmin, pg_snapshot_xmax(s.snapshot)::text::int8 AS snapshot_xmax,
       (SELECT hashtextextended(string_agg(c.oid::int8 || ':' || c.relfilenode::int8, ' ' ORDER BY c.oid), 0)
        FROM pg_class c WHERE c.oid = ANY($1::oid[])) AS files, r.*
FROM s LEFT JOIN LATERAL ({rows}) r ON true
"""

_FRESH_AND_LATE: Final = """
({fresh})
UNION ALL
SELECT late.* FROM unnest($3::int8[], $4::int8[]) AS gap(low, high) CROSS JOIN LATERAL ({late}) late
"""

_NEWEST: Final = """
SELECT max(id) AS highest, min(id) AS lowest, count(*) AS ids,
       array_agg(ARRAY[below + 1, id - 1] ORDER BY id) FILTER (WHERE id - below > 1) AS holes
FROM (SELECT id, lead(id) OVER (ORDER BY id DESC) AS below FROM ({newest}) newest) pairs
"""
