"""Mode `updated_at`: reading waiting rows at known places, as many at a time as make a batch, without those that cannot be reported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from triggers.base import JsonValue, RejectedItem
from triggers.postgres.by_update.statements import RowsByUpdate
from triggers.postgres.by_update.window import BEFORE_THE_FIRST, RowPlace
from triggers.postgres.history.kept_rows import NO_FINGERPRINT
from triggers.postgres.reading.bad_rows import BadRow, RowFailure, RowPart, all_unreadable, failure_of, first_unreadable
from triggers.postgres.reading.sizes import length_of, size_of
from triggers.postgres.row_limits import HugeRow, refuse_unreadable
from triggers.postgres.sql import parts_as_texts
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.failures import UnreadableRows
from triggers.shared.postgres.sql import primary_key_as_json, quoted, row_as_json
from triggers.shared.postgres.values import parse_all


class WaitingRow(NamedTuple):
    """A version that is to be reported.

    `xid` has 64 bits, or is `BEFORE_THE_FIRST`; `written_by` is the xid as it stands on the row. `key` is JSON text, `size` the
    bytes in the configured columns.
    """

    xid: int
    written_by: int
    place: RowPlace
    key: str
    size: int
    fingerprint: bytes = NO_FINGERPRINT
    deleted: bool = False
    """Whether the column `soft_delete` says so."""
    parts: tuple[str | None, ...] | None = None
    """The values of the parts of its partition key."""

    @property
    def json_key(self) -> JsonValue:
        return parse_all([self.key])[0]  # type: ignore[no-any-return]

    @property
    def named(self) -> Mapping[str, Any]:
        """What an event needs to know of it, beside its columns."""
        return {"key": self.key, "deleted": self.deleted, "parts": self.parts}

    @property
    def version(self) -> str:
        """The text that distinguishes this version from others with the same key."""
        return str(self.written_by)

    @classmethod
    def of(cls, row: Mapping[str, Any], xid: int = BEFORE_THE_FIRST) -> WaitingRow:
        return cls(
            xid=xid,
            written_by=row["written_by"],
            place=RowPlace(relation=row["relation"], block=row["place"][0], number=row["place"][1]),
            key=row["key"],
            size=row["size"],
            fingerprint=row["fingerprint"],
            deleted=row["deleted"],
            parts=row["parts"] and tuple(row["parts"]),
        )


@dataclass(frozen=True, kw_only=True)
class HandledRows:
    """The result of one read: the first `count` waiting rows are handled, `rows` are those still in place, `rejected` are bad."""

    count: int
    rows: Sequence[Mapping[str, Any]]
    rejected: Sequence[RejectedItem] = ()


class WaitingReader:
    """Reads waiting rows at their places."""

    __slots__ = ("_options", "_sql", "_table")

    def __init__(self, table: WatchedTable, sql: RowsByUpdate) -> None:
        self._table = table
        self._options = table.options
        self._sql = sql

    async def read(self, waiting: Sequence[WaitingRow], *, reports: bool) -> HandledRows:
        """Read as many rows as make a batch, and at least one.

        If it `reports`, rows that cannot be reported are rejected; else `BadRow` or `HugeRow` is raised when the next row is such
        a row.
        """
        some = waiting[: self._fitting([row.size for row in waiting], self._table.max_batch_bytes // 4)]
        if not some or (not self._options.columns and self._options.where is None):
            return HandledRows(count=len(some), rows=[{**row.named, "keep": True} for row in some])
        return await (self._read_reporting(some) if reports else self._read_stopping(some))

    def keep(self, rows: Sequence[WaitingRow], handled: HandledRows, xmin: int, before: int = 0) -> None:
        """Keep what recognizes rows that are handled now, read in a snapshot with this xmin.

        Versions of transactions below `before` were handled before these rows were listed.
        A row that has moved on meanwhile will not be recognized: its newer version comes next.
        """
        keys = {json.dumps(item.key) for item in handled.rejected}
        rejected = {row.key for row in rows if keys and json.dumps(row.json_key) in keys}
        there = rejected | {row["key"] for row in handled.rows}
        reported = rejected | {row["key"] for row in handled.rows if row["keep"]}
        self._table.history.note_rows(
            [row.key for row in rows],
            [row.fingerprint if row.key in there else NO_FINGERPRINT for row in rows],
            xmin=xmin,
            unreported=[number for number, row in enumerate(rows) if row.key not in reported],
            handled=before,
        )

    async def _read_stopping(self, some: Sequence[WaitingRow]) -> HandledRows:
        """Read the rows before the first that cannot be reported. Raises `BadRow` or `HugeRow` if that is the next row."""
        while True:
            try:
                count, rows = await self._sized(some)
            except UnreadableRows as error:
                some = await self._before_bad_row(some, error)
            else:
                return HandledRows(count=count, rows=rows)

    async def _read_reporting(self, some: Sequence[WaitingRow]) -> HandledRows:
        """Read the rows, and leave out those that cannot be reported."""
        left_out: dict[WaitingRow, RejectedItem] = {}
        while True:
            rest = [row for row in some if row not in left_out]
            try:
                count, rows = await self._sized(rest)
            except HugeRow as huge:
                left_out[rest[0]] = huge.rejected(rest[0].json_key, rest[0].version)
            except UnreadableRows as error:
                left_out |= await self._bad_rows(rest, error)
            else:
                number = len(some) if count == len(rest) else some.index(rest[count])
                rejected = await self._still_there(some[:number], left_out)
                return HandledRows(count=number, rows=rows, rejected=rejected)

    async def _sized(self, rest: Sequence[WaitingRow]) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """Return how many of these rows one commit takes, and those still in place. Raises `UnreadableRows` or `HugeRow`."""
        if not rest:
            return 0, []
        self._refuse_huge(rest[0], rest[0].size)
        rows = await self._rows(rest)
        sizes = [length_of(row and row["row"]) for row in rows]
        self._refuse_huge(rest[0], sizes[0])
        count = self._fitting(sizes, self._table.max_batch_bytes // 2)
        kept = zip(rest[:count], rows, strict=False)
        return count, [{**row, **waiting.named} for waiting, row in kept if row is not None]

    async def _before_bad_row(self, some: Sequence[WaitingRow], error: UnreadableRows) -> Sequence[WaitingRow]:
        """Return the rows before the first bad one. Raises `BadRow` if that is the next row."""
        count = await first_unreadable(some, self._rows)
        if not count:
            failure = await self._failure(some[0], error)
            raise BadRow(self._options.table, f"the key {some[0].key}", failure) from error
        return some[:count]

    async def _bad_rows(self, some: Sequence[WaitingRow], error: UnreadableRows) -> Mapping[WaitingRow, RejectedItem]:
        unreadable = await all_unreadable(some, self._rows)
        if not unreadable:
            raise error
        failures = {row: await self._failure(row, cause) for row, cause in unreadable.items()}
        return {row: failure.rejected(row.json_key, row.version) for row, failure in failures.items()}

    async def _still_there(
        self, some: Sequence[WaitingRow], left_out: Mapping[WaitingRow, RejectedItem]
    ) -> Sequence[RejectedItem]:
        """Return the items of left-out rows that are still in place; a newer version of the others is read later."""
        rows = [row for row in some if row in left_out]
        if not rows:
            return ()
        places = await self._rows_by(statements(self._table, where=None, columns=()), rows)
        return [left_out[row] for row, place in zip(rows, places, strict=True) if place is not None]

    async def _rows(self, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        """Read the rows; None stands for a row that has a newer version by now, which is read later. Raises `UnreadableRows`."""
        return await self._rows_by(self._sql, waiting)

    async def _rows_by(self, sql: RowsByUpdate, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        relations, places = [row.place.relation for row in waiting], [row.place.ctid for row in waiting]
        xids = [str(row.written_by) for row in waiting]
        rows = {row["number"]: row for row in await self._table.fetch(sql.rows, relations, places, xids)}
        refuse_unreadable(row["row"] for row in rows.values())
        return [rows.get(number) for number in range(1, len(waiting) + 1)]

    def _refuse_huge(self, row: WaitingRow, size: int) -> None:
        """Raise `HugeRow` if the first row, which is read in any case, fits no batch."""
        if size > self._table.max_batch_bytes:
            raise HugeRow(self._options.table, f"the key {row.key}", size, self._table.max_batch_bytes)

    def _fitting(self, sizes: Sequence[int], budget: int) -> int:
        """Return how many of the rows of these sizes one commit takes."""
        used = 0
        for count, size in enumerate(sizes[: self._options.batch.max_rows]):
            if count and used + size > budget:
                return count
            used += size
        return min(len(sizes), self._options.batch.max_rows)

    async def _failure(self, row: WaitingRow, error: UnreadableRows) -> RowFailure:
        parts = []
        if self._options.where is not None:
            sql = statements(self._table, where=self._options.where, columns=())
            parts.append(RowPart(column=None, read=partial(self._rows_by, sql, [row])))
        for column in self._options.columns:
            sql = statements(self._table, where=None, columns=(column,))
            parts.append(RowPart(column=column, read=partial(self._rows_by, sql, [row])))
        return await failure_of(parts, error)


def statements(
    table: WatchedTable, *, where: str | None, columns: Sequence[str] | None = None, size: str | None = None
) -> RowsByUpdate:
    """Return the statements for these columns, or for the configured ones if none are given."""
    options, facts = table.options, table.facts
    columns = options.columns if columns is None else columns
    return RowsByUpdate.of(
        options.source,
        options.column,
        key=primary_key_as_json(facts.primary_key, facts.types),
        key_columns=facts.primary_key,
        where=where,
        row=row_as_json(columns, facts.types),
        size=size or size_of(columns, facts.columns),
        deleted=_is_deleted(table),
        parts=parts_as_texts(options.source.sql, options.dividing_columns),
        time_zone=options.by_update.time_zone,
        fingerprint=facts.witness.fingerprint(f"{options.source.sql}.xmin"),
    )


def key_as_object(columns: Sequence[str], key: Any) -> Mapping[str, JsonValue]:
    """Return a JSON key as a JSON object of the primary key's columns."""
    return dict(zip(columns, key if len(columns) > 1 else [key], strict=True))


def _is_deleted(table: WatchedTable) -> str:
    """Return an expression for whether a row counts as deleted: a boolean is true, any other column is not null."""
    name = table.options.by_update.soft_delete
    if name is None:
        return "false"
    column = f"{table.options.source.sql}.{quoted(name)}"
    return f"{column} IS TRUE" if table.facts.columns[name] == "boolean" else f"{column} IS NOT NULL"
