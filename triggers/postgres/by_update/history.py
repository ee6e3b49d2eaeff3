"""How mode `updated_at` examines a server's history: by primary keys and transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from triggers.errors import SourceChanged
from triggers.postgres.by_update.waiting_rows import WaitingRow, key_as_object, statements
from triggers.postgres.by_update.window import (
    BEFORE_ALL_TIME,
    RowPlace,
    TransactionSnapshot,
    VersionMemory,
    earlier,
    moment_text,
)
from triggers.postgres.history.judgement import Judgement, PresentRow, RowFate
from triggers.postgres.history.kept_rows import Chunk, Key, Milestone, ServerMarks
from triggers.postgres.history.statements import PREPARED
from triggers.postgres.reading.history_examination import CLOCKS_DIFFER, HistoryExamination, present_row, waits_for
from triggers.shared.postgres.values import parse_all


class HistoryByUpdate(HistoryExamination[VersionMemory]):
    """Mode `updated_at`. A server hands the transactions behind its fork out again, so they are no longer handled."""

    async def _present(self, keys: Sequence[Key]) -> Mapping[Key, PresentRow]:
        names = self._table.facts.primary_key
        objects = [key_as_object(names, key) for key in parse_all([str(key) for key in keys])]
        rows = await self._table.fetch(statements(self._table, where=None).by_key, json.dumps(objects))
        return {row["key"]: present_row(row) for row in rows}

    async def _baseline(self) -> Chunk:
        memory = self._progress.memory
        rows = await self._table.fetch(statements(self._table, where=None).newest)
        marks = await self._table.marks()
        handled = [row for row in rows if memory.window.accounts_for(present_row(row).xid, WaitingRow.of(row).place)]
        return Chunk(
            marks=marks,
            at=time.time(),
            after=replace(memory.milestone(), xmax=marks.xmax),
            xmin=rows[0]["snapshot_xmin"] if rows else 0,
            witness=self._table.facts.witness.sql,
            keys=[row["key"] for row in handled],
            fingerprints=[row["fingerprint"] for row in handled],
        )

    async def _heal(self, judgement: Judgement, present: Mapping[Key, PresentRow]) -> None:
        memory = self._progress.memory
        if memory.window.first is not None:
            raise SourceChanged(
                f"the server's history went back during the first scan of {self._table.options.table}:"
                f" `watcher rewind {self._table.watcher} --to start` begins it again"
            )
        moment = BEFORE_ALL_TIME if not judgement.until else earlier(judgement.until, CLOCKS_DIFFER)
        window = memory.window.healed(judgement.reached).set_back(moment, self._lateness)
        for row in await self._table.fetch(PREPARED):
            snapshot = TransactionSnapshot(xmin=0, xmax=(await self._table.marks()).xmax)
            if window.xmin is not None and snapshot.widen(row["xid"]) < window.xmin:
                raise waits_for(row["name"], "it may write rows that would count as handled")
        nowhere = RowPlace(relation=0, block=0, number=0)
        again = [
            str(key)
            for key in judgement.keys(RowFate.OLDER, RowFate.CHANGED, RowFate.REISSUED)
            if key not in judgement.held and window.accounts_for(present[key].xid, nowhere)
        ]
        until = min(memory.until, judgement.until or window.floor)
        self._progress.memory = replace(
            memory, window=window, until=until, again=(*dict.fromkeys((*memory.again, *again)),)
        )

    def _restarted(self, judgement: Judgement, now: ServerMarks) -> None:
        """Set the floor back: to the start of the server, or as far as the clocks of two servers may differ."""
        if judgement.until:
            moment = earlier(judgement.until, CLOCKS_DIFFER)
        else:
            moment = moment_text(datetime.fromisoformat(now.boot) - timedelta(seconds=1))
        memory = self._progress.memory
        self._progress.memory = replace(memory, window=memory.window.set_back(moment, self._lateness))

    def _rewind_to(self, chunk: Chunk) -> str:
        return (chunk.before or chunk.after).until

    def _reached(self, judgement: Judgement) -> str:
        again = len(self._progress.memory.again)
        return (
            f"what transactions above {judgement.reached} have written counts as new and is reported, and {again:,} rows are"
            " reported once more, because they stand at an older version than the reported one"
        )

    @property
    def _lateness(self) -> timedelta:
        return self._table.facts.lateness(self._table.options.by_update.lateness)

    @property
    def _beginning(self) -> Milestone:
        return Milestone(highest=0)
