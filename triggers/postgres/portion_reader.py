"""Mode `id`: as many rows of a portion as make a batch, none that cannot be told, all in one snapshot.

What is read to find bad rows is thrown away. The rows that count are read by one statement at the end, which looks into no
row that is left out: so the ledger's step is that statement alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final

from triggers.base import RejectedItem
from triggers.errors import SourceChanged
from triggers.postgres.bad_rows import (
    BadRow,
    Fault,
    HugeRow,
    Part,
    all_unreadable,
    fault_of,
    first_unreadable,
    refuse_unreadable,
)
from triggers.postgres.failures import UnreadableRows
from triggers.postgres.ledger import Ledger
from triggers.postgres.portions import Portion, Sized, length_of, portion_of, size_of
from triggers.postgres.source import Source
from triggers.postgres.sql import SET_BACK, Drawn, RowsById, condition, quoted, row_as_json

_NONE: Final[Mapping[int, RejectedItem]] = {}


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """What one statement read: `rows` are accounted for by now, `kept` those of them that are told."""

    portion: Portion
    rows: Sequence[Any]
    kept: Sequence[Any]
    rejected: Sequence[RejectedItem] = field(default=())


class PortionReader:
    """`drawn` tells ids that were given by hand; `reports`: rows that cannot be told are left out, else `BadRow` is raised."""

    def __init__(self, source: Source, *, drawn: Drawn | None, reports: bool) -> None:
        self._source = source
        self._drawn = drawn
        self._reports = reports
        options, facts = source.options, source.facts
        self._row = row_as_json(options.columns, facts.types) if options.columns else None
        self._size = size_of(options.columns, facts.columns)
        self._sql = self._statements(options.where, self._row)
        self._sizes = None if self._size is None else self._statements(options.where, self._size)

    async def read(self, ledger: Ledger, whole: Portion) -> ReadRows:
        """As many rows as make a batch. Raises `BadRow` or `HugeRow` if the next one cannot be told and nothing is reported."""
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
                    left_out |= await self._bad_rows(ledger, whole, left_out, error)
                else:
                    whole = await self._before_bad_row(ledger, whole, error)
            else:
                return self._told(portion, rows, left_out)

    def _told(self, portion: Portion, rows: Sequence[Any], left_out: Mapping[int, RejectedItem]) -> ReadRows:
        is_chosen = bool(left_out) or self._source.options.where is not None
        kept = [row for row in rows if row["keep"]] if is_chosen else rows
        rejected = [left_out[row[0]] for row in rows if row[0] in left_out]
        return ReadRows(portion=portion, rows=rows, kept=kept, rejected=rejected)

    async def _before_bad_row(self, ledger: Ledger, whole: Portion, error: UnreadableRows) -> Portion:
        """The part of it that can be read. Raises `BadRow` if there is none."""
        ids = await self._ids(ledger, whole)
        count = await first_unreadable(ids, partial(self._read_some, ledger, whole)) if ids else 0
        if not count:
            key = f"{self._source.options.column} {ids[0]}" if ids else "an id"
            raise BadRow(self._source.options.table, key, await self._fault(ledger, whole, ids[:1], error)) from error
        return portion_of([(number, 1) for number in ids], ledger, whole, budget=count)

    async def _bad_rows(
        self, ledger: Ledger, whole: Portion, known: Collection[int], error: UnreadableRows
    ) -> Mapping[int, RejectedItem]:
        ids = [number for number in await self._ids(ledger, whole) if number not in known]
        unreadable = await all_unreadable(ids, partial(self._read_some, ledger, whole))
        if not unreadable:
            raise error
        return {
            number: (await self._fault(ledger, whole, [number], cause)).rejected(number)
            for number, cause in unreadable.items()
        }

    async def _ids(self, ledger: Ledger, whole: Portion) -> Sequence[int]:
        return [row[0] for row in await self._fetch(self._statements(None, None), ledger, whole)]

    async def _read_some(self, ledger: Ledger, whole: Portion, ids: Sequence[int]) -> None:
        """Compute, send and decode no other rows of this portion. Raises `UnreadableRows`."""
        where = self._source.options.where
        parts: Sequence[Sequence[int]] = [ids]
        if self._size is not None:
            sized = await self._fetch(self._only(ids, where, self._size), ledger, whole)
            parts = self._parts(ids, {each[0]: each["row"] or 0 for each in sized})
        for part in parts:
            rows = await self._fetch(self._only(part, where, self._row), ledger, whole)
            refuse_unreadable(each["row"] for each in rows if self._row is not None)

    def _parts(self, ids: Sequence[int], sizes: Mapping[int, int]) -> Sequence[Sequence[int]]:
        """As many ids as are read at a time; the others of these are too large to be read at all."""
        parts: list[list[int]] = [[]]
        used = 0
        for number in ids:
            size = sizes.get(number, 0)
            if size > self._source.max_batch_bytes:
                continue
            used += size
            if parts[-1] and used > self._source.max_batch_bytes // 4:
                parts.append([])
                used = size
            parts[-1].append(number)
        return parts

    async def _fault(self, ledger: Ledger, whole: Portion, ids: Sequence[int], error: UnreadableRows) -> Fault:
        async def read(where: str | None, row: str | None) -> None:
            rows = await self._fetch(self._only(ids, where, row), ledger, whole)
            refuse_unreadable(each["row"] for each in rows if row is not None)

        options, types = self._source.options, self._source.facts.types
        parts = [] if options.where is None else [Part(column=None, read=partial(read, options.where, None))]
        columns = ((column, row_as_json([column], types)) for column in options.columns)
        parts += [Part(column=column, read=partial(read, None, row)) for column, row in columns]
        return await fault_of(parts, error)

    async def _fitting(
        self, ledger: Ledger, whole: Portion, left_out: Mapping[int, RejectedItem]
    ) -> tuple[Portion, Sequence[Any]]:
        """As many rows as make a batch that is not too large, and at least one."""
        where = self._source.options.where
        sql = self._without(left_out, where, self._row) if left_out else self._sql
        if self._sizes is None:
            rows = await self._fetch(sql, ledger, whole)
            refuse_unreadable(row["row"] for row in rows if self._row is not None)
            return whole, rows
        sizes = self._without(left_out, where, self._size) if left_out else self._sizes
        rows = await self._fetch(sizes, ledger, whole)
        most = self._source.max_batch_bytes
        portion, budget = whole, most // 4  # JSON may be longer than what it stands for
        if ledger.ahead and sum(row["row"] or 0 for row in rows) > budget and any(row[-1] is None for row in rows):
            rows = [row for row in rows if row[-1] is None]
            portion = replace(whole, ahead=False, is_part=True)
        sized = [(row[0], row["row"] or 0) for row in rows]
        while True:
            self._refuse_huge(sized, most)
            portion = portion_of(sized, ledger, portion, budget)
            rows = await self._fetch(sql, ledger, portion)
            refuse_unreadable(row["row"] for row in rows)
            sized, budget = [(row[0], length_of(row["row"])) for row in rows], most // 2
            sizes_told = [size for _, size in sized if size]
            if len(sizes_told) <= 1 or sum(sizes_told) <= budget:
                self._refuse_huge(sized, most)
                return portion, rows

    def _refuse_huge(self, sized: Sequence[Sized], most: int) -> None:
        """The first of these rows that is told is to be read in any case."""
        number, size = next((each for each in sized if each[1]), (0, 0))
        if size > most:
            options = self._source.options
            raise HugeRowOfPortion(number, HugeRow(options.table, f"{options.column} {number}", size, most))

    def _only(self, ids: Sequence[int], where: str | None, row: str | None) -> RowsById:
        """A statement that looks into these rows only, and else at ids."""
        return self._statements(f"CASE WHEN {self._among(ids)} THEN {condition(where)} ELSE false END", row)

    def _without(self, ids: Collection[int], where: str | None, row: str | None) -> RowsById:
        """A statement that looks into all rows but these."""
        return self._statements(f"CASE WHEN {self._among(ids)} THEN false ELSE {condition(where)} END", row)

    def _among(self, ids: Collection[int]) -> str:
        cursor = f"{self._source.options.source.sql}.{quoted(self._source.options.column)}"
        return f"{cursor} = ANY ('{{{','.join(map(str, ids))}}}'::int8[])"

    def _statements(self, where: str | None, row: str | None) -> RowsById:
        options = self._source.options
        return RowsById(table=options.source, column=options.column, where=where, row=row, drawn=self._drawn)

    async def _fetch(self, sql: RowsById, ledger: Ledger, portion: Portion) -> Sequence[Any]:
        arguments: list[object] = [ledger.highest, portion.fresh]
        if ledger.ahead and self._drawn is not None:
            free = ledger.free if portion.ahead else []
            sql, arguments = replace(sql, free=True), [*arguments, [low for low, _ in free], [high for _, high in free]]
        if not portion.gaps:
            return self._recognised(await self._source.fetch(sql.fresh, *arguments, repeated=True), ledger)
        gaps = ledger.gaps[: portion.gaps]
        arguments += [gap.low for gap in gaps], [gap.high for gap in gaps], portion.late
        rows = await self._source.fetch(sql.fresh_and_late, *arguments, boot=ledger.boot or None, repeated=True)
        return sorted(self._recognised(rows, ledger), key=itemgetter(0))

    def _recognised(self, rows: Sequence[Any], ledger: Ledger) -> Sequence[Any]:
        """Raises `SourceChanged` when the sequence was set back: ids come again."""
        notes = {row[-1]: row[0] for row in rows if row[-1] is not None}
        if SET_BACK in notes:
            [sequence], last, highest = self._source.facts.sequences, notes[SET_BACK], ledger.highest
            raise SourceChanged(
                f"{sequence.name} stands at {last}, below the position {highest}: it was set back, or never got there, and rows"
                f" with ids up to {highest} may come unseen; `watcher rewind {self._source.watcher} --to start` tells all rows that"
                f" are there, --to {last} those above it; or SELECT setval('{sequence.name}', {highest}) if none has come yet"
            )
        return rows


class HugeRowOfPortion(Exception):
    """Which row it is, and the error that it makes."""

    def __init__(self, number: int, error: HugeRow) -> None:
        super().__init__(str(error))
        self.number = number
        self.error = error
