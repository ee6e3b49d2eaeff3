"""`postgres.new_rows`: new rows of a PostgreSQL table, each exactly once, with no right but SELECT."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import anyio
from pydantic import BaseModel

from triggers.base import (
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
    refuse_errors,
)
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.explanations import Explanation
from triggers.hosting import SharedPollTrigger
from triggers.postgres.by_id.inventory import CountedRows
from triggers.postgres.by_id.reader import RowsByIdReader
from triggers.postgres.by_update.reader import RowsByUpdateReader
from triggers.postgres.connection import PostgresClient
from triggers.postgres.explanation import explain_row
from triggers.postgres.options import NewRowsOptions, place_of_rewind
from triggers.postgres.reading.alarms import describe_what_is_open
from triggers.postgres.reading.reader import Reader, resumed
from triggers.postgres.server.probed_tables import Arguments, ProbedWatcher
from triggers.postgres.server.probes import Probes
from triggers.postgres.table.examination import has_errors
from triggers.postgres.table.row_examination import RowExaminer
from triggers.postgres.table.survey import survey
from triggers.postgres.table.watched_table import Altered
from triggers.shared.postgres.failures import NAMES_AND_RIGHTS, sqlstate_of
from triggers.shared.postgres.sql import table_of_uri

BEGIN_NOW: Final[JsonObject] = {"begin": "now"}
"""The state after a rewind to now: the rows that exist when the watcher continues count as handled."""

MOST_EXAMINATIONS: Final = 5
"""How often in a row a table is examined that is altered again and again."""

ReadT = TypeVar("ReadT")
_READERS: Final[Mapping[str, type[Reader[Any]]]] = {"id": RowsByIdReader, "updated_at": RowsByUpdateReader}


class NewRows(CountedRows, SharedPollTrigger, IncrementalTrigger[NewRowsOptions, PostgresClient]):
    """Detection is exact where `check` finds neither error nor warning, as long as rows are not deleted before the next poll.

    Mode `id` also relies on ids that are drawn in the transaction that inserts them, and on a sequence that is not set back.
    Mode `updated_at` relies on writes that set the column to now() or later, on the server.
    """

    Options: ClassVar[type[BaseModel]] = NewRowsOptions
    connection_type: ClassVar[str | None] = "postgres"
    format: ClassVar[int] = 2
    check_again_every: timedelta = timedelta(minutes=1)
    """How often a running watcher checks that the name still means the table that was examined."""
    examine_every: timedelta = timedelta(hours=1)
    """How often a running watcher examines the table, and polls, although nothing indicates that the table was altered."""
    probed_from: timedelta = timedelta(milliseconds=100)
    """The shortest interval with which a watcher is probed together with others. With a shorter interval it polls alone."""

    def __init__(self, options: NewRowsOptions, client: PostgresClient, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._mode = _READERS[options.mode]
        self._examiner = RowExaminer(options, client, context, self._mode.trial)
        self._reader: Reader[Any] | None = None
        self._shared_rest = SharedRest(client.probes, options.interval, self.wake)
        self._is_parked = False
        """Whether `events` is closed for a rest after which it goes on: the table stays among the probed ones."""

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        """Return the table that `postgres://host/database/schema/table` names, each part percent-encoded."""
        table = table_of_uri(asset_uri)
        return {} if table is None else {"table": str(table)}

    @classmethod
    def describe(cls, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        """Say which gaps are open, and which transaction the watcher waits for, and since when. Mode `updated_at` has no gaps."""
        return describe_what_is_open(watermark if isinstance(watermark, Mapping) else {})

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    @property
    def up_to(self) -> JsonValue:
        return None if self._reader is None else self._reader.up_to

    @property
    def findings(self) -> Sequence[Finding]:
        of_reader = () if self._reader is None else self._reader.findings()
        of_listening = self.client.notifications.findings if self.options.listen else ()
        return [*self._examiner.warnings, *of_reader, *of_listening]

    async def check(self) -> list[Finding]:
        findings = await self._examiner.check(self.examine_every)
        if self.context.dry_run and not has_errors(findings):
            findings.append(await survey(self._examiner.table, self.options.where))  # for people who check or preview
        return findings

    def source_identity(self) -> JsonObject:
        return self._examiner.identity()

    def recognizes(self, stored: JsonValue) -> bool:
        return self._examiner.recognizes(stored)

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        refuse_errors(await self.check())
        return await explain_row(self._examiner.table, item, position)

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        unclosed = super().events(position)
        del position  # it may be large
        waking = self.client.notifications.waking
        try:
            with waking(self._examiner.table.facts.table_oid, self.wake) if self.options.listen else nullcontext():
                async with aclosing(unclosed) as batches:
                    async for batch in batches:
                        yield batch
        finally:
            if not self._is_parked:
                self._shared_rest.leave()

    def join_shared_poll(self) -> float | None:
        if self._reader is None or self.context.is_alone or self.interval < self.probed_from:
            return None
        if (place := self._reader.rests_at()) is None:
            return None
        self._shared_rest.begin(self._reader, place)
        longest = max(0.0, self._examiner.due_at - anyio.current_time())
        if self.up_to is not None:  # only a poll moves it
            longest = min(longest, self.check_again_every.total_seconds())
        return longest

    def leave_shared_poll(self) -> None:
        """End this rest. The table stays among the probed ones, so that their statement stays prepared."""
        self._shared_rest.end()

    def park(self, on_wake: Callable[[], None]) -> float | None:
        if self.options.listen:  # `events` listens, and it is closed while the trigger is parked
            return None
        seconds = super().park(on_wake)
        self._is_parked = seconds is not None
        return seconds

    def unpark(self, *, for_good: bool) -> None:
        super().unpark(for_good=for_good)
        self._is_parked = False
        if for_good:
            self._shared_rest.leave()

    @property
    def looked_at(self) -> float | None:
        return self._shared_rest.looked_at

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        async def examine() -> None:
            """Examine the table and continue with it. Raises if detection is no longer exact."""
            table = await self._examiner.check_again(self.examine_every)
            if self._reader is not None:
                await self._reader.adopt(table.facts)
                self._shared_rest.adopt(self._reader)

        unaltered, first = partial(_unaltered, examine, self.options.table), None
        if self._reader is None and position is not None and position.state != BEGIN_NOW:
            self._reader, first = await resumed(self._mode, self._examiner.table, position)
        if self._reader is None:
            start = self.options.start if position is None else "now"
            self._reader = await unaltered(lambda: self._mode.begin(self._examiner.table, start))
            first = await self._reader.examination.begin()
        if first is not None:
            yield TriggerBatch(position=first, caught_up=False)
        self._reader.examination.refuse()
        rejected, retried = ((), ()) if position is None else (position.rejected, position.retried)
        self._reader.batches.remember_rejected(rejected)
        while retried:
            batch, retried = await unaltered(partial(self._reader.retry, retried))
            yield batch
        caught_up = False
        while not caught_up:
            if self._examiner.is_due(self._shared_rest.unchanged_at, self.check_again_every):
                await examine()
            batch = await unaltered(self._reader.poll)
            caught_up = batch.caught_up
            yield batch

    def rewound(self, position: StoredPosition | None, to: str) -> Position:
        """Return the position at `start`, at `now`, at an id (exclusive) in mode `id`, or at a time in mode `updated_at`."""
        place = place_of_rewind(to, self.options.mode)
        if place == "now":
            return Position(
                watermark={"up_to": None, "rewound_to": "now"}, state=BEGIN_NOW, rows=RowChanges(clear=True)
            )
        known = position if position is not None and position.state != BEGIN_NOW else None
        reader = self._mode.rewound(self._examiner.table, known, place)
        return replace(reader.progress.position(), rows=RowChanges(clear=True))

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:
        return kept.state != BEGIN_NOW and self._mode.retold(kept, batch)


async def _unaltered(examine: Callable[[], Awaitable[None]], table: str, read: Callable[[], Awaitable[ReadT]]) -> ReadT:
    """Return what `read` returns while the table is as it was examined. If the table was altered, examine it and read again."""
    for _ in range(MOST_EXAMINATIONS):
        try:
            return await read()
        except Altered:
            await examine()
        except ConfigurationError as error:
            if not (sqlstate_of(error) or "").startswith(NAMES_AND_RIGHTS):
                raise
            await examine()  # the statement may succeed with the names and rights that the table has by now
    raise SourceUnavailable(f"{table} is being altered; the next poll tries again")


class SharedRest:
    """The rests of one watcher together with others, whose tables are probed by one statement."""

    __slots__ = ("_interval", "_probed", "_probes", "_wake")

    def __init__(self, probes: Probes, interval: timedelta, wake: Callable[[], None]) -> None:
        self._probes = probes
        self._interval = interval.total_seconds()
        self._wake = wake
        self._probed: ProbedWatcher | None = None

    def begin(self, reader: Reader[Any], place: Arguments) -> None:
        """Begin a rest; the first one joins the probes. Until `end`, they call `wake` when a poll may find something beyond `place`."""
        if self._probed is None:
            self._probed = self._probes.join(
                reader.question(reader.table), reader.table.facts, self._interval, self._wake
            )
        self._probed.rest(place, reader.table.server)

    def end(self) -> None:
        if self._probed is not None:
            self._probed.end_rest()

    def adopt(self, reader: Reader[Any]) -> None:
        """Continue with a table that was examined again. Leave the probes if the question about the table has changed."""
        if self._probed is not None and self._probed.table.question == reader.question(reader.table):
            self._probed.adopt(reader.table.facts)
        else:
            self.leave()

    def leave(self) -> None:
        if self._probed is not None:
            self._probes.leave(self._probed, self._interval)
            self._probed = None

    @property
    def looked_at(self) -> float | None:
        """When the last probe began that found nothing new for this rest, by `time.monotonic`; None: there was none."""
        return None if self._probed is None else self._probed.looked_at

    @property
    def unchanged_at(self) -> float | None:
        """When the table was last known to be unaltered; None before the first rest."""
        return None if self._probed is None else self._probed.unchanged_at
