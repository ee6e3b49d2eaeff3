"""Partitions that are attached, and relations that are rewritten, while a watcher runs or is stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

from triggers.base import Finding
from triggers.postgres.catalog.relations import KnownRelations, OldRows
from triggers.postgres.catalog.statements import PARTITION_BOUNDS
from triggers.postgres.reading.progress import MemoryT, ReadProgress
from triggers.postgres.table.watched_table import WatchedTable


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
