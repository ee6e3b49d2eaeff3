"""What a reader remembers, beside what it last wrote into a position, and when the difference is worth a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Generic, Protocol, Self, TypeVar

import anyio

from triggers.base import JsonObject, JsonValue, Position, RowChanges
from triggers.hosting import UNRESOLVED
from triggers.postgres.catalog.relations import KnownRelations
from triggers.postgres.history.kept_history import IS_BACK, NEWEST_CHUNK
from triggers.postgres.history.kept_rows import Milestone
from triggers.postgres.reading.alarms import SlowWriterAlarm
from triggers.postgres.table.watched_table import WatchedTable


class ReaderMemory(Protocol):
    """What a reader of one mode remembers: a value that a position stores."""

    def to_state(self) -> JsonObject:
        """Return the memory as small JSON."""

    def watermark(self) -> dict[str, JsonValue]:
        """Return what a person asks for: how far the watcher is, what is still open, and which transaction keeps it open."""

    def has_moved_since(self, written: Self) -> bool:
        """Return whether the memory says more than the written one, apart from the time."""

    def has_aged_since(self, written: Self) -> bool:
        """Return whether the written memory will soon be too old to continue from: then a silent write is due."""

    def milestone(self) -> Milestone:
        """Return how far the memory has come."""

    def changes_since(self, written: Self) -> RowChanges:
        """Return how the large part of the memory, which is stored as rows, differs from the written one."""


MemoryT = TypeVar("MemoryT", bound=ReaderMemory)


class ReadProgress(Generic[MemoryT]):
    """The memory of one reader, the relations it was made from and its alarm, beside what the last position says of them."""

    __slots__ = (
        "_table",
        "_written_alarm",
        "_written_at",
        "_written_relations",
        "alarm",
        "is_overdue",
        "memory",
        "relations",
        "written",
    )

    moved_state_every: timedelta = timedelta(minutes=1)
    """How often a memory that changed without an event is worth a write. Changes that only follow the clock are worth none."""

    def __init__(self, table: WatchedTable, memory: MemoryT) -> None:
        self.memory = self.written = memory
        self.relations = self._written_relations = KnownRelations.of(table.facts)
        self.alarm = SlowWriterAlarm(table)
        self.is_overdue = False
        """Whether a silent write is due, however little has changed."""
        self._table = table
        self._written_alarm = self.alarm.raised
        self._written_at = anyio.current_time()

    def recall_relations(self, relations: KnownRelations | None) -> None:
        """Continue with the relations of a stored position, if it holds any."""
        self.relations = self._written_relations = relations or self.relations

    def forget_unwritten(self) -> None:
        """Return to the memory that was last written."""
        self.memory = self.written
        self._table.history.forget()

    @property
    def is_written(self) -> bool:
        """Whether the last position says all that is worth a write."""
        return not (
            self.memory.has_moved_since(self.written)
            or self._written_alarm != self.alarm.raised
            or self.relations != self._written_relations
        )

    def is_worth_a_write(self) -> bool:
        is_due = anyio.current_time() - self._written_at >= self.moved_state_every.total_seconds()
        return is_due and not self.is_written

    def needs_silent_write(self) -> bool:
        """Return whether the last position is, or will soon be, wrong or too old to continue from."""
        return self.is_overdue or self.memory.has_aged_since(self.written)

    def watermark(self) -> JsonObject:
        return self.memory.watermark() | dict(self.alarm.watermark())

    def position(self) -> Position:
        """Return the memory as a position; from here on it counts as written."""
        memory = self.memory
        history, facts = self._table.history, self._table.facts
        state: dict[str, JsonValue] = {**memory.to_state(), **self.relations.to_state()}
        state["timeline"] = self._table.server.timeline
        if history.changes:
            state[UNRESOLVED] = history.changes
        if history.is_back:
            state[IS_BACK] = True
        kept = history.take(memory.milestone(), facts.witness)
        state[NEWEST_CHUNK] = history.window.last_number
        changes = replace(
            memory.changes_since(self.written), delete_chunks_below=kept.delete_chunks_below, chunks=kept.chunks
        )
        watermark = self.watermark()
        self.written, self._written_alarm, self._written_at = memory, self.alarm.raised, anyio.current_time()
        self._written_relations = self.relations
        self.is_overdue = False
        return Position(watermark=watermark, state=state, rows=changes)
