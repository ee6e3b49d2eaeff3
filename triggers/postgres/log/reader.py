"""Mode `log`: the changes of one table, read from a slot. The slot is advanced after the commit, up to what was committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import anyio

from triggers.base import Finding, Position, RowChanges, StoredPosition, TriggerBatch, TriggerContext
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.postgres.bad_rows import HugeRow
from triggers.postgres.connection import PostgresClient
from triggers.postgres.failures import sqlstate_of
from triggers.postgres.log.checks import judge_log
from triggers.postgres.log.codec import RowCodec
from triggers.postgres.log.events import bytes_of, change_as_json, events_of
from triggers.postgres.log.messages import UnknownMessage, decode
from triggers.postgres.log.place import ChangeStream, LoggedChange, LogPosition, OtherHistory, lsn_of, lsn_text
from triggers.postgres.log.session import LogSession
from triggers.postgres.log.slot import (
    FIRST_PATIENCE,
    IN_USE,
    MOST_PATIENCE,
    SlotState,
    create,
    drop,
    lost_sentence,
    slot_name,
)
from triggers.postgres.log.statements import ADVANCE, IDENTITIES, PEEK, PUBLISHED
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.sql import quoted
from triggers.postgres.watched_table import WatchedTable

MOST_MESSAGES: Final = 50_000
"""The number of messages after which a read ends: each read of a slot decodes again what the server keeps."""
PART: Final = 200
"""How many messages are fetched at a time."""
HELD_BACK: Final = 64 * 2**20
HELD_BACK_FOR: Final = 3600.0
"""Bytes of WAL, and seconds, after which a position is written although nothing happened, so that the slot can be advanced."""
_SHARE: Final = 4
"""The share of a batch's bytes, one in so many, that the texts of its changes may fill: JSON may be longer."""


