"""`postgres.new_rows`: new rows of a PostgreSQL table, each exactly once, with nothing but SELECT."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import unquote, urlsplit

import anyio
from pydantic import BaseModel

from triggers.base import (
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    RejectedItem,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
    refuse_errors,
)
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.postgres.by_id import RowsByIdReader
from triggers.postgres.by_update import RowsByUpdateReader, VersionsBatch
from triggers.postgres.connection import PostgresClient
from triggers.postgres.failures import NAMES_AND_RIGHTS, sqlstate_of
from triggers.postgres.ledger import Ledger
from triggers.postgres.options import NewRowsOptions, Place, check_place, parse_place
from triggers.postgres.probes import Probed
from triggers.postgres.reader import Reader, describe_what_is_open
from triggers.postgres.source import Altered, Source, examine
from triggers.postgres.window import Window

BEGIN_NOW: Final[JsonObject] = {"begin": "now"}
"""The state after a rewind to now: what is there when the watcher goes on counts as handled."""

MOST_EXAMINATIONS: Final = 5
"""In a row, of a table that is altered again and again."""

ReadT = TypeVar("ReadT")
_READERS: Final[Mapping[str, type[Reader[Any]]]] = {"id": RowsByIdReader, "updated_at": RowsByUpdateReader}


class NewRows(IncrementalTrigger[NewRowsOptions, PostgresClient]):
    """Detection is exact where `check` finds neither error nor warning, and as long as rows live to the next poll.

    Mode `id` also counts on ids drawn in the transaction that inserts them, and on a sequence nobody sets back; mode
    `updated_at` on writes that set the column to now() or later, on the server.
    """

    Options: ClassVar[type[BaseModel]] = NewRowsOptions
    connection_type: ClassVar[str | None] = "postgres"
    format: ClassVar[int] = 2
    look_again_every: timedelta = timedelta(minutes=1)
    """How often a running watcher makes sure that the name still means the table it was checked on."""
    examine_every: timedelta = timedelta(hours=1)
    """How often it does so, and polls, although all that others see of the table says that nothing was altered."""
    probed_from: timedelta = timedelta(milliseconds=100)
    """Who polls more often than this does it alone."""

    def __init__(self, options: NewRowsOptions, client: PostgresClient, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._lane = client.lane(context.watcher, options.lock_timeout, is_alone=context.is_alone)
        self._reader_class = _READERS[options.mode]
        self._reader: Reader[Any] | None = None
        self._source: Source | None = None
        self._warnings: list[Finding] = []
        """Of the last check."""
        self._examined_at = self._examine_at = 0.0
        self._probed: Probed | None = None
        self._is_parked = False

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        """`postgres://host/database/schema/table` names the table."""
        uri = urlsplit(asset_uri)
        match uri.path.split("/"):
            case [_, _, schema, table] if uri.scheme == "postgres":
                return {"table": f"{unquote(schema)}.{unquote(table)}"}
        return {}

    @classmethod
    def describe(cls, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        """Which gaps are open, for whom rows wait and since when; mode `updated_at` has no gaps."""
        return describe_what_is_open(watermark if isinstance(watermark, Mapping) else {})

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    @property
    def up_to(self) -> JsonValue:
        return None if self._reader is None else self._reader.up_to

    @property
    def findings(self) -> Sequence[Finding]:
        return [*self._warnings, *(self._reader.findings() if self._reader is not None else ())]

    async def check(self) -> list[Finding]:
        findings, self._source = await examine(self.options, self.client, self._lane, self._reader_class.trial)
        if self._source is not None:
            self._source.max_batch_bytes = self.context.max_batch_bytes
            self._source.watcher = self.context.watcher
        self._warnings = [finding for finding in findings if finding.level == "warning"]
        self._examined_at = anyio.current_time()
        spread = 1 - self.context.random() / 2
        self._examine_at = self._examined_at + self.examine_every.total_seconds() * spread
        return findings

    def source_identity(self) -> JsonObject:
        source = self._checked()
        return {
            "trigger": "postgres.new_rows",
            "system_identifier": source.server.system_identifier,
            "database": source.facts.database_oid,
            "table": source.facts.table_oid,
            "mode": self.options.mode,
            "column": self.options.column,
            "where": self.options.where,
        }

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        unclosed = super().events(position)
        del position  # it may be large
        try:
            with self._listening():
                async with aclosing(unclosed) as batches:
                    async for batch in batches:
                        yield batch
        finally:
            if not self._is_parked:
                self._leave_probes()

    def _listening(self) -> AbstractContextManager[object]:
        if not self.options.listen:
            return nullcontext()
        return self.client.notifications.waking(self._checked().facts.table_oid, self.wake)

    async def pause(self) -> None:
        """Who waits for nothing but new rows is probed together with others, and woken when there may be some."""
        longest = self._rest_among_others()
        if longest is None:
            await super().pause()
            return
        try:
            await self.rest(longest)
        finally:
            self._rise()

    def park(self, on_wake: Callable[[], None]) -> float | None:
        if self._is_woken or self.options.listen or (longest := self._rest_among_others()) is None:
            return None
        self._is_parked, self._on_wake = True, on_wake
        return longest

    def unpark(self, *, for_good: bool) -> None:
        super().unpark(for_good=for_good)
        self._is_parked = False
        self._rise()
        if for_good:
            self._leave_probes()

    def _rest_among_others(self) -> float | None:
        """For how long at most; None for who polls by itself."""
        place = None if self._reader is None or self._polls_alone else self._reader.rests_at()
        if self._reader is None or place is None:
            return None
        if self._probed is None:
            self._probed = self.client.probes.join(
                self._reader.question(self._reader.source),
                self._reader.source.facts,
                self.interval.total_seconds(),
                self.wake,
            )
        self._probed.rest(place, self._reader.source.server)
        longest = max(0.0, self._examine_at - anyio.current_time())
        if self.up_to is not None:  # which only a poll moves
            longest = min(longest, self.look_again_every.total_seconds())
        return longest

    def _rise(self) -> None:
        if self._probed is not None:
            self._probed.rise()

    @property
    def _polls_alone(self) -> bool:
        return self.context.is_alone or self.interval < self.probed_from

    @property
    def looked_at(self) -> float | None:
        return None if self._probed is None else self._probed.looked_at

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._reader is None:
            self._reader = await self._resumed(position)
        if self._reader is None:
            start = self.options.start if position is None else "now"
            self._reader = await self._unaltered(lambda: self._reader_class.begin(self._checked(), start))
            yield TriggerBatch(position=self._reader.position(), caught_up=False)
        if position is not None:
            self._reader.keep_aside(position.rejected)
        retried: Sequence[RejectedItem] = () if position is None else position.retried
        while retried:
            batch, retried = await self._unaltered(partial(self._reader.retry, retried))
            yield batch
        caught_up = False
        while not caught_up:
            await self._look_again()
            batch = await self._unaltered(self._reader.poll)
            caught_up = batch.caught_up
            yield batch

    async def _unaltered(self, read: Callable[[], Awaitable[ReadT]]) -> ReadT:
        """What `read` gives of the table as it was examined: else it is examined anew, and read once more."""
        for _ in range(MOST_EXAMINATIONS):
            try:
                return await read()
            except Altered:
                await self._examine()
            except ConfigurationError as error:
                if not (sqlstate_of(error) or "").startswith(NAMES_AND_RIGHTS):
                    raise
                await self._examine()  # it may have names and rights again with which the statement succeeds
        raise SourceUnavailable(f"{self.options.table} is being altered; the next poll tries again")

    def rewound(self, position: StoredPosition | None, to: str) -> Position:
        """To `start`, `now`, an id (exclusive) in mode `id`, a time in mode `updated_at`."""
        place = self._place(to)
        if place == "now":
            return Position(
                watermark={"up_to": None, "rewound_to": "now"}, state=BEGIN_NOW, rows=RowChanges(clear=True)
            )
        known = position if position is not None and position.state != BEGIN_NOW else None
        reader = self._reader_class.rewound(self._checked(), known, place)
        return replace(reader.position(), rows=RowChanges(clear=True))

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:
        if kept.state == BEGIN_NOW:
            return False
        if self.options.mode == "updated_at":
            window = Window.from_state(kept.state, kept.rows)
            return isinstance(batch, VersionsBatch) and not batch.comes_again_from(window)
        ledger = Ledger.from_state(kept.state)
        payloads: Iterable[Any] = (event.payload for event in batch.events)
        aside: Iterable[Any] = (item.key for item in batch.rejected)
        ranges = [
            *(limits for payload in payloads for limits in payload["ranges"]),
            *((number, number) for number in aside),
        ]
        return all(ledger.accounts_for(low, high) for low, high in ranges)

    def _place(self, to: str) -> Place:
        mode = self.options.mode
        try:
            place: Place = parse_place("all" if to == "start" else to)
            check_place(place, mode)
        except ValueError as error:
            other = "an id" if mode == "id" else "an ISO timestamp like 2026-11-20T09:00:00Z"
            raise ConfigurationError(
                f"with mode: {mode} there is no rewind to {to!r}: write start, now or {other}"
            ) from error
        return place

    async def _resumed(self, position: StoredPosition | None) -> Reader[Any] | None:
        """None where a beginning is to be made."""
        if position is None or position.state == BEGIN_NOW:
            return None
        source = self._checked()
        state: Mapping[str, Any] = position.state
        source.notice_timeline(since=state["timeline"], now=source.server.timeline)
        reader = self._reader_class.resume(source, position)
        await reader.recall(state)
        await reader.adopt(source.facts)
        return reader

    async def _look_again(self) -> None:
        """Another table may have taken the name, and what is exact today may have been altered."""
        now, unchanged_at = anyio.current_time(), self._probed.unchanged_at if self._probed else self._examined_at
        if now < self._examine_at and now - unchanged_at < self.look_again_every.total_seconds():
            return
        await self._examine()

    async def _examine(self) -> None:
        """Raises when detection would not be exact any more."""
        identity = self.source_identity()
        refuse_errors(await self.check())
        if self.source_identity() != identity:
            raise SourceChanged(f"{self.options.table} is another table now; `watcher rewind` decides where to begin")
        if self._reader is None:
            return
        await self._reader.adopt(self._checked().facts)
        if self._probed is not None and self._probed.table.question == self._reader.question(self._reader.source):
            self._probed.take(self._reader.source.facts)
        else:
            self._leave_probes()

    def _leave_probes(self) -> None:
        if self._probed is not None:
            self.client.probes.leave(self._probed, self.interval.total_seconds())
            self._probed = None

    def _checked(self) -> Source:
        if self._source is None:
            raise ConfigurationError("the start-up checks found errors: mend those first")
        return self._source
