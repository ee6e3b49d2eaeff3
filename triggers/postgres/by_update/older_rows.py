"""Mode `updated_at`: rows that are reported once more, because the server went back to an older version than the reported one."""

from __future__ import annotations

import json
from dataclasses import replace

from triggers.postgres.by_update.statements import RowsByUpdate
from triggers.postgres.by_update.waiting_rows import HandledRows, WaitingReader, WaitingRow, key_as_object
from triggers.postgres.by_update.window import TransactionSnapshot, VersionMemory
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.values import parse_all


class OlderRows:
    """Reads the rows that the memory names, as many as make a batch. A row with a version that is new comes by itself."""

    __slots__ = ("_progress", "_sql", "_table", "_waiting")

    def __init__(
        self, table: WatchedTable, progress: ReadProgress[VersionMemory], waiting: WaitingReader, sql: RowsByUpdate
    ) -> None:
        self._table = table
        self._progress = progress
        self._waiting = waiting
        self._sql = sql

    async def read(self) -> HandledRows:
        """Read some of the rows, and forget them."""
        table, memory = self._table, self._progress.memory
        some = memory.again[: table.options.batch.max_rows]
        objects = [key_as_object(table.facts.primary_key, key) for key in parse_all(some)]
        rows = await table.fetch(self._sql.by_key, json.dumps(objects))
        listed = [
            WaitingRow.of(row, TransactionSnapshot(xmin=0, xmax=row["xmax"]).widen(row["written_by"])) for row in rows
        ]
        waiting = [row for row in listed if memory.window.accounts_for(row.xid, row.place)]
        handled = await self._waiting.read(waiting, reports=table.options.on_bad_row == "report")
        await table.refuse_altered()
        xmin = rows[0]["snapshot_xmin"] if rows else 0
        self._waiting.keep(waiting[: handled.count], handled, xmin)
        left = {row.key for row in waiting[handled.count :]}
        again = tuple(key for number, key in enumerate(memory.again) if number >= len(some) or key in left)
        self._progress.memory = replace(memory, again=again)
        return handled
