"""What a reader of either mode does for the trigger: begin, resume or rewind, poll, and retry what was rejected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self

from triggers.base import Finding, JsonValue, Position, RejectedItem, StoredPosition, TriggerBatch
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.options import Place
from triggers.postgres.reading.batches import BatchBuilder, RowNames
from triggers.postgres.reading.history_examination import HistoryExamination, history_findings
from triggers.postgres.reading.partitions import Partitions
from triggers.postgres.reading.progress import MemoryT, ReadProgress
from triggers.postgres.server.probed_tables import Arguments
from triggers.postgres.sql import Question
from triggers.postgres.table.watched_table import WatchedTable


class Reader(ABC, Generic[MemoryT]):
    """Reads what is new since its memory. It is not used after an error: the next reader resumes from the last commit."""

    __slots__ = ("batches", "examination", "partitions", "progress", "table")

    def __init__(
        self,
        table: WatchedTable,
        progress: ReadProgress[MemoryT],
        partitions: Partitions[MemoryT],
        examination: HistoryExamination[MemoryT],
        names: type[RowNames],
    ) -> None:
        self.table = table
        self.progress = progress
        self.partitions = partitions
        self.examination = examination
        self.batches = BatchBuilder(table, progress, names)

    @classmethod
    @abstractmethod
    async def begin(cls, table: WatchedTable, start: Place) -> Self:
        """Begin at `start`; the first position is committed before the first poll."""

    @classmethod
    @abstractmethod
    def resume(cls, table: WatchedTable, position: StoredPosition) -> Self:
        """Continue from the last commit."""

    @classmethod
    @abstractmethod
    def rewound(cls, table: WatchedTable, position: StoredPosition | None, to: Place) -> Self:
        """Begin at `to`, which is not `now`; what `position` knows to be open before that place stays open."""

    @staticmethod
    @abstractmethod
    def retold(kept: StoredPosition, batch: TriggerBatch) -> bool:
        """Return whether a watcher that continues from `kept` would report nothing of `batch` again (pure)."""

    @staticmethod
    @abstractmethod
    def trial(table: WatchedTable) -> tuple[str, Sequence[object]]:
        """Return a statement without `where`, and its arguments, that needs every right a poll needs."""

    @staticmethod
    @abstractmethod
    def question(table: WatchedTable) -> Question:
        """Return the question whether a poll would read anything, for a reader that waits for nothing but new rows."""

    @abstractmethod
    def place(self) -> Arguments | None:
        """Return the arguments of that question; None while the reader waits for more than new rows."""

    def rests_at(self) -> Arguments | None:
        """Return the arguments of `question` if a poll would find nothing but new rows; None while there is something else to do."""
        return self.place() if self.progress.is_written else None

    async def adopt(self, facts: TableFacts) -> None:
        """Continue with a table that was examined again. Raises `SourceChanged` if its rows can no longer be identified.

        What was not written of the memory is forgotten, because rows may have been hidden from a poll that found none.
        """
        self.progress.forget_unwritten()
        self.table.facts = facts
        self.prepare()
        await self.partitions.adopt()

    @abstractmethod
    def prepare(self) -> None:
        """Make the statements that suit the table's facts."""

    def findings(self) -> list[Finding]:
        """Return what a person should know, in addition to the findings of `check`."""
        table = self.table
        changes = history_findings(table.history.changes, table.watcher)
        return [*self.partitions.findings(), *changes, *self.batches.keys.findings, *self.progress.alarm.findings]

    @abstractmethod
    async def poll(self) -> TriggerBatch:
        """Poll once. The batch carries a position only if that is worth a write."""

    @abstractmethod
    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Retry some of the items; the rest are returned, to be retried after the batch is committed."""

    @property
    def up_to(self) -> JsonValue:
        """The watermark's `up_to` where the clock moves it without a write; else None."""
        return None


async def resumed(
    mode: type[Reader[Any]], table: WatchedTable, position: StoredPosition
) -> tuple[Reader[Any], Position | None]:
    """Return a reader that continues from `position` with the table as it was just examined. Raises `SourceChanged`.

    With it comes the position that must be written before its first poll, if there is one.
    """
    state: Mapping[str, Any] = position.state
    reader = mode.resume(table, position)
    reader.partitions.recall(state)
    await reader.adopt(table.facts)
    return reader, await reader.examination.resume(position)
