"""Partitions that are attached, and relations that are rewritten, while a watcher runs or is stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Generic

from triggers.base import Finding
from triggers.errors import SourceChanged
from triggers.postgres.catalog import PARTITION_BOUNDS
from triggers.postgres.id_statements import old_rows_by_id
from triggers.postgres.ledger import Ledger
from triggers.postgres.progress import MemoryT, ReadProgress
from triggers.postgres.relations import KnownRelations, OldRows
from triggers.postgres.sql import MOST_COUNTED
from triggers.postgres.update_statements import old_rows_by_update
from triggers.postgres.watched_table import WatchedTable
from triggers.postgres.window import XID_SPACE, VersionMemory, VersionWindow, moment_text


class Partitions(ABC, Generic[MemoryT]):
    """Keeps a reader's relations up to date. Old rows of an attached partition are not reported but named in a finding."""

    __slots__ = ("_progress", "_table")

    def __init__(self, table: WatchedTable, progress: ReadProgress[MemoryT]) -> None:
        self._table = table
        self._progress = progress

    def recall(self, state: Mapping[str, Any]) -> None:
        """Continue with the relations of a stored position; `adopt` is called next. Raises `SourceChanged`."""
        self._progress.recall_relations(KnownRelations.from_state(state))

    async def adopt(self) -> None:
        """Compare the relations with the table's new facts. Raises `SourceChanged` if rows can no longer be identified."""
        facts = self._table.facts
        self._refuse_rewritten()
        attached = {}
        for oid in self._progress.relations.new_partitions(facts):
            [bounds] = await self._table.fetch(PARTITION_BOUNDS, oid)
            old = await self._old_rows(oid, bounds["bounds"] or "true")
            if old is not None:
                attached[oid] = old
        self._progress.relations = self._progress.relations.after(facts, attached)

    def findings(self) -> list[Finding]:
        """Return a finding for each partition that was attached with old rows."""
        stored = self._table.facts.stored
        return [self._finding(stored[oid].name, old) for oid, old in self._progress.relations.attached.items()]

    @abstractmethod
    def _refuse_rewritten(self) -> None:
        """Raise `SourceChanged` if the files of the relations say that rows can no longer be identified."""

    @abstractmethod
    async def _old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """Count the rows of a new partition that lie below the position and so will not be reported; None if there are none."""

    @abstractmethod
    def _finding(self, partition: str, old: OldRows) -> Finding: ...


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
        watcher, most, before = self._table.watcher, _at_least(old), int(old.lowest) - 1
        return Finding.warning(
            "partition",
            f"the partition {partition} was attached with {most}{old.rows:,} rows of ids from {old.lowest} to {old.highest},"
            " below the position at that time: they are not reported, because they may have been reported before",
            f"`watcher rewind {watcher} --to {before}` reports them, and all rows above {before} again (--preview counts"
            f" them); `watcher rewind {watcher} --to {self._progress.memory.highest}` if they were reported before",
        )


class PartitionsByUpdate(Partitions[VersionMemory]):
    __slots__ = ()

    def recall(self, state: Mapping[str, Any]) -> None:
        """Also compare the one number for all files that an older release stored; attached and dropped partitions changed it too."""
        super().recall(state)
        if "relations" not in state and self._progress.memory.files not in (None, self._table.facts.files):
            raise SourceChanged(self._about_rewritten(self._table.options.table))

    def _refuse_rewritten(self) -> None:
        rewritten = self._progress.relations.rewritten(self._table.facts, "r")
        window = self._progress.memory.window
        if rewritten and (window.xmin is not None or window.first is not None):
            raise SourceChanged(self._about_rewritten(", ".join(rewritten)))

    def _about_rewritten(self, relations: str) -> str:
        return (
            f"{relations} was rewritten or emptied, so its rows no longer show which transaction wrote them;"
            f" choose where to continue with `watcher rewind {self._table.watcher}`, to now or to a time"
        )

    async def _old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """Count the rows that the next poll would not read."""
        window, options = self._progress.memory.window, self._table.options
        if window.xmin is None:
            return None
        statement = old_rows_by_update(options.source, options.column, bounds, options.time_zone)
        [row] = await self._table.fetch(statement, oid, window.floor, *_row_xids(window.xmin, window))
        return OldRows.from_row(row) if row["rows"] else None

    def _finding(self, partition: str, old: OldRows) -> Finding:
        watcher, column, most = self._table.watcher, self._table.options.column, _at_least(old)
        before = moment_text(datetime.fromisoformat(str(old.lowest)) - timedelta(microseconds=1))
        return Finding.warning(
            "partition",
            f"the partition {partition} was attached with {most}{old.rows:,} rows of {column} from {old.lowest} to"
            f" {old.highest}, written before the position at that time: they are not reported, because they may have been"
            " reported before",
            f"`watcher rewind {watcher} --to {before}` reports them, and all newer rows again (--preview counts them);"
            f" `watcher rewind {watcher} --to {self._progress.memory.until}` if they were reported before",
        )


def _at_least(old: OldRows) -> str:
    return "at least " if old.rows >= MOST_COUNTED else ""


def _row_xids(xmin: int, window: VersionWindow) -> tuple[str, list[str]]:
    """Return the last snapshot's own xmin and the xids handled since, in the 32 bits that rows hold."""
    return str(xmin % XID_SPACE), [str(xid % XID_SPACE) for xid in window.handled]
