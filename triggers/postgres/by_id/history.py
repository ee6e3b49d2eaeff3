"""How mode `id` examines a server's history: by ids and their times or hashes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.history.judgement import Judgement, PresentRow, RowFate
from triggers.postgres.history.kept_rows import Chunk, Key, Milestone
from triggers.postgres.history.statements import PREPARED, KeptRowsById, last_id
from triggers.postgres.reading.history_examination import HistoryExamination, present_row, waits_for


class HistoryById(HistoryExamination[Ledger]):
    """Mode `id`. A sequence is never below an id of a row that it has: `nextval` is logged before the row is committed."""

    async def _present(self, keys: Sequence[Key]) -> Mapping[Key, PresentRow]:
        rows = await self._table.fetch(self._sql.present, keys)
        return {row["key"]: present_row(row) for row in rows}

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
        drawn = self._table.facts.drawn(unsafe_ids=self._table.options.by_id.unsafe_ids)
        [row] = await self._table.fetch(last_id(drawn.last if drawn else None))
        return row["last"] is not None and row["last"] < self._progress.memory.highest

    async def _heal(self, judgement: Judgement, present: Mapping[Key, PresentRow]) -> None:  # noqa: ARG002
        table, ledger = self._table, self._progress.memory
        if judgement.gave_up:
            for row in await table.fetch(PREPARED):
                raise waits_for(row["name"], "it may insert ids that were given up")
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
