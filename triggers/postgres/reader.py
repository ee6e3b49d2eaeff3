"""What the readers of both modes share: a memory and when it is worth a write, events, the alarm about slow writers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Self, TypeVar

import anyio
import structlog

from triggers.base import (
    Finding,
    JsonObject,
    JsonValue,
    Position,
    RejectedItem,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)
from triggers.postgres.catalog import PARTITION_BOUNDS
from triggers.postgres.checks import TableFacts
from triggers.postgres.options import NewRowsOptions, Place
from triggers.postgres.portions import length_of
from triggers.postgres.probes import Arguments
from triggers.postgres.source import Source
from triggers.postgres.sql import Question
from triggers.postgres.storage import OldRows, Storage
from triggers.postgres.values import ValueType, parse_rows

log = structlog.get_logger()

MemoryT = TypeVar("MemoryT")


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """Why a person should look, and what is known about the transaction that others wait for."""

    transaction: str | None
    details: Mapping[str, JsonValue]


class Reader(ABC, Generic[MemoryT]):
    """Reads what is new since its memory. After an error it is not used again: the next starts from the last commit."""

    moved_state_every: timedelta = timedelta(minutes=1)
    """How often a memory that moved without an event is worth a write. The clock's moves are worth none."""

    def __init__(self, source: Source, memory: MemoryT, *, written: MemoryT) -> None:
        self.source = source
        self.options = source.options
        self.memory = memory
        self.storage = self._written_storage = Storage.of(source.facts)
        self.alarm: Alarm | None = None
        self._kept_aside: dict[str, list[RejectedItem]] = {}
        """By key as JSON: what could not be told."""
        self._written: tuple[MemoryT, Alarm | None] = (written, None)
        self._written_at = anyio.current_time()

    @classmethod
    @abstractmethod
    async def begin(cls, source: Source, start: Place) -> Self:
        """Its first position is committed before it polls."""

    @classmethod
    @abstractmethod
    def resume(cls, source: Source, position: StoredPosition) -> Self:
        """Where the last commit left off."""

    @classmethod
    @abstractmethod
    def rewound(cls, source: Source, position: StoredPosition | None, to: Place) -> Self:
        """From `to` on, which is not `now`; what `position` knows to be open before that stays open."""

    @staticmethod
    @abstractmethod
    def trial(source: Source) -> tuple[str, Sequence[object]]:
        """A statement, and its arguments, that needs every right a poll needs; without `where`."""

    @staticmethod
    @abstractmethod
    def question(source: Source) -> Question:
        """Whether there is anything that a poll would read while nothing but new rows is waited for."""

    @abstractmethod
    def place(self) -> Arguments | None:
        """Where that question begins; None while more is waited for than new rows."""

    def rests_at(self) -> Arguments | None:
        """The place from which a poll would find nothing but new rows; None while there is something else to do."""
        return None if self._differs_from_written() else self.place()

    def _differs_from_written(self) -> bool:
        written, alarm = self._written
        return self.has_moved(written) or alarm != self.alarm or self.storage != self._written_storage

    async def recall(self, state: Mapping[str, Any]) -> None:
        """What a resumed position knows of the table's partitions; followed by `adopt`."""
        self.storage = self._written_storage = Storage.from_state(state) or self.storage

    async def adopt(self, facts: TableFacts) -> None:
        """Go on with a table that was examined anew. Raises `SourceChanged` when its rows cannot be told apart any more.

        What was not written of the memory is forgotten: rows may have been hidden from a poll that found none.
        """
        self.memory = self._written[0]
        self.source.facts = facts
        self.prepare()
        self.refuse_rewritten()
        attached = {}
        for oid in self.storage.new_partitions(facts):
            [bounds] = await self.source.fetch(PARTITION_BOUNDS, oid)
            old = await self.old_rows(oid, bounds["bounds"] or "true")
            if old is not None:
                attached[oid] = old
        self.storage = self.storage.after(facts, attached)

    @abstractmethod
    def prepare(self) -> None:
        """Make the statements that suit the table as it was examined."""

    @abstractmethod
    def refuse_rewritten(self) -> None:
        """Raises `SourceChanged` if `storage` and the table's files say that rows cannot be told apart any more."""

    @abstractmethod
    async def old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """The rows of a partition that is new which will not be told, as they lie below the position; None: there is none."""

    @abstractmethod
    def explain_old_rows(self, partition: str, old: OldRows) -> Finding: ...

    def findings(self) -> list[Finding]:
        """What a person should know of, in addition to what `check` found."""
        stored = self.source.facts.stored
        return [self.explain_old_rows(stored[oid].name, old) for oid, old in self.storage.attached.items()]

    @abstractmethod
    async def poll(self) -> TriggerBatch:
        """One look; the batch carries a position only if that is worth a write."""

    @abstractmethod
    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Try some of them again; the others are left, and are to be tried after the batch is committed."""

    @staticmethod
    @abstractmethod
    def key_of(row: Any) -> JsonValue:
        """As `rejected` names the row."""

    def keep_aside(self, items: Iterable[RejectedItem]) -> None:
        """These could not be told. Once one of them is told after all, it is settled."""
        for item in items:
            self._kept_aside.setdefault(json.dumps(item.key), []).append(item)

    def _settled(self, rows: Sequence[Any]) -> list[RejectedItem]:
        """What was kept aside, and is among these rows."""
        if not self._kept_aside:
            return []
        return [item for row in rows for item in self._kept_aside.pop(json.dumps(self.key_of(row)), ())]

    @staticmethod
    @abstractmethod
    def name_rows(rows: Sequence[Any]) -> JsonObject:
        """The part of an event's payload that says which rows it stands for."""

    @staticmethod
    @abstractmethod
    def name_size(row: Any) -> int:
        """The most bytes that a row takes there."""

    @abstractmethod
    def state(self) -> JsonObject:
        """The memory as small JSON."""

    @abstractmethod
    def watermark(self) -> dict[str, JsonValue]:
        """Answers "up to when? what is still open, and who holds it?"."""

    @abstractmethod
    def has_moved(self, written: MemoryT) -> bool:
        """Whether the memory tells more than the one that was written, but for the time."""

    @property
    def up_to(self) -> JsonValue:
        """The watermark's, where time moves it without a write."""
        return None

    def is_aged(self) -> bool:
        """Whether what was written is soon too old to go on from: then the memory is written silently."""
        return False

    def row_changes(self, written: MemoryT) -> RowChanges:  # noqa: ARG002  # for memories that may grow large
        """How the large part of the memory differs from the one that was written."""
        return RowChanges()

    def batch_of(
        self,
        rows: Sequence[Any],
        watermark: JsonObject,
        *,
        caught_up: bool = True,
        rejected: Sequence[RejectedItem] = (),
        tried: Sequence[RejectedItem] = (),
    ) -> TriggerBatch:
        """The rows as events; the position only if there is one, or if that is worth a write.

        `rejected` cannot be told; `tried` could not be before: those that are not among the rejected again are told, or gone, and
        the others were named before.
        """
        events = [*self.events_of(rows, self.options, watermark, self.source.facts.types)] if rows else []
        if rejected and not tried:
            events = [*events[:-1], self._naming(rejected, events[-1:], watermark)]
        again = {(json.dumps(item.key), item.version) for item in rejected}
        settled = {(json.dumps(item.key), item.version): item for item in (*self._settled(rows), *tried)}
        settled = {place: item for place, item in settled.items() if place not in again}
        self.keep_aside(rejected)
        position = self.position() if events or settled or rejected or self.worth_a_write() else None
        if position is None and self.is_aged():
            position = replace(self.position(), silent=True)
        gone = [*settled.values()]
        return TriggerBatch(events=events, position=position, caught_up=caught_up, rejected=rejected, settled=gone)

    def _naming(
        self, rejected: Sequence[RejectedItem], last: Sequence[TriggerEvent], watermark: JsonObject
    ) -> TriggerEvent:
        """The last event, or one without rows, with the keys of what is rejected."""
        nothing: JsonObject = {"rows": []} if self.options.columns else {}
        payload = {"table": self.options.table, "column": self.options.column, **self.name_rows([]), **nothing}
        [event] = last or [TriggerEvent(count=0, watermark=watermark, payload=payload)]
        return replace(event, payload={**event.payload, "rejected": [item.key for item in rejected]})

    @classmethod
    def events_of(
        cls,
        rows: Sequence[Any],
        options: NewRowsOptions,
        watermark: JsonObject,
        types: Mapping[str, ValueType] = {},
    ) -> Iterator[TriggerEvent]:
        """As large as a batch allows; a row holds itself as JSON text in `row` where columns are wanted."""
        batch = options.batch
        sizes = (cls.name_size(row) + (length_of(row["row"]) + 2 if options.columns else 0) for row in rows)
        for part in (rows[limits] for limits in batch.parts(sizes, batch.max_rows)):
            payload = {"table": options.table, "column": options.column, **cls.name_rows(part)}
            if options.columns:
                payload["rows"] = parse_rows([row["row"] for row in part], types)
            yield TriggerEvent(count=len(part), watermark=watermark, payload=payload)

    def position(self) -> Position:
        """The memory as it is now; from here on it counts as written."""
        state = {**self.state(), **self.storage.to_state(), "timeline": self.source.server.timeline}
        watermark = self.watermark() | ({} if self.alarm is None else {"alarm": self.alarm.details})
        changes = self.row_changes(self._written[0])
        self._written, self._written_at = (self.memory, self.alarm), anyio.current_time()
        self._written_storage = self.storage
        return Position(watermark=watermark, state=state, rows=changes)

    def worth_a_write(self) -> bool:
        due = anyio.current_time() - self._written_at >= self.moved_state_every.total_seconds()
        return due and self._differs_from_written()

    async def judge(self, reason: str | None, transaction: str | None) -> None:
        """Warns once for each transaction that others wait for too long, while there is a `reason` to."""
        if reason is None:
            self.alarm = None
        elif self.alarm is None or self.alarm.transaction != transaction:
            about = await self.source.about(transaction) if transaction is not None else {}
            self.alarm = Alarm(transaction=transaction, details={"reason": reason, **about})
            log.warning("postgres.gap_alarm", table=self.options.table, **self.watermark(), **self.alarm.details)

    def too_old(self, since: str, now: str) -> bool:
        """By the server's clock."""
        age = datetime.fromisoformat(now) - datetime.fromisoformat(since)
        return age >= self.options.gap_alarm.age


