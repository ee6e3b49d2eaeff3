"""The statements of mode `updated_at`, as text (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from triggers.postgres.history.kept_rows import BASELINE
from triggers.postgres.sql import ANY_ROW, MOST_COUNTED, OLD_ROWS, SNAPSHOT, condition
from triggers.shared.postgres.sql import TableName, quoted

MOST_PLACES: Final = 20_000
"""How many waiting rows are listed at a time; they are then reported in parts."""


@dataclass(frozen=True, kw_only=True)
class RowsByUpdate:
    """The statements of mode `updated_at`.

    The first three also return their snapshot, in a single row without `xid` when they find nothing, and `files`, a number that
    changes when one of the relations `$1` is rewritten or emptied.
    """

    visible_xids: str
    """The xids at or above the snapshot's own xmin that wrote visible rows."""
    all_places: str
    """The places of the rows above the floor `$2`, with keys, sizes, parts of partition keys, and whether they are `deleted`. Rows older than xid `$3` (without it: than the snapshot)
    come first, in the order of their places, with 0 for their xid; of those only the rows behind the place `$4` `$5`."""
    new_places: str
    """The places of the rows above the floor `$2` that were written at or above xid `$3` by none of the xids `$4`: first those of
    xid `$5` behind the place `$6` `$7`, then the others in the order in which their transactions began."""
    rows: str
    """The rows at the places `$1` `$2` that are still those written by the xids `$3`: the number of the place, `keep`, and `row`."""
    by_key: str
    """The places and the writers of the rows whose keys are those of the JSON objects `$1`."""
    newest: str
    """The places and the writers of the rows with the newest times."""

    @classmethod
    def of(
        cls,
        table: TableName,
        column: str,
        *,
        key: str,
        key_columns: Sequence[str],
        where: str | None,
        row: str,
        size: str | None,
        deleted: str = "false",
        parts: str = "NULL::text[]",
        time_zone: str | None = None,
        fingerprint: str = "NULL::bytea",
    ) -> RowsByUpdate:
        name, xmin, place = table.sql, f"{table.sql}.xmin", f"({table.sql}.tableoid, {table.sql}.ctid)"
        version = f"{xmin}::text::int8 AS written_by, {name}.tableoid::int8 AS relation, {name}.ctid AS place"
        listed = f"{version}, {key} AS key, {fingerprint} AS fingerprint, {deleted} AS deleted, {parts} AS parts, ({size or 0})::int8 AS size FROM {name}"
        above = f"WHERE {name}.{quoted(column)} > {in_time_zone('$2::text', time_zone)}"
        ordered = f"{place[1:-1]} LIMIT {MOST_PLACES}"
        oldest = "age(coalesce($3::text::xid, pg_snapshot_xmin(s.snapshot)::xid))"
        rank = f"CASE WHEN age({xmin}) BETWEEN 1 AND {oldest} THEN age({xmin}) ELSE 2147483647 END"
        all_places = (
            f"SELECT CASE WHEN age({xmin}) BETWEEN 1 AND {oldest} THEN {xmin}::text::int8 ELSE 0 END AS xid, {listed} {above}"
            f" AND ({rank} = 2147483647 AND {place} <= ($4::int8::oid, $5::text::tid)) IS NOT TRUE"
            f" ORDER BY {rank} DESC, {ordered}"
        )
        rest = f"{xmin} = $5::text::xid"
        new_places = (
            "SELECT xid, written_by, relation, place, key, fingerprint, deleted, parts, size FROM ("  # noqa: S608
            f"SELECT {xmin}::text::int8 AS xid, age({xmin}) AS age, ({rest}) IS TRUE AS is_rest, {listed} {above}"
            f" AND age({xmin}) BETWEEN 1 AND age($3::text::xid) AND {xmin} NOT IN (SELECT unnest($4::text[]::xid[]))"
            f" AND ({rest} AND {place} <= ($6::int8::oid, $7::text::tid)) IS NOT TRUE"
            f" ORDER BY {name}.{quoted(column)}"  # along the index, whatever the planner assumes about a floor that it does not know
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
            by_key=f"SELECT {SNAPSHOT}, {listed} WHERE ({names}) IN (SELECT {names} FROM {given})",  # noqa: S608
            newest=f"SELECT {SNAPSHOT}, {listed} ORDER BY {name}.{quoted(column)} DESC LIMIT {BASELINE}",
        )


@dataclass(frozen=True, kw_only=True)
class NewsByUpdate:
    """The question whether a row above the floor was written at or above the xid (64 bits), which `RowsByUpdate.new_places` would list.

    While the server has assigned no xid since then, which PostgreSQL asks once for all rows, no row above the floor is read.
    """

    table: TableName
    column: str
    time_zone: str | None = None
    arguments: ClassVar[Sequence[type]] = (str, int)

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """Return an expression that is `number` if the answer is yes, else null."""
        cursor, xmin = f"{self.table.sql}.{quoted(self.column)}", f"{self.table.sql}.xmin"
        floor, xid = arguments
        oldest = f"age(({xid} % 4294967296)::text::xid)"
        above = f"{cursor} > {in_time_zone(floor, self.time_zone)}"
        new = f"{oldest} > 0 AND {above} AND age({xmin}) BETWEEN 1 AND {oldest}"
        return ANY_ROW.format(number=number, table=self.table.sql, condition=new, order=cursor)


def in_time_zone(moment: str, time_zone: str | None) -> str:
    """Return an expression for a moment (a text) in the type of the watched column: with `time_zone` that zone's local time.

    The moment is converted and not the column, so that the column's index serves.
    """
    return f"{moment}::timestamptz" if time_zone is None else f"({moment}::timestamptz AT TIME ZONE '{time_zone}')"


def old_rows_by_update(table: TableName, column: str, bounds: str, time_zone: str | None = None) -> str:
    """Return a statement that counts the old rows of the partition `$1`.

    A row is new if it is above the floor `$2` and was written at or above xid `$3`, by none of the xids `$4`.
    """
    cursor, xmin = f"{table.sql}.{quoted(column)}", f"{table.sql}.xmin"
    new = f"{cursor} > {in_time_zone('$2::text', time_zone)} AND age({xmin}) BETWEEN 1 AND age($3::text::xid)"
    old = f"(({new}) IS NOT TRUE OR {xmin} IN (SELECT unnest($4::text[]::xid[])))"
    written = cursor if time_zone is None else f"({cursor} AT TIME ZONE '{time_zone}')"
    moment = f"to_char({written} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    return OLD_ROWS.format(place=moment, table=table.sql, bounds=bounds, old=old, most=MOST_COUNTED)


_IN_SNAPSHOT: Final = """
WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
SELECT pg_snapshot_xmin(s.snapshot)::text::int8 AS snapshot_xmin, pg_snapshot_xmax(s.snapshot)::text::int8 AS snapshot_xmax,
       (SELECT hashtextextended(string_agg(c.oid::int8 || ':' || c.relfilenode::int8, ' ' ORDER BY c.oid), 0)
        FROM pg_class c WHERE c.oid = ANY($1::oid[])) AS files, r.*
FROM s LEFT JOIN LATERAL ({rows}) r ON true
"""
