"""Mode `updated_at`: polls of one table for new and updated rows, with the window as their memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from triggers.base import JsonValue, RejectedItem, StoredPosition, TriggerBatch
from triggers.errors import SourceChanged, SourceUnavailable
from triggers.postgres.by_update.history import HistoryByUpdate
from triggers.postgres.by_update.names import PrimaryKeys, SoftDeletedKeys
from triggers.postgres.by_update.older_rows import OlderRows
from triggers.postgres.by_update.partitions import PartitionsByUpdate
from triggers.postgres.by_update.statements import MOST_PLACES, NewsByUpdate
from triggers.postgres.by_update.transactions import LivingTransactions, LongTransactions
from triggers.postgres.by_update.waiting_rows import HandledRows, WaitingReader, WaitingRow, key_as_object, statements
from triggers.postgres.by_update.window import (
    BEFORE_ALL_TIME,
    BEFORE_THE_FIRST,
    XID_SPACE,
    DrainCursor,
    TransactionSnapshot,
    VersionMemory,
    VersionWindow,
    earlier,
    moment_text,
)
from triggers.postgres.options import Place
from triggers.postgres.reading.bad_rows import MOST_BAD_ROWS, refuse_many
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.reading.reader import Reader
from triggers.postgres.server.locks import LockSet
from triggers.postgres.server.probed_tables import Arguments
from triggers.postgres.table.watched_table import Altered, WatchedTable
from triggers.shared.postgres.failures import STATEMENT_TIMEOUT, sqlstate_of
from triggers.shared.postgres.sql import row_as_json


@dataclass(frozen=True, kw_only=True)
class Drain:
    """The rows that wait, in the order in which they are reported; many rows are reported in parts.

    `is_cut` says that more rows wait than were listed. Everything committed before `until` is among them. Versions of transactions
    below `handled` were handled before; 0 if that is unknown.
    """

    rows: Sequence[WaitingRow]
    snapshot: TransactionSnapshot
    until: str
    is_cut: bool
    handled: int


@dataclass(frozen=True, kw_only=True)
class VersionsBatch(TriggerBatch):
    """A batch with the versions that its events report or that it rejects, and the snapshot they were read in."""

    versions: Sequence[WaitingRow]
    snapshot: TransactionSnapshot

    def comes_again_from(self, window: VersionWindow) -> bool:
        """Return whether a watcher that continues with this window would report any of these versions."""
        xids = ((self.snapshot.widen(row.written_by), row.place) for row in self.versions)
        return not all(window.accounts_for(xid, place) for xid, place in xids)


class RowsByUpdateReader(Reader[VersionMemory]):
    __slots__ = ("_drain", "_living", "_long_transactions", "_older", "_rows_are_below", "_sql", "_waiting")

    def __init__(self, table: WatchedTable, memory: VersionMemory) -> None:
        progress = ReadProgress(table, memory)
        names = PrimaryKeys if table.options.by_update.soft_delete is None else SoftDeletedKeys
        super().__init__(table, progress, PartitionsByUpdate(table, progress), HistoryByUpdate(table, progress), names)
        self._living = LivingTransactions(table)
        self._long_transactions = LongTransactions(table, table.options.gap_alarm)
        self._rows_are_below = memory.window.floor
        """Where the floor would lie, had it followed at once when the last rows were read."""
        self.prepare()

    def prepare(self) -> None:
        self._sql = statements(self.table, where=self.table.options.where)
        self._waiting = WaitingReader(self.table, self._sql)
        self._older = OlderRows(self.table, self.progress, self._waiting, self._sql)
        self._drain: Drain | None = None

    @classmethod
    async def begin(cls, table: WatchedTable, start: Place) -> Self:
        """Begin at `start`; with `now`, all visible rows count as handled."""
        reader = cls.rewound(table, None, start)
        if start == "now":
            await reader.handle_visible_rows()
        return reader

    @classmethod
    def resume(cls, table: WatchedTable, position: StoredPosition) -> Self:
        return cls(table, VersionMemory.from_state(position.state, position.rows))

    @classmethod
    def rewound(cls, table: WatchedTable, position: StoredPosition | None, to: Place) -> Self:  # noqa: ARG003
        """Begin at `to`. Nothing stays open: the rows above the floor are read, and no others."""
        floor = moment_text(to) if isinstance(to, datetime) else BEFORE_ALL_TIME
        return cls(table, VersionMemory(window=VersionWindow(floor=floor, next_floor=floor), until=floor))

    @staticmethod
    def retold(kept: StoredPosition, batch: TriggerBatch) -> bool:
        window = VersionWindow.from_state(kept.state, kept.rows)
        return isinstance(batch, VersionsBatch) and not batch.comes_again_from(window)

    @staticmethod
    def trial(table: WatchedTable) -> tuple[str, Sequence[object]]:
        row = row_as_json(table.options.columns, table.facts.types)
        sql = statements(table, where=None, size=f"length({row})")
        return sql.all_places, [[], BEFORE_ALL_TIME, None, None, None]

    async def handle_visible_rows(self) -> None:
        """Count all visible rows as handled. Raises `SourceUnavailable` if the table is too large to be read once."""
        living = await self._list_living()
        try:
            snapshot, rows = await self._read(self._sql.visible_xids, living=living)
        except SourceUnavailable as error:
            if sqlstate_of(error) != STATEMENT_TIMEOUT:
                raise
            table = self.table
            raise SourceUnavailable(
                f"to begin at now {table.options.table} is read once as a whole, which took too long: begin at a time instead,"
                f" with `start: {living.at}`, or with `watcher rewind {table.watcher} --to {living.at}` after a rewind"
            ) from error.__cause__
        memory = self.progress.memory
        window = memory.window.read(snapshot, {row["xid"] for row in rows})
        self.progress.memory = replace(memory, window=window, until=living.at)

    @staticmethod
    def question(table: WatchedTable) -> NewsByUpdate:
        options = table.options
        return NewsByUpdate(table=options.source, column=options.column, time_zone=options.by_update.time_zone)

    def place(self) -> Arguments | None:
        """Return None also until the floor has followed the last rows, because each probe would read again what lies above it."""
        window = self.progress.memory.window
        if window.xmin is None or window.part or window.handled or window.floor <= self._rows_are_below:
            return None
        return window.floor, window.xmin

    async def poll(self) -> TriggerBatch:
        progress, options = self.progress, self.table.options
        if progress.memory.again:
            return self._batch(await self._older.read(), progress.memory.until, caught_up=False)
        before, drain = progress.memory.until, self._drain or await self._list_waiting()
        handled = await self._waiting.read(drain.rows, reports=options.on_bad_row == "report")
        refuse_many(options.table, handled.count, handled.rejected)
        self._take(drain, handled.count)
        if handled.count or progress.is_worth_a_write() or progress.needs_silent_write():
            await self.table.refuse_altered()
        self._waiting.keep(drain.rows[: handled.count], handled, drain.snapshot.xmin, drain.handled)
        left_out = {row["key"] for row in handled.rows if not row["keep"]}
        progress.memory = replace(progress.memory, left_out=progress.memory.left_out + len(left_out))
        batch = self._batch(handled, before, caught_up=progress.memory.window.part is None)
        versions = [row for row in drain.rows[: handled.count] if row.key not in left_out]
        return VersionsBatch(
            events=batch.events,
            position=batch.position,
            caught_up=batch.caught_up,
            rejected=batch.rejected,
            settled=batch.settled,
            versions=versions,
            snapshot=drain.snapshot,
        )

    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Read the items' versions that are still in place; newer versions are polled as usual. The window stays as it is."""
        some = items[:MOST_BAD_ROWS]
        versions = {(json.dumps(item.key), item.version): item for item in some}
        names = self.table.facts.primary_key
        keys = [key_as_object(names, item.key) for item in some]
        rows = await self.table.fetch(self._sql.by_key, json.dumps(keys))
        waiting = [row for row in map(WaitingRow.of, rows) if _name(row) in versions]
        handled = await self._waiting.read(waiting, reports=True)
        await self.table.refuse_altered()
        left = {_name(row) for row in waiting[handled.count :]}
        tried = [item for name, item in versions.items() if name not in left]
        batch = self._batch(handled, self.progress.memory.until, caught_up=False, tried=tried)
        return batch, [item for item in items if item not in tried]

    def _batch(
        self, handled: HandledRows, before: str, *, caught_up: bool, tried: Sequence[RejectedItem] = ()
    ) -> TriggerBatch:
        kept = [row for row in handled.rows if row["keep"]]
        watermark = {"from": before, "to": self.progress.memory.until}
        return self.batches.batch(kept, watermark, caught_up=caught_up, rejected=handled.rejected, tried=tried)

    @property
    def _lateness(self) -> timedelta:
        return self.table.facts.lateness(self.table.options.by_update.lateness)

    @property
    def up_to(self) -> JsonValue:
        return self.progress.memory.until

    async def _list_living(self) -> LockSet:
        """List the open transactions and enter them into the window, after the floor went back with the server's clock."""
        living, moment = await self._living.read(self.progress.memory)
        if moment is not None:
            self._set_back(moment)
        memory = self.progress.memory
        self.progress.memory = replace(memory, window=memory.window.alive(living, self._lateness))
        return living

    def _set_back(self, moment: str) -> None:
        """Set the floor back, also that of the written memory; a position must be written if that changes anything."""
        progress, lateness = self.progress, self._lateness
        window = progress.memory.window
        progress.written = replace(progress.written, window=progress.written.window.set_back(moment, lateness))
        progress.memory = replace(progress.memory, window=window.set_back(moment, lateness))
        progress.is_overdue = progress.is_overdue or progress.memory.window != window

    async def _list_waiting(self) -> Drain:
        """List the rows that wait above the floor, after a list of the open transactions."""
        living, window = await self._list_living(), self.progress.memory.window
        part = window.part
        behind = (None, None) if part is None else (part.place.relation, part.place.ctid)
        xmin = window.first if window.xmin is None else window.xmin
        arguments: tuple[object, ...] = window.floor, None if xmin is None else str(xmin % XID_SPACE)
        if window.xmin is not None:
            arguments += (
                [str(xid % XID_SPACE) for xid in window.handled],
                None if part is None else str(part.xid % XID_SPACE),
            )
        statement = self._sql.all_places if window.xmin is None else self._sql.new_places
        snapshot, rows = await self._read(statement, *arguments, *behind, living=living)
        if rows:
            self._rows_are_below = earlier(living.at, self._lateness)
        memory = self.progress.memory
        reason = await self._long_transactions.reason(memory.window, living, self._living.earliest, snapshot)
        await self.progress.alarm.judge(reason, memory)
        waiting = [WaitingRow.of(row, snapshot.widen(row["xid"]) if row["xid"] else BEFORE_THE_FIRST) for row in rows]
        return Drain(
            rows=waiting,
            snapshot=snapshot,
            until=living.at,
            is_cut=len(waiting) >= MOST_PLACES,
            handled=window.below,
        )

    async def _read(
        self, statement: str, *arguments: object, living: LockSet
    ) -> tuple[TransactionSnapshot, Sequence[Any]]:
        """Read the rows of one snapshot. Raises `Altered`, or `SourceChanged` if the last snapshot is too old."""
        facts, repeated = self.table.facts, statement is self._sql.new_places
        rows = await self.table.fetch(statement, facts.relations, *arguments, boot=living.boot, repeated=repeated)
        if rows[0]["files"] != facts.files:
            raise Altered
        snapshot = TransactionSnapshot(xmin=rows[0]["snapshot_xmin"], xmax=rows[0]["snapshot_xmax"])
        memory = self.progress.memory
        if memory.window.too_far_back(snapshot):
            raise SourceChanged(
                f"too many transactions have passed since the last poll of {self.table.options.table}; choose where to continue"
                " with `watcher rewind`, to now or to a time"
            )
        self.progress.memory = replace(memory, files=rows[0]["files"])
        return snapshot, [row for row in rows if row["xid"] is not None]

    def _take(self, drain: Drain, count: int) -> None:
        """Count the first rows of the drain as handled."""
        some, rest = drain.rows[:count], drain.rows[count:]
        xids, memory = {row.xid for row in some}, self.progress.memory
        if rest or drain.is_cut:
            cursor = DrainCursor(xid=some[-1].xid, place=some[-1].place)
            self.progress.memory = replace(memory, window=memory.window.read_part(drain.snapshot, xids, cursor))
        else:
            window = memory.window.read(drain.snapshot, xids - {BEFORE_THE_FIRST})
            self.progress.memory = replace(memory, window=window, until=drain.until)
        self._drain = replace(drain, rows=rest) if rest else None


def _name(row: WaitingRow) -> tuple[str, str]:
    return json.dumps(row.json_key), row.version