_ABOUT_HOLDERS: Final = {
    "user": "user",
    "application": "application",
    "database": "database",
    "state": "state",
    "started": "began",
    "prepared_as": "prepared as",
    "query": "last statement:",
}


def describe_what_is_open(watermark: Mapping[str, Any]) -> tuple[str, Mapping[str, float]]:
    """A watermark of either mode in words, with the number of gaps where it has gaps (pure)."""
    gaps, oldest, alarm = watermark.get("gaps"), watermark.get("oldest") or {}, watermark.get("alarm") or {}
    parts = []
    if gaps:
        ids = watermark["open_ids"]
        are, are_ids = "gap is" if gaps == 1 else "gaps are", "id" if ids == 1 else "ids"
        parts.append(f"{gaps} {are} open ({ids} {are_ids} may still come)")
    if oldest:
        pid = oldest["pid"]
        who = f"the prepared transaction {oldest['transaction']}" if pid is None else f"pid {pid}"
        parts.append(f"the oldest writer waited for is {who}, since {oldest['since']}")
    if alarm:
        details = [f"{words} {alarm[name]}" for name, words in _ABOUT_HOLDERS.items() if alarm.get(name) is not None]
        parts.append(f"alarm: {alarm['reason']}" + (f" ({', '.join(details)})" if details else ""))
    return "; ".join(parts), {} if gaps is None else {"gaps": gaps}
