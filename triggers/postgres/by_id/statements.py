"""The statements of mode `id`, as text (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from triggers.postgres.catalog.sequences import DrawnIds
from triggers.postgres.history.kept_rows import Witness, WitnessKind
from triggers.postgres.sql import ANY_ROW, MOST_COUNTED, OLD_ROWS, condition
from triggers.shared.postgres.sql import TableName, quoted

NEWEST_IDS: Final = 100_000
"""How far back from the highest id `start: now` looks for ids that may still be inserted."""

MOST_AHEAD: Final = 10_000
"""How many ranges of ids given by hand, above those that the sequence has handed out, a position remembers."""


SET_BACK: Final = -1
"""The `note` of a result that is no row of the table: its `id` is the last that the sequence has handed out."""
AHEAD: Final = -2
"""The `note` of a row whose id the sequence has not handed out."""
_MOST_TEXTS: Final = 250
"""How many generated statements are cached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsById:
    """The statements that read rows in mode `id`.

    Their columns are the id, then `keep` if there is a `where`, then `row` as JSON text if columns are configured, then those
    of `further`, then `note`.
    `where` never filters: `keep` says which rows meet it, and `row` is null for the others. `note` is null for a row whose id
    was handed out, else `SET_BACK` or `AHEAD`. Only the texts in use are cached: thousands of tables may be idle.
    """

    table: TableName
    column: str
    where: str | None
    row: str | None
    """An expression for the row as JSON text."""
    parts: str | None = None
    """An expression for the values of the parts of a row's partition key; None: keys have none."""
    witness: Witness | None = None
    """What is read of each row so that it is recognized later; None: nothing."""
    drawn: DrawnIds | None = None
    free: bool = False
    """Whether ids that were not handed out are read within given ranges only, because some of them were reported before."""

    @property
    def fresh(self) -> str:
        """The lowest `$2` rows above `$1`. With `free`, ids not handed out are read within the ranges `$3` to `$4` only, `$2` of them too."""
        return _fresh(self)

    @property
    def fresh_and_late(self) -> str:
        """The rows of `fresh` and the rows in the gaps, in one snapshot. The last three arguments are the gaps' lows, their highs, and a limit for each gap."""
        return _fresh_and_late(self)

    @property
    def newest(self) -> str:
        """The highest and the lowest id, the number of ids and the holes among the newest `NEWEST_IDS` that were handed out, and the ids that were not; all in one snapshot."""
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
        """The column with its table's name: so it is never taken for the name of a result column."""
        return f"{self.table.sql}.{quoted(self.column)}"

    @property
    def further(self) -> Mapping[str, str]:
        """The columns for the partition key, and those by which a row is recognized later."""
        parts = {} if self.parts is None else {"parts": self.parts}
        if self.witness is None:
            return parts
        columns = {**parts, "fingerprint": self.witness.fingerprint(f"{self.table.sql}.xmin")}
        if self.witness.kind is WitnessKind.ROW:  # an update leaves the time of the insert as it is
            columns["snapshot_xmin"] = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8)"
        return columns

    def rows(self, among: str, limit: str = "$2", note: str = "NULL::int") -> str:
        """Return a query for the rows that satisfy `among`, the lowest first."""
        keep = f", {condition(self.where)} IS TRUE AS keep" if self.where else ""
        kept = f", CASE WHEN {condition(self.where)} THEN {self.row} END AS row" if self.row else ""
        columns = "".join(f", {expression} AS {name}" for name, expression in self.further.items())
        select = f"SELECT {self.cursor}::int8 AS id{keep}{kept}{columns}, {note} AS note FROM {self.table.sql}"  # noqa: S608
        return f"{select} WHERE {among} ORDER BY {self.cursor} LIMIT {limit}::int8"


@lru_cache(maxsize=_MOST_TEXTS)
def _fresh(statement: RowsById) -> str:
    if statement.drawn is None:
        return f"({statement.rows(f'{statement.cursor} > $1::int8')})"
    return f"WITH {statement.drawn.known} " + " UNION ALL ".join(f"({part})" for part in _parts(statement))


@lru_cache(maxsize=_MOST_TEXTS)
def _fresh_and_late(statement: RowsById) -> str:
    place = 5 if statement.free else 3
    in_gap = statement.rows(f"{statement.cursor} >= gap.low AND {statement.cursor} <= gap.high", f"${place + 2}")
    late = _WITHIN.format(name="gap", low=place, high=place + 1, rows=in_gap)
    return f"{statement.fresh} UNION ALL ({late})"


def _parts(statement: RowsById) -> list[str]:
    """Return queries for the ids that were handed out, for those that were not, and for a sequence that was set back."""
    cursor, last = statement.cursor, "(SELECT last FROM drawn)"
    nothing = ("NULL AS keep, " if statement.where else "") + ("NULL AS row, " if statement.row else "")
    nothing += "".join(f"NULL AS {name}, " for name in statement.further)
    set_back = f"SELECT last AS id, {nothing}{SET_BACK} AS note FROM drawn WHERE last < $1::int8"  # noqa: S608
    if not statement.free:
        return [set_back, statement.rows(f"{cursor} > $1::int8", note=f"CASE WHEN {cursor} > {last} THEN {AHEAD} END")]
    ahead = statement.rows(f"{cursor} > {last} AND {cursor} >= free.low AND {cursor} <= free.high", note=str(AHEAD))
    within = _WITHIN.format(name="free", low=3, high=4, rows=ahead)
    return [set_back, statement.rows(f"{cursor} > $1::int8 AND {cursor} <= {last}"), f"{within} LIMIT $2::int8"]


_WITHIN: Final = "SELECT {name}s.* FROM unnest(${low}::int8[], ${high}::int8[]) AS {name}(low, high) CROSS JOIN LATERAL ({rows}) {name}s"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewsById:
    """The question whether a table has an id above the argument, which `RowsById.fresh` would read, or its sequence stands below it."""

    table: TableName
    column: str
    drawn: DrawnIds | None = None
    arguments: ClassVar[Sequence[type]] = (int,)

    def part(self, number: int, arguments: Sequence[str]) -> str:
        """Return an expression that is `number` if the answer is yes, else null."""
        cursor, [highest] = f"{self.table.sql}.{quoted(self.column)}", arguments
        news = ANY_ROW.format(number=number, table=self.table.sql, condition=f"{cursor} > {highest}", order=cursor)
        if self.drawn is None:
            return news
        return f"coalesce({news}, (SELECT {number} FROM ({self.drawn.last}) drawn WHERE last < {highest}))"  # noqa: S608


def old_rows_by_id(table: TableName, column: str, bounds: str) -> str:
    """Return a statement that counts the rows of the partition `$1` with ids up to `$2`, outside the ranges `$3` to `$4`."""
    cursor = f"{table.sql}.{quoted(column)}"
    gaps = f"SELECT FROM unnest($3::int8[], $4::int8[]) AS gap(low, high) WHERE {cursor} BETWEEN gap.low AND gap.high"
    old = f"{cursor} <= $2::int8 AND NOT EXISTS ({gaps}) ORDER BY {cursor}"
    return OLD_ROWS.format(place=f"{cursor}::int8", table=table.sql, bounds=bounds, old=old, most=MOST_COUNTED)


_NEWEST: Final = """
SELECT max(id) AS highest, min(id) AS lowest, count(*) AS ids,
       array_agg(ARRAY[below + 1, id - 1] ORDER BY id) FILTER (WHERE id - below > 1) AS holes, {ahead} AS ahead
FROM (SELECT id, lead(id) OVER (ORDER BY id DESC) AS below FROM ({newest}) newest) pairs
"""
