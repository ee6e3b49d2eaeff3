"""Mode `id`: the statements of one reader, and the rows they return for a portion."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from triggers.errors import SourceChanged
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_id.portions import Portion
from triggers.postgres.by_id.statements import SET_BACK, RowsById
from triggers.postgres.catalog.sequences import DrawnIds
from triggers.postgres.reading.sizes import size_of
from triggers.postgres.sql import condition, parts_as_texts
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.sql import quoted, row_as_json


class IdSelection:
    """Selects rows of one table by their ids. `drawn` says which ids were given by hand."""

    __slots__ = ("_drawn", "_table", "row", "rows", "size", "sizes")

    def __init__(self, table: WatchedTable, drawn: DrawnIds | None) -> None:
        self._table = table
        self._drawn = drawn
        options, facts = table.options, table.facts
        self.row = row_as_json(options.columns, facts.types) if options.columns else None
        """The expression for a row as JSON text; None if no columns are configured."""
        self.size = size_of(options.columns, facts.columns)
        """The expression for a row's size; None if all rows are small."""
        self.rows = self._counting(options.where)
        self.sizes = None if self.size is None else self.statements(options.where, self.size)

    def statements(self, where: str | None, row: str | None) -> RowsById:
        options = self._table.options
        return RowsById(table=options.source, column=options.column, where=where, row=row, drawn=self._drawn)

    def _counting(self, where: str | None) -> RowsById:
        """Return the statements that read rows that count."""
        options = self._table.options
        parts = parts_as_texts(options.source.sql, options.dividing_columns) if options.dividing_columns else None
        return replace(self.statements(where, self.row), parts=parts, witness=self._table.facts.witness)

    def only(self, ids: Sequence[int], where: str | None, row: str | None) -> RowsById:
        """Return statements that evaluate `where` and `row` for these ids only."""
        return self.statements(f"CASE WHEN {self._among(ids)} THEN {condition(where)} ELSE false END", row)

    def without(self, left_out: Collection[int]) -> tuple[RowsById, RowsById | None]:
        """Return the statements for rows and for sizes that evaluate nothing for these ids."""
        if not left_out:
            return self.rows, self.sizes
        where = f"CASE WHEN {self._among(left_out)} THEN false ELSE {condition(self._table.options.where)} END"
        sizes = None if self.size is None else self.statements(where, self.size)
        return self._counting(where), sizes

    def _among(self, ids: Collection[int]) -> str:
        cursor = f"{self._table.options.source.sql}.{quoted(self._table.options.column)}"
        return f"{cursor} = ANY ('{{{','.join(map(str, ids))}}}'::int8[])"

    async def fetch(self, sql: RowsById, ledger: Ledger, portion: Portion) -> Sequence[Any]:
        """Read a portion in one snapshot, ascending. Raises `SourceChanged` if the sequence was set back."""
        arguments: list[object] = [ledger.highest, portion.fresh]
        if ledger.ahead and self._drawn is not None:
            free = ledger.free if portion.ahead else []
            sql, arguments = replace(sql, free=True), [*arguments, [low for low, _ in free], [high for _, high in free]]
        if not portion.gaps:
            return self._recognized(await self._table.fetch(sql.fresh, *arguments, repeated=True), ledger)
        gaps = ledger.gaps[: portion.gaps]
        arguments += [gap.low for gap in gaps], [gap.high for gap in gaps], portion.late
        rows = await self._table.fetch(sql.fresh_and_late, *arguments, boot=ledger.boot or None, repeated=True)
        return sorted(self._recognized(rows, ledger), key=itemgetter(0))

    def _recognized(self, rows: Sequence[Any], ledger: Ledger) -> Sequence[Any]:
        """Return the rows. Raises `SourceChanged` if the sequence was set back, because it hands out ids a second time."""
        notes: Mapping[int, int] = {row[-1]: row[0] for row in rows if row[-1] is not None}
        if SET_BACK in notes:
            [sequence], last, highest = self._table.facts.sequences, notes[SET_BACK], ledger.highest
            raise SourceChanged(
                f"{sequence.name} stands at {last}, below the position {highest}: it was set back, or never got there, and rows"
                f" with ids up to {highest} may be inserted unnoticed; `watcher rewind {self._table.watcher} --to start` reports"
                f" all rows that are there, --to {last} those above it; or SELECT setval('{sequence.name}', {highest}) if none was"
                " inserted yet"
            )
        return rows
