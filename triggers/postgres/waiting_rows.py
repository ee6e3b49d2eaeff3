"""Mode `updated_at`: the rows that wait at known places, read as many at a time as make a batch, none that cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from triggers.base import JsonValue, RejectedItem
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
from triggers.postgres.portions import length_of, size_of
from triggers.postgres.source import Source
from triggers.postgres.sql import RowsByUpdate, primary_key_as_json, row_as_json
from triggers.postgres.values import parse_all
from triggers.postgres.window import BEFORE_THE_FIRST, RowPlace


@dataclass(frozen=True, kw_only=True)
class WaitingRow:
    """A version that is to be told. `xid` has 64 bits, or is `BEFORE_THE_FIRST`; `written_by` is as it stands on the row.

    `key` is JSON, `size` that of the columns in bytes.
    """

    xid: int
    written_by: int
    place: RowPlace
    key: str
    size: int

    @property
    def json_key(self) -> JsonValue:
        return parse_all([self.key])[0]  # type: ignore[no-any-return]

    @property
    def version(self) -> str:
        """Which tells it from others of the same key."""
        return str(self.written_by)

    @classmethod
    def of(cls, row: Mapping[str, Any], xid: int = BEFORE_THE_FIRST) -> WaitingRow:
        return cls(
            xid=xid,
            written_by=row["written_by"],
            place=RowPlace(relation=row["relation"], block=row["place"][0], number=row["place"][1]),
            key=row["key"],
            size=row["size"],
        )


@dataclass(frozen=True, kw_only=True)
class ToldRows:
    """Of the rows that wait, the first `count` are handled: what stands there now, and which of them cannot be told."""

    count: int
    rows: Sequence[Mapping[str, Any]]
    rejected: Sequence[RejectedItem] = ()


class WaitingReader:
    """Reads rows at their places."""

    def __init__(self, source: Source, sql: RowsByUpdate) -> None:
        self._source = source
        self._options = source.options
        self._sql = sql

    async def read(self, waiting: Sequence[WaitingRow], *, reports: bool) -> ToldRows:
        """As many as make a batch, one at least. Raises `BadRow` or `HugeRow` of the next one unless it `reports` such rows."""
        some = waiting[: self._fitting([row.size for row in waiting], self._source.max_batch_bytes // 4)]
        if not some or (not self._options.columns and self._options.where is None):
            return ToldRows(count=len(some), rows=[{"key": row.key, "keep": True} for row in some])
        left_out: dict[WaitingRow, RejectedItem] = {}
        while True:
            rest = [row for row in some if row not in left_out]
            try:
                count, rows = await self._sized(rest)
            except HugeRow as huge:
                if not reports:
                    raise
                left_out[rest[0]] = huge.rejected(rest[0].json_key, rest[0].version)
            except UnreadableRows as error:
                if reports:
                    left_out |= await self._bad_rows(rest, error)
                else:
                    some = await self._before_bad_row(rest, error)
            else:
                number = len(some) if count == len(rest) else some.index(rest[count])
                return ToldRows(count=number, rows=rows, rejected=await self._still_there(some[:number], left_out))

    async def _sized(self, rest: Sequence[WaitingRow]) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """How many of these rows one commit takes, and what stands there. Raises `UnreadableRows`, `HugeRow`."""
        if not rest:
            return 0, []
        self._refuse_huge(rest[0], rest[0].size)
        rows = await self._rows(rest)
        sizes = [length_of(row and row["row"]) for row in rows]
        self._refuse_huge(rest[0], sizes[0])
        count = self._fitting(sizes, self._source.max_batch_bytes // 2)
        kept = zip(rest[:count], rows, strict=False)
        return count, [{**row, "key": waiting.key} for waiting, row in kept if row is not None]

    async def _before_bad_row(self, some: Sequence[WaitingRow], error: UnreadableRows) -> Sequence[WaitingRow]:
        """Those before it. Raises `BadRow` if there is none."""
        count = await first_unreadable(some, self._rows)
        if not count:
            fault = await self._fault(some[0], error)
            raise BadRow(self._options.table, f"the key {some[0].key}", fault) from error
        return some[:count]

    async def _bad_rows(self, some: Sequence[WaitingRow], error: UnreadableRows) -> Mapping[WaitingRow, RejectedItem]:
        unreadable = await all_unreadable(some, self._rows)
        if not unreadable:
            raise error
        faults = {row: await self._fault(row, cause) for row, cause in unreadable.items()}
        return {row: fault.rejected(row.json_key, row.version) for row, fault in faults.items()}

    async def _still_there(
        self, some: Sequence[WaitingRow], left_out: Mapping[WaitingRow, RejectedItem]
    ) -> Sequence[RejectedItem]:
        """Of those left out; another version comes later."""
        rows = [row for row in some if row in left_out]
        if not rows:
            return ()
        places = await self._rows_by(statements(self._source, where=None, columns=()), rows)
        return [left_out[row] for row, place in zip(rows, places, strict=True) if place is not None]

    async def _rows(self, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        """What stands there, None where there is another version by now, which comes later. Raises `UnreadableRows`."""
        return await self._rows_by(self._sql, waiting)

    async def _rows_by(self, sql: RowsByUpdate, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        relations, places = [row.place.relation for row in waiting], [row.place.ctid for row in waiting]
        xids = [str(row.written_by) for row in waiting]
        rows = {row["number"]: row for row in await self._source.fetch(sql.rows, relations, places, xids)}
        refuse_unreadable(row["row"] for row in rows.values())
        return [rows.get(number) for number in range(1, len(waiting) + 1)]

    def _refuse_huge(self, row: WaitingRow, size: int) -> None:
        """The first of these rows is to be read in any case."""
        if size > self._source.max_batch_bytes:
            raise HugeRow(self._options.table, f"the key {row.key}", size, self._source.max_batch_bytes)

    def _fitting(self, sizes: Sequence[int], budget: int) -> int:
        """How many of the rows of these sizes one commit takes."""
        used = 0
        for count, size in enumerate(sizes[: self._options.batch.max_rows]):
            if count and used + size > budget:
                return count
            used += size
        return min(len(sizes), self._options.batch.max_rows)

    async def _fault(self, row: WaitingRow, error: UnreadableRows) -> Fault:
        parts = []
        if self._options.where is not None:
            sql = statements(self._source, where=self._options.where, columns=())
            parts.append(Part(column=None, read=partial(self._rows_by, sql, [row])))
        for column in self._options.columns:
            sql = statements(self._source, where=None, columns=(column,))
            parts.append(Part(column=column, read=partial(self._rows_by, sql, [row])))
        return await fault_of(parts, error)


def statements(
    source: Source, *, where: str | None, columns: Sequence[str] | None = None, size: str | None = None
) -> RowsByUpdate:
    """For these columns if they are given, else for those that are configured."""
    options, facts = source.options, source.facts
    columns = options.columns if columns is None else columns
    return RowsByUpdate.of(
        options.source,
        options.column,
        key=primary_key_as_json(facts.primary_key, facts.types),
        key_columns=facts.primary_key,
        where=where,
        row=row_as_json(columns, facts.types),
        size=size or size_of(columns, facts.columns),
    )
