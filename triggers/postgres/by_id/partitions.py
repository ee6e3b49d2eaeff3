"""Partitions of a table in mode `id`: what was attached below the position, and sequences that were restarted."""

from __future__ import annotations

from triggers.base import Finding
from triggers.errors import SourceChanged
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_id.statements import old_rows_by_id
from triggers.postgres.catalog.relations import OldRows
from triggers.postgres.reading.partitions import Partitions


class PartitionsById(Partitions[Ledger]):
    __slots__ = ()

    def _refuse_rewritten(self) -> None:
        """Refuse a table that was emptied while its sequence was restarted: its ids are handed out again."""
        facts, table, relations = self._table.facts, self._table.options.table, self._progress.relations
        highest, restarted = self._progress.memory.highest, relations.rewritten(facts, "S")
        if restarted and relations.rewritten(facts, "r") and highest > facts.before_all_ids:
            raise SourceChanged(
                f"{', '.join(restarted)} was restarted and {table} was emptied or rewritten, so ids up to {highest} come"
                f" a second time; `watcher rewind {self._table.watcher} --to start` reports all rows that are there, --to now"
                " reports none of them"
            )

    async def _old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """Count the rows at or below the highest id that lie in no gap."""
        ledger, options = self._progress.memory, self._table.options
        open_ranges = [*((gap.low, gap.high) for gap in ledger.gaps), *ledger.holes]
        statement = old_rows_by_id(options.source, options.column, bounds)
        limits = [low for low, _ in open_ranges], [high for _, high in open_ranges]
        [row] = await self._table.fetch(statement, oid, ledger.highest, *limits)
        return OldRows.from_row(row) if row["rows"] else None

    def _finding(self, partition: str, old: OldRows) -> Finding:
        watcher, before = self._table.watcher, int(old.lowest) - 1
        return Finding.warning(
            "partition",
            f"the partition {partition} was attached with {old.how_many} rows of ids from {old.lowest} to {old.highest},"
            " below the position at that time: they are not reported, because they may have been reported before",
            f"`watcher rewind {watcher} --to {before}` reports them, and all rows above {before} again (--preview counts"
            f" them); `watcher rewind {watcher} --to {self._progress.memory.highest}` if they were reported before",
        )
