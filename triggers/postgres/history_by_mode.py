"""How each mode examines a server's history: by ids and their times or hashes, or by primary keys and transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from triggers.errors import SourceChanged
from triggers.postgres.history import Judgement, PresentRow, RowFate
from triggers.postgres.history_examination import CLOCKS_DIFFER, HistoryExamination
from triggers.postgres.history_statements import PREPARED, KeptRowsById, last_id
from triggers.postgres.kept_rows import FINGERPRINT, Chunk, Key, Milestone, ServerMarks
from triggers.postgres.ledger import Ledger
from triggers.postgres.values import parse_all
from triggers.postgres.waiting_rows import WaitingRow, key_as_object, statements
from triggers.postgres.window import BEFORE_ALL_TIME, RowPlace, TransactionSnapshot, VersionMemory, earlier, moment_text


class HistoryById(HistoryExamination[Ledger]):
    """Mode `id`. A sequence is never below an id of a row that it has: `nextval` is logged before the row is committed."""

    async def _present(self, keys: Sequence[Key]) -> Mapping[Key, PresentRow]:
        rows = await self._table.fetch(self._sql.present, keys)
        return {row["key"]: _present_row(row) for row in rows}

    async def _baseline(self) -> Chunk:
        rows = await self._table.fetch(self._sql.newest, self._progress.memory.highest)
        marks = await self._table.marks()
        return Chunk(
            marks=marks,
            at=time.time(),
            after=replace(self._progress.memory.milestone(), xmax=marks.xmax),
            xmin=rows[0]["snapshot_xmin"] if rows else 0,
            witness=self._table.facts.witness.sql,
            keys=[row["key"] for row in rows],
            fingerprints=[row["fingerprint"] for row in rows],
        )

    async def _is_back(self) -> bool:
        drawn = self._table.facts.drawn(self._table.options)
        [row] = await self._table.fetch(last_id(drawn.last if drawn else None))
        return row["last"] is not None and row["last"] < self._progress.memory.highest

    async def _heal(self, judgement: Judgement, present: Mapping[Key, PresentRow]) -> None:  # noqa: ARG002
        table, ledger = self._table, self._progress.memory
        if judgement.gave_up:
            for row in await table.fetch(PREPARED):
                raise _waits_for(row["name"], "it may insert ids that were given up")
        self._progress.memory = ledger.healed(
            judgement.reached,
            lost=[
                key for key in judgement.fates if isinstance(key, int) and judgement.fates[key] is not RowFate.AS_TOLD
            ],
            kept=[key for key in judgement.keys(RowFate.AS_TOLD) if isinstance(key, int) and key > judgement.reached],
        )

    def _rewind_to(self, chunk: Chunk) -> str:
        return str((chunk.before or chunk.after).highest)

    def _reached(self, judgement: Judgement) -> str:  # noqa: ARG002
        return f"ids above {self._progress.memory.highest} count as new and are reported"

    @property
    def _beginning(self) -> Milestone:
        return Milestone(highest=self._table.facts.before_all_ids)

    @property
    def _sql(self) -> KeptRowsById:
        options = self._table.options
        return KeptRowsById.of(options.source, options.column, self._table.facts.witness)


class HistoryByUpdate(HistoryExamination[VersionMemory]):
    """Mode `updated_at`. A server hands the transactions behind its fork out again, so they are no longer handled."""

    async def _present(self, keys: Sequence[Key]) -> Mapping[Key, PresentRow]:
        names = self._table.facts.primary_key
        objects = [key_as_object(names, key) for key in parse_all([str(key) for key in keys])]
        rows = await self._table.fetch(statements(self._table, where=None).by_key, json.dumps(objects))
        return {row["key"]: _present_row(row) for row in rows}

    async def _baseline(self) -> Chunk:
        memory = self._progress.memory
        rows = await self._table.fetch(statements(self._table, where=None).newest)
        marks = await self._table.marks()
        handled = [row for row in rows if memory.window.accounts_for(_present_row(row).xid, WaitingRow.of(row).place)]
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
                raise _waits_for(row["name"], "it may write rows that would count as handled")
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
        return self._table.facts.lateness(self._table.options)

    @property
    def _beginning(self) -> Milestone:
        return Milestone(highest=0)


def _present_row(row: Any) -> PresentRow:
    xid, witness = FINGERPRINT.unpack(row["fingerprint"])
    return PresentRow(xid=TransactionSnapshot(xmin=0, xmax=row["xmax"]).widen(xid), witness=witness)


def _waits_for(name: str, why: str) -> SourceChanged:
    return SourceChanged(
        f"the server's history went back, and the prepared transaction {name!r} is open: {why}. The watcher continues when it has"
        " ended: roll it back; if you commit it, its rows are not reported, unless `watcher rewind` goes back behind them"
    )
