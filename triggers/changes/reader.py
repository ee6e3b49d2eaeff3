"""The changes of one table, read from a slot. The slot is advanced after the commit, up to what was committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import anyio

from triggers.base import Finding, Position, RowChanges, StoredPosition, TriggerBatch, TriggerContext
from triggers.changes.codec import DecodedChange, RowCodec
from triggers.changes.events import bytes_of, change_as_json, events_of
from triggers.changes.keyed_changes import KeyedChange, parts_in_order, targets_of_change
from triggers.changes.log_position import ChangeStream, LoggedChange, LogPosition, OtherHistory, lsn_of, lsn_text
from triggers.changes.messages import UnknownMessage, decode
from triggers.changes.options import ChangesOptions
from triggers.changes.published_table import PublishedTable
from triggers.changes.session import SlotSession
from triggers.changes.slot import SlotState
from triggers.changes.statements import PEEK
from triggers.changes.watcher_slot import WatcherSlot
from triggers.errors import ConfigurationError, SourceChanged
from triggers.partition_keys import LONGEST, KeyedItems
from triggers.postgres.connection import PostgresClient
from triggers.postgres.row_limits import HugeRow
from triggers.postgres.table.examined_table import ExaminedTable
from triggers.shared.postgres.sql import quoted

MOST_MESSAGES: Final = 50_000
"""The number of messages after which a read ends: each read of a slot decodes again what the server keeps."""
PART: Final = 200
"""How many messages are fetched at a time."""
HELD_BACK: Final = 64 * 2**20
HELD_BACK_FOR: Final = 3600.0
"""Bytes of WAL, and seconds, after which a position is written although nothing happened, so that the slot can be advanced."""
_WITHOUT_KEY: Final = (
    f"give the columns of `partition` values of which a key has at most {LONGEST} characters, and the table REPLICA IDENTITY FULL,"
    " so that deletions have them"
)
_SHARE: Final = 4
"""The share of a batch's bytes, one in so many, that the texts of its changes may fill: JSON may be longer."""


