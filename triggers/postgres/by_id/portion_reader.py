"""Mode `id`: as many rows of a portion as make a batch, without those that cannot be reported, all in one snapshot.

What is read to find bad rows is discarded. The rows that count are read by one statement at the end, which evaluates nothing of
the rows that are left out. So the ledger's step is that statement alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from triggers.base import RejectedItem
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_id.portions import Portion, Sized, portion_of
from triggers.postgres.by_id.selection import IdSelection
from triggers.postgres.by_id.statements import RowsById
from triggers.postgres.catalog.sequences import DrawnIds
from triggers.postgres.reading.bad_rows import BadRow, RowFailure, RowPart, all_unreadable, failure_of, first_unreadable
from triggers.postgres.reading.sizes import length_of
from triggers.postgres.row_limits import HugeRow, refuse_unreadable
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.failures import UnreadableRows
from triggers.shared.postgres.sql import row_as_json

_SHARE_BY_SIZES: Final = 4
"""The share of a batch's bytes, one in so many, that sizes before reading may fill: JSON may be longer than what it stands for."""
_SHARE_BY_TEXTS: Final = 2
"""The share of a batch's bytes, one in so many, that JSON texts may fill."""


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """What one statement read: all of `rows` are accounted for, and `kept` are those of them that are reported."""

    portion: Portion
    rows: Sequence[Any]
    kept: Sequence[Any]
    rejected: Sequence[RejectedItem] = field(default=())


class PortionReader:
    """Reads portions. If it `reports`, rows that cannot be reported are rejected; else `BadRow` or `HugeRow` is raised."""

    __slots__ = ("_bad_rows", "_reports", "_selection", "_table")

    def __init__(self, table: WatchedTable, *, drawn: DrawnIds | None, reports: bool) -> None:
        self._table = table
        self._reports = reports
        self._selection = IdSelection(table, drawn)
        self._bad_rows = BadIdSearch(table, self._selection)

    async def read(self, ledger: Ledger, whole: Portion) -> ReadRows:
        """Read as many rows as make a batch. Raises `BadRow` or `HugeRow` if the next row cannot be reported or rejected."""
        left_out: dict[int, RejectedItem] = {}
        while True:
            try:
                portion, rows = await self._fitting(ledger, whole, left_out)
            except HugeRowOfPortion as huge:
                if not self._reports:
                    raise huge.error from None
                left_out[huge.number] = huge.error.rejected(huge.number)
            except UnreadableRows as error:
                if self._reports:
                    left_out |= await self._bad_rows.all(ledger, whole, left_out, error)
                else:
                    whole = await self._bad_rows.portion_before_first(ledger, whole, error)
            else:
                return self._kept(portion, rows, left_out)

    def _kept(self, portion: Portion, rows: Sequence[Any], left_out: Mapping[int, RejectedItem]) -> ReadRows:
        has_keep = bool(left_out) or self._table.options.where is not None
        kept = [row for row in rows if row["keep"]] if has_keep else rows
        rejected = [left_out[row[0]] for row in rows if row[0] in left_out] if left_out else []
        return ReadRows(portion=portion, rows=rows, kept=kept, rejected=rejected)

    async def _fitting(
        self, ledger: Ledger, whole: Portion, left_out: Collection[int]
    ) -> tuple[Portion, Sequence[Any]]:
        """Read as many rows as make a batch that is not too large, and at least one."""
        sql, sizes = self._selection.without(left_out)
        if sizes is None:
            rows = await self._selection.fetch(sql, ledger, whole)
            if self._selection.row is not None:
                refuse_unreadable(row["row"] for row in rows)
            return whole, rows
        budget = self._table.max_batch_bytes // _SHARE_BY_SIZES
        portion, sized = await self._sizes(sizes, ledger, whole, budget)
        return await self._within(budget, sql, ledger, portion, sized)

    async def _sizes(
        self, sizes: RowsById, ledger: Ledger, whole: Portion, budget: int
    ) -> tuple[Portion, Sequence[Sized]]:
        """Read ids and sizes. If all rows together exceed the budget, those with ids given by hand wait for a later portion."""
        rows = await self._selection.fetch(sizes, ledger, whole)
        portion = whole
        if ledger.ahead and sum(row["row"] or 0 for row in rows) > budget and any(row[-1] is None for row in rows):
            rows = [row for row in rows if row[-1] is None]
            portion = replace(whole, ahead=False, is_part=True)
        return portion, [(row[0], row["row"] or 0) for row in rows]

    async def _within(
        self, budget: int, sql: RowsById, ledger: Ledger, portion: Portion, sized: Sequence[Sized]
    ) -> tuple[Portion, Sequence[Any]]:
        """Read smaller and smaller portions until the JSON texts fit, or until a single row is left."""
        while True:
            self._refuse_huge(sized)
            portion = portion_of(sized, ledger, portion, budget)
            rows = await self._selection.fetch(sql, ledger, portion)
            refuse_unreadable(row["row"] for row in rows)
            sized = [(row[0], length_of(row["row"])) for row in rows]
            budget = self._table.max_batch_bytes // _SHARE_BY_TEXTS
            sizes_kept = [size for _, size in sized if size]
            if len(sizes_kept) <= 1 or sum(sizes_kept) <= budget:
                self._refuse_huge(sized)
                return portion, rows

    def _refuse_huge(self, sized: Sequence[Sized]) -> None:
        """Raise `HugeRowOfPortion` if the first row that would be reported, which is read in any case, fits no batch."""
        number, size = next((each for each in sized if each[1]), (0, 0))
        most = self._table.max_batch_bytes
        if size > most:
            options = self._table.options
            raise HugeRowOfPortion(number, HugeRow(options.table, f"{options.column} {number}", size, most))