class LogReader:
    """Reads the changes of one table for one watcher. It is not used after an error: the next one resumes from the last commit."""

    def __init__(self, options: NewRowsOptions, client: PostgresClient, context: TriggerContext) -> None:
        self._options = options
        self._client = client
        self._context = context
        self._session = client.own(LogSession)
        self._slot = slot_name(context.installation, context.watcher)
        self._written: LogPosition | None = None
        """The position that was committed last."""
        self._written_at = 0.0
        self._drained_to = -1
        """The LSN up to which the slot had nothing more for this watcher."""
        self._codec: RowCodec | None = None
        self._has_more = False
        """Whether the last read left something in the slot."""
        self._shape: Mapping[str, str] = {}
        """Hashes of what changes are reported by."""
        self._retained: Finding | None = None
        self._notes: list[Finding] = []

    @property
    def findings(self) -> Sequence[Finding]:
        """What a person should know, in addition to the findings of `check`."""
        return [*self._notes, *([] if self._retained is None else [self._retained])]

    async def close(self) -> None:
        await self._session.close()

    @staticmethod
    def trial(table: WatchedTable) -> tuple[str, Sequence[object]]:
        """Return a statement that needs the right to read what is configured, as jobs do by key."""
        columns = ", ".join(quoted(name) for name in (*table.facts.primary_key, *table.options.columns))
        return f"SELECT {columns} FROM {table.options.source.sql}", []  # noqa: S608

    async def check(self, table: WatchedTable) -> list[Finding]:
        """Judge server, publication and replica identities, and note what changed since they were last judged."""
        options, facts = self._options, table.facts
        name = options.source
        [published] = await table.fetch(PUBLISHED, options.publication_name, name.schema, name.name)
        identities = await table.fetch(IDENTITIES, facts.relations)
        types = [facts.columns.get(column) for column in (*facts.primary_key, *options.columns)]
        of_table = ("pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot", "filter", "columns")
        before, self._shape = (
            self._shape,
            {
                "the publication": _hash([published[column] for column in of_table]),
                "the replica identity": _hash([dict(row) for row in identities]),
                "a column's type": _hash(types),
            },
        )
        self._note_changes(before, self._shape)
        return judge_log(facts, options, published, identities)

    def rewound(self, position: StoredPosition | None) -> Position:
        """Return the position at `now`: the slot is made again when the watcher continues."""
        state: Mapping[str, Any] = {} if position is None else position.state
        watermark = {"up_to": None, "rewound_to": "now"}
        kept = {"begin": "now", "slot": state.get("slot", self._slot)}
        return Position(watermark=watermark, state=kept, rows=RowChanges(clear=True), is_final=True)

    async def poll(self, table: WatchedTable, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Yield what was committed since the position, which is given to the first poll."""
        if self._written is None:
            async with aclosing(self._begin(table, position)) as batches:
                async for batch in batches:
                    yield batch
        self._has_more = self._written is not None
        while self._has_more:
            slot = await self._state()
            if slot.retained > self._options.max_retained and not self._context.dry_run:
                yield self._giving_up(table, slot)
                await self._drop(self._slot)
                raise SourceChanged(self._dropped(slot.retained))
            if slot.flushed == self._drained_to:
                break
            async with aclosing(self._read(table, slot)) as batches:
                async for batch in batches:
                    yield batch
        yield TriggerBatch()

    async def _begin(self, table: WatchedTable, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        state: Mapping[str, Any] = {} if position is None else position.state
        if position is not None and "begin" not in state:
            self._slot, self._written = state["slot"], LogPosition.from_state(state)
            self._written_at = anyio.current_time()
            self._note_changes(state["shape"], self._shape)
            self._note_timeline(state["timeline"], table.server.timeline)
            if (retained := state.get("dropped")) is not None:
                await self._drop(self._slot)
                raise SourceChanged(self._dropped(retained))
        elif not self._context.dry_run:
            if state:
                await self._drop(state["slot"])
            first = await self._first(table, is_again=bool(state))
            yield TriggerBatch(position=self._position(table, first), caught_up=False)
            self._note_written(first)

    async def _first(self, table: WatchedTable, *, is_again: bool) -> LogPosition:
        """Make the slot, or take one that a start made before it could commit a position. Raises `SourceBusy`, `SourceChanged`."""
        if is_again:
            await self._drop(self._slot)
        slot = await SlotState.read(self._session, self._slot)
        if slot.is_there:
            return LogPosition(end=slot.refuse_lost(None, self._context.watcher))
        attempts = self._client.attempts
        patience = min(FIRST_PATIENCE * 2 ** attempts[self._slot], MOST_PATIENCE)
        attempts[self._slot] += 1
        begins = await create(self._session, self._slot, table.facts.server_version, patience)
        del attempts[self._slot]
        return LogPosition(end=begins)

    async def _state(self) -> SlotState:
        """Read the state of the slot. Raises `SourceChanged` if it is lost, `SourceBusy` if another client reads it now."""
        slot = await SlotState.read(self._session, self._slot)
        slot.refuse_lost(self._written, self._context.watcher)
        slot.refuse_in_use()
        self._retained = slot.finding(self._options.max_retained, self._context.watcher)
        return slot

    async def _read(self, table: WatchedTable, slot: SlotState) -> AsyncGenerator[TriggerBatch, None]:
        """Read the slot once, and advance it to what was committed."""
        before, confirmed = self._written, slot.confirmed
        assert before is not None and confirmed is not None  # noqa: S101, PT018  `_state` refuses the others
        until = before.reported_up_to if confirmed < before.reported_up_to else None
        stream = ChangeStream(before, table.facts.table_oid, confirmed)
        pending: list[LoggedChange] = []
        size = 0
        async with aclosing(self._changes(stream, until)) as changes:
            async for change, length in changes:
                if pending and self._is_full(len(pending), size + length):
                    yield await self._batch(table, pending, pending[-1].position)
                    self._note_written(pending[-1].position)
                    pending, size = [], 0
                pending.append(change)
                size += length
        end = stream.position.end if self._has_more else max(stream.position.end, slot.flushed)
        if pending:
            yield await self._batch(table, pending, stream.position)
            self._note_written(stream.position)
        elif self._is_worth_a_write(place := replace(stream.position, end=end)):
            yield TriggerBatch(position=replace(self._position(table, place), silent=True), caught_up=False)
            self._note_written(place)
        if not self._has_more:
            self._drained_to = slot.flushed
        await self._advance(confirmed, min((self._written or before).end, end))

    async def _changes(self, stream: ChangeStream, until: int | None) -> AsyncGenerator[tuple[LoggedChange, int], None]:
        """Yield the changes that were not reported, with the bytes of their messages. Raises `SourceChanged` for another history."""
        count = None if until is not None else MOST_MESSAGES
        arguments = (
            self._slot,
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
            fault = f"is on a server with another history: {error}"
            raise SourceChanged(lost_sentence(self._slot, fault, self._written, self._context.watcher)) from error
        except UnknownMessage as error:
            raise ConfigurationError(f"the slot {self._slot} hands out {error}") from error

    def _is_full(self, count: int, size: int) -> bool:
        return count >= self._options.batch.max_rows or size > self._context.max_batch_bytes // _SHARE

    async def _batch(self, table: WatchedTable, changes: Sequence[LoggedChange], place: LogPosition) -> TriggerBatch:
        if self._codec is None or self._codec.table is not table:
            self._codec = RowCodec(table)
        decoded = await self._codec.decode(changes)
        members = [change_as_json(*each) for each in zip(changes, decoded, strict=True)]
        sizes = [bytes_of(each) for each in members]
        for each, size in zip(members, sizes, strict=True):
            if size > self._context.max_batch_bytes:
                raise HugeRow(self._options.table, f"the key {each['key']}", size, self._context.max_batch_bytes)
        before = place if self._written is None else self._written
        watermark = {"from": before.up_to, "to": place.up_to}
        events = [*events_of(members, sizes, self._options, watermark)]
        return TriggerBatch(events=events, position=self._position(table, place), caught_up=False)

    def _is_worth_a_write(self, place: LogPosition) -> bool:
        """Return whether a position without events is written: the next read begins behind it, or the slot holds much back."""
        before = self._written
        if before is None or place == before:
            return False
        waited = anyio.current_time() - self._written_at
        held_back = place.end - before.end
        return self._has_more or held_back >= HELD_BACK or (held_back > 0 and waited >= HELD_BACK_FOR)

    async def _advance(self, confirmed: int, to: int) -> None:
        """Let the server forget what was committed. If that fails, the next read recognizes it."""
        if to <= confirmed or self._context.dry_run:
            return
        limit = self._context.poll_timeout
        try:
            async with aclosing(self._session.parts(ADVANCE, self._slot, lsn_text(to), size=1, limit=limit)) as parts:
                async for _ in parts:
                    pass
        except SourceUnavailable as error:
            if sqlstate_of(error) != IN_USE:
                raise

    def _position(self, table: WatchedTable, place: LogPosition) -> Position:
        timeline = table.server.timeline
        state = {"slot": self._slot, **place.to_state(), "timeline": timeline, "shape": self._shape}
        return Position(watermark={"up_to": place.up_to}, state=state)

    def _note_written(self, place: LogPosition) -> None:
        self._written, self._written_at = place, anyio.current_time()

    def _giving_up(self, table: WatchedTable, slot: SlotState) -> TriggerBatch:
        """Return a batch whose position says that the slot is dropped, so that a person learns it whatever happens next."""
        assert self._written is not None  # noqa: S101  the caller has begun
        position = self._position(table, self._written)
        state = {**position.state, "dropped": slot.retained}
        return TriggerBatch(position=replace(position, state=state, silent=True))

    def _dropped(self, retained: int) -> str:
        most = self._options.max_retained
        fault = f"was dropped because it made the server keep {retained:,} bytes of WAL, over {most:,} (`max_retained`)"
        return lost_sentence(self._slot, fault, self._written, self._context.watcher)

    async def _drop(self, name: str) -> None:
        if not self._context.dry_run:
            await drop(self._session, name)

    def _note_changes(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        table = self._options.table
        for name in (name for name in now if name in before and before[name] != now[name]):
            message = f"{name} of {table} changed: changes from then on are reported as it says now"
            self._note(
                Finding.warning("changed", message, f"compare what consumers of {table} expect with what it is now")
            )

    def _note_timeline(self, before: int, now: int) -> None:
        if before != now:
            message = (
                f"the server's timeline changed from {before} to {now}: what was reported is recognized in the slot"
            )
            self._note(Finding.warning("history", message, "nothing, unless the watcher is blocked"))

    def _note(self, finding: Finding) -> None:
        if finding not in self._notes:
            self._notes.append(finding)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