class ChangeReader:
    """Reads the changes of one table for one watcher. It is not used after an error: the next one resumes from the last commit."""

    def __init__(
        self, options: ChangesOptions, client: PostgresClient, context: TriggerContext, published: PublishedTable
    ) -> None:
        self._options = options
        self._context = context
        self._session = client.own(SlotSession)
        self._slot = WatcherSlot(self._session, context, client.attempts)
        self._written: LogPosition | None = None
        """The position that was committed last."""
        self._written_at = 0.0
        self._drained_to = -1
        """The LSN up to which the slot had nothing more for this watcher."""
        self._codec: RowCodec | None = None
        self._has_more = False
        """Whether the last read left something in the slot."""
        self._published = published
        self._keys = KeyedItems(what="change", remedy=_WITHOUT_KEY)
        self._retained: Finding | None = None

    @property
    def findings(self) -> Sequence[Finding]:
        """What a person should know, in addition to the findings of `check`."""
        return [*self._published.findings, *self._keys.findings, *([] if self._retained is None else [self._retained])]

    async def close(self) -> None:
        await self._session.close()

    def rewound(self, position: StoredPosition | None) -> Position:
        """Return the position at `now`: the slot is made again when the watcher continues."""
        state: Mapping[str, Any] = {} if position is None else position.state
        watermark = {"up_to": None, "rewound_to": "now"}
        kept = {"begin": "now", "slot": state.get("slot", self._slot.name)}
        return Position(watermark=watermark, state=kept, rows=RowChanges(clear=True), is_final=True)

    async def poll(
        self, examined: Callable[[], Awaitable[ExaminedTable[ChangesOptions]]], position: StoredPosition | None
    ) -> AsyncGenerator[TriggerBatch, None]:
        """Yield what was committed since the position, which is given to the first poll. `examined` returns the table as it is now."""
        table = await examined()
        if self._written is None:
            async with aclosing(self._begin(table, position)) as batches:
                async for batch in batches:
                    yield batch
        self._has_more = self._written is not None
        while self._has_more:
            slot = await self._slot.read(self._written)
            self._retained = slot.finding(self._options.max_retained, self._context.watcher)
            if slot.retained > self._options.max_retained and not self._context.dry_run:
                yield self._giving_up(table, slot)
                await self._slot.drop()
                raise self._dropped(slot.retained)
            if slot.flushed == self._drained_to:
                break
            async with aclosing(self._read(table, slot)) as batches:
                async for batch in batches:
                    yield batch
        yield TriggerBatch()

    async def _begin(
        self, table: ExaminedTable[ChangesOptions], position: StoredPosition | None
    ) -> AsyncGenerator[TriggerBatch, None]:
        state: Mapping[str, Any] = {} if position is None else position.state
        if position is not None and "begin" not in state:
            self._slot.name, self._written = state["slot"], LogPosition.from_state(state)
            self._written_at = anyio.current_time()
            self._published.compare(table, state["shape"])
            self._published.compare_timeline(state["timeline"], table.server)
            if (retained := state.get("dropped")) is not None:
                await self._slot.drop()
                raise self._dropped(retained)
        elif not self._context.dry_run:
            first = await self._slot.begin(table.facts.server_version, state.get("slot"))
            yield TriggerBatch(position=self._position(table, first), caught_up=False)
            self._note_written(first)

    async def _read(self, table: ExaminedTable[ChangesOptions], slot: SlotState) -> AsyncGenerator[TriggerBatch, None]:
        """Read the slot once, and advance it to what was committed."""
        before, confirmed = self._written, slot.confirmed
        assert before is not None and confirmed is not None  # noqa: S101, PT018  `read` refuses the others
        until = before.reported_up_to if confirmed < before.reported_up_to else None
        stream = ChangeStream(before, table.facts.table_oid, confirmed)
        async with aclosing(self._portions(stream, until)) as portions:
            async for changes, position in portions:
                for batch, log_position in await self._batches(table, changes, position):
                    yield batch
                    self._note_written(log_position)
        end = stream.position.end if self._has_more else max(stream.position.end, slot.flushed)
        if self._written is before and self._is_worth_a_write(log_position := replace(stream.position, end=end)):
            yield TriggerBatch(position=replace(self._position(table, log_position), silent=True), caught_up=False)
            self._note_written(log_position)
        if not self._has_more:
            self._drained_to = slot.flushed
        await self._slot.advance(confirmed, min((self._written or before).end, end))

    async def _portions(
        self, stream: ChangeStream, until: int | None
    ) -> AsyncGenerator[tuple[Sequence[LoggedChange], LogPosition], None]:
        """Yield the changes that were not reported, as many at a time as a batch may have, with the position behind them."""
        pending: list[LoggedChange] = []
        size = 0
        async with aclosing(self._changes(stream, until)) as changes:
            async for change, length in changes:
                if pending and self._is_full(len(pending), size + length):
                    yield pending, pending[-1].position
                    pending, size = [], 0
                pending.append(change)
                size += length
        if pending:
            yield pending, stream.position

    async def _changes(self, stream: ChangeStream, until: int | None) -> AsyncGenerator[tuple[LoggedChange, int], None]:
        """Yield the changes that were not reported, with the bytes of their messages. Raises `SourceChanged` for another history."""
        count = None if until is not None else MOST_MESSAGES
        arguments = (
            self._slot.name,
            None if until is None else lsn_text(until),
            count,
            quoted(self._options.publication_name),
        )
        read = self._session.parts(PEEK, *arguments, size=PART, limit=self._context.poll_timeout)
        messages = 0
        try:
            async with aclosing(read) as parts:
                async for rows in parts:
                    messages += len(rows)
                    for row in rows:
                        if (change := stream.take(lsn_of(row["lsn"]), decode(row["data"]))) is not None:
                            yield change, len(row["data"])
            self._has_more = count is None or messages >= count
            if count is None or not self._has_more:
                stream.end()
        except OtherHistory as error:
            raise self._slot.lost(f"is on a server with another history: {error}", self._written) from error
        except UnknownMessage as error:
            raise ConfigurationError(f"the slot {self._slot.name} hands out {error}") from error

    def _is_full(self, count: int, size: int) -> bool:
        share = 2 * _SHARE if self._options.dividing_columns else _SHARE  # a row that moves stands in two events
        return count >= self._options.batch.max_rows or size > self._context.max_batch_bytes // share

    async def _batches(
        self, table: ExaminedTable[ChangesOptions], changes: Sequence[LoggedChange], end: LogPosition
    ) -> Sequence[tuple[TriggerBatch, LogPosition]]:
        """Return the changes as batches, each with the position behind it; `end` is the last one's."""
        if self._codec is None or self._codec.table is not table:
            self._codec = RowCodec(table)
        decoded = await self._codec.decode(changes)
        keyed = [self._keyed(*each) for each in zip(changes, decoded, strict=True)]
        before, batches, divided = self._written or end, [], bool(self._options.dividing_columns)
        for part in parts_in_order(keyed, self._options.further_assets) if divided else [slice(len(keyed))]:
            log_position = end if part.stop == len(keyed) else changes[part.stop - 1].position
            watermark = {"from": before.up_to, "to": log_position.up_to}
            events = [*events_of(keyed[part], self._keys, self._options, watermark)]
            batch = TriggerBatch(events=events, position=self._position(table, log_position), caught_up=False)
            batches.append((batch, log_position))
            before = log_position
        return batches

    def _keyed(self, change: LoggedChange, decoded: DecodedChange) -> KeyedChange:
        member, most = change_as_json(change, decoded), self._context.max_batch_bytes
        if (size := bytes_of(member)) > most:
            raise HugeRow(self._options.table, f"the key {member['key']}", size, most)
        return KeyedChange(member=member, size=size, targets=targets_of_change(change.op, decoded, self._options))

    def _is_worth_a_write(self, log_position: LogPosition) -> bool:
        """Return whether a position without events is written: the next read begins behind it, or the slot holds much back."""
        before = self._written
        if before is None or log_position == before:
            return False
        waited = anyio.current_time() - self._written_at
        held_back = log_position.end - before.end
        return self._has_more or held_back >= HELD_BACK or (held_back > 0 and waited >= HELD_BACK_FOR)

    def _position(self, table: ExaminedTable[ChangesOptions], log_position: LogPosition) -> Position:
        timeline = table.server.timeline
        state = {
            "slot": self._slot.name,
            **log_position.to_state(),
            "timeline": timeline,
            "shape": self._published.shape,
        }
        return Position(watermark={"up_to": log_position.up_to}, state=state)

    def _note_written(self, log_position: LogPosition) -> None:
        self._written, self._written_at = log_position, anyio.current_time()

    def _giving_up(self, table: ExaminedTable[ChangesOptions], slot: SlotState) -> TriggerBatch:
        """Return a batch whose position says that the slot is dropped, so that a person learns it whatever happens next."""
        assert self._written is not None  # noqa: S101  the caller has begun
        position = self._position(table, self._written)
        state = {**position.state, "dropped": slot.retained}
        return TriggerBatch(position=replace(position, state=state, silent=True))

    def _dropped(self, retained: int) -> SourceChanged:
        most = self._options.max_retained
        fault = f"was dropped because it made the server keep {retained:,} bytes of WAL, over {most:,} (`max_retained`)"
        return self._slot.lost(fault, self._written)