class HugeRowOfPortion(Exception):
    """The row with the id `number` is too large for any batch; `error` is what its watcher fails with."""

    def __init__(self, number: int, error: HugeRow) -> None:
        super().__init__(str(error))
        self.number = number
        self.error = error


class BadIdSearch:
    """Finds the rows of a portion that cannot be read, after a statement failed because of them."""

    __slots__ = ("_selection", "_table")

    def __init__(self, table: WatchedTable, selection: IdSelection) -> None:
        self._table = table
        self._selection = selection

    async def portion_before_first(self, ledger: Ledger, whole: Portion, error: UnreadableRows) -> Portion:
        """Return the portion before the first bad row. Raises `BadRow` if that is the next row."""
        ids = await self._ids(ledger, whole)
        count = await first_unreadable(ids, partial(self._read, ledger, whole)) if ids else 0
        if not count:
            key = f"{self._table.options.column} {ids[0]}" if ids else "an id"
            failure = await self._failure(ledger, whole, ids[:1], error)
            raise BadRow(self._table.options.table, key, failure) from error
        return portion_of([(number, 1) for number in ids], ledger, whole, budget=count)

    async def all(
        self, ledger: Ledger, whole: Portion, known: Collection[int], error: UnreadableRows
    ) -> Mapping[int, RejectedItem]:
        """Return the bad rows that are not known yet. Raises `error` if there are none."""
        ids = [number for number in await self._ids(ledger, whole) if number not in known]
        unreadable = await all_unreadable(ids, partial(self._read, ledger, whole))
        if not unreadable:
            raise error
        return {
            number: (await self._failure(ledger, whole, [number], cause)).rejected(number)
            for number, cause in unreadable.items()
        }

    async def _ids(self, ledger: Ledger, whole: Portion) -> Sequence[int]:
        rows = await self._selection.fetch(self._selection.statements(None, None), ledger, whole)
        return [row[0] for row in rows]

    async def _read(self, ledger: Ledger, whole: Portion, ids: Sequence[int]) -> None:
        """Compute, send and decode only these rows of the portion. Raises `UnreadableRows`."""
        where, selection = self._table.options.where, self._selection
        parts: Sequence[Sequence[int]] = [ids]
        if selection.size is not None:
            sized = await selection.fetch(selection.only(ids, where, selection.size), ledger, whole)
            parts = self._parts(ids, {row[0]: row["row"] or 0 for row in sized})
        for part in parts:
            await self._read_part(ledger, whole, part, where, selection.row)

    async def _read_part(
        self, ledger: Ledger, whole: Portion, ids: Sequence[int], where: str | None, row: str | None
    ) -> None:
        rows = await self._selection.fetch(self._selection.only(ids, where, row), ledger, whole)
        refuse_unreadable(each["row"] for each in rows if row is not None)

    def _parts(self, ids: Sequence[int], sizes: Mapping[int, int]) -> Sequence[Sequence[int]]:
        """Divide the ids into parts that are read one at a time, without those whose rows are too large to be read at all."""
        parts: list[list[int]] = [[]]
        used = 0
        for number in ids:
            size = sizes.get(number, 0)
            if size > self._table.max_batch_bytes:
                continue
            used += size
            if parts[-1] and used > self._table.max_batch_bytes // _SHARE_BY_SIZES:
                parts.append([])
                used = size
            parts[-1].append(number)
        return parts

    async def _failure(self, ledger: Ledger, whole: Portion, ids: Sequence[int], error: UnreadableRows) -> RowFailure:
        options, types = self._table.options, self._table.facts.types
        read = partial(self._read_part, ledger, whole, ids)
        parts = [] if options.where is None else [RowPart(column=None, read=partial(read, options.where, None))]
        columns = ((column, row_as_json([column], types)) for column in options.columns)
        parts += [RowPart(column=column, read=partial(read, None, row)) for column, row in columns]
        return await failure_of(parts, error)
