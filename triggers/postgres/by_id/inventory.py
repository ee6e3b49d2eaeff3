"""Counts the rows of a table in mode `id`, in statements that read a bounded number of rows each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from triggers.base import StoredPosition
from triggers.inventories import NumberedInventory, Place, Range
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.options import NewRowsOptions, place_of_rewind
from triggers.postgres.sql import condition
from triggers.postgres.table.row_examination import RowExaminer
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.sql import quoted
from triggers.shared.postgres.values import LARGEST_ID, SMALLEST_ID

_ROWS: Final = """
SELECT id, keep FROM (SELECT {column}::int8 AS id, CASE WHEN {column} = ANY ($1::int8[]) THEN false ELSE {keep} END AS keep
 FROM {table} WHERE {column} BETWEEN {low} AND {high} ORDER BY {column} LIMIT {limit}) bounded
"""
_LIMITS: Final = "SELECT min({column})::int8 AS lowest, max({column})::int8 AS highest FROM {table}"
_COUNTS: Final = """
SELECT counted.* FROM unnest($2::int8[], $3::int8[]) WITH ORDINALITY AS part(low, high, place)
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE keep) AS kept, count(*) AS rows, max(id) AS last FROM ({rows}) each) counted
ORDER BY part.place
"""
_NUMBERS: Final = "SELECT id FROM ({rows}) each WHERE keep ORDER BY id"
_MISSING: Final = """
SELECT number FROM generate_series($2::int8, $3::int8) AS number
WHERE NOT EXISTS (SELECT FROM ({rows}) each WHERE keep) LIMIT $4::int8
"""


LONGEST_COUNT: Final = timedelta(seconds=10)
"""How long a statement may take: it holds back the clean-up of dead rows (VACUUM) as long as it runs."""


@dataclass(frozen=True, kw_only=True)
class RowCounter:
    """Counts the rows of one table that meet `where`. The given ids, which may fail it with an error, are left out."""

    table: WatchedTable

    async def limits(self, _without: Collection[int]) -> Range | None:
        [row] = await self._fetch(self._sql(_LIMITS))
        return None if row["lowest"] is None else (row["lowest"], row["highest"])

    async def count(
        self, ranges: Sequence[Range], most: int, without: Collection[int]
    ) -> Sequence[tuple[int, int | None]]:
        statement = _COUNTS.format(rows=self._rows("part.low", "part.high", str(int(most))))
        lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
        rows = await self._fetch(statement, [*without], lows, highs)
        return [(row["kept"], row["last"] if row["rows"] >= most else None) for row in rows]

    async def numbers(self, limits: Range, most: int, without: Collection[int]) -> Sequence[int]:
        statement = _NUMBERS.format(rows=self._rows("$2::int8", "$3::int8", "NULL")) + " LIMIT $4::int8"
        return [row["id"] for row in await self._fetch(statement, [*without], *limits, most)]

    async def missing(self, limits: Range, most: int, without: Collection[int]) -> Sequence[int]:
        statement = _MISSING.format(rows=self._rows("number", "number", "NULL"))
        return [row["number"] for row in await self._fetch(statement, [*without], *limits, most)]

    async def _fetch(self, statement: str, *arguments: object) -> Sequence[Any]:
        return await self.table.fetch(statement, *arguments, longest=LONGEST_COUNT)

    def _rows(self, low: str, high: str, limit: str) -> str:
        keep = f"({condition(self.table.options.where)}) IS TRUE"
        return self._sql(_ROWS, keep=keep, low=low, high=high, limit=limit)

    def _sql(self, text: str, **parts: str) -> str:
        options = self.table.options
        column = f"{options.source.sql}.{quoted(options.column)}"
        return text.format(table=options.source.sql, column=column, **parts)


class CountedRows:
    """The part of a trigger for rows that shows all rows of its table, in mode `id`."""

    options: NewRowsOptions
    _examiner: RowExaminer

    def inventory(self) -> NumberedInventory[StoredPosition] | None:
        return _inventory_by_id(self._examiner.table) if self.options.mode == "id" else None


def _inventory_by_id(table: WatchedTable) -> NumberedInventory[StoredPosition]:
    counter, options = RowCounter(table=table), table.options
    return NumberedInventory(
        begins_at=_begins_at,
        place_of=lambda to: _place(place_of_rewind(to, "id")),
        start=_place(options.start),
        limits=counter.limits,
        count=counter.count,
        numbers=counter.numbers,
        missing=counter.missing,
        waiting=lambda position: _waiting(position, options.start),
    )


def _place(start: Any) -> Place:
    """Return where ids begin that are reported; `start` is the id before."""
    return start + 1 if isinstance(start, int) else start


def _begins_at(watermark: Any) -> int | None:
    up_to = watermark.get("up_to") if isinstance(watermark, dict) else None
    return up_to + 1 if isinstance(up_to, int) else None


def _waiting(position: StoredPosition | None, start: Any) -> Sequence[Range] | None:
    if position is None:
        return None if start == "now" else [(start + 1 if isinstance(start, int) else SMALLEST_ID, LARGEST_ID)]
    if "m" not in position.state:  # a rewind to now, which the next poll completes
        return None
    ledger = Ledger.from_state(position.state)
    return sorted([*((gap.low, gap.high) for gap in ledger.gaps), *ledger.holes, *ledger.free])
