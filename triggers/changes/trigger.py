"""`postgres.changes`: every committed change of a PostgreSQL table, once and in the order of the commits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext
from datetime import timedelta
from functools import partial
from typing import ClassVar

from pydantic import BaseModel

from triggers.base import (
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.changes.examination import ChangesExaminer
from triggers.changes.options import ChangesOptions
from triggers.changes.published_table import PublishedTable
from triggers.changes.reader import ChangeReader
from triggers.errors import ConfigurationError
from triggers.explanations import Explanation
from triggers.postgres.connection import PostgresClient
from triggers.postgres.table.examination import has_errors
from triggers.postgres.table.survey import survey
from triggers.shared.postgres.sql import table_of_uri


class PostgresChanges(IncrementalTrigger[ChangesOptions, PostgresClient]):
    """Detection is exact as long as the watcher's replication slot is there and `check` finds no error.

    `postgres.new_rows` with `mode: log` is another way to write this trigger: the identities and states of their positions are
    the same, byte for byte, and the slot has the same name.
    """

    Options: ClassVar[type[BaseModel]] = ChangesOptions
    connection_type: ClassVar[str | None] = "postgres"
    format: ClassVar[int] = 2
    check_again_every: timedelta = timedelta(minutes=1)
    """How often a running watcher checks that the name still means the table that was examined."""
    examine_every: timedelta = timedelta(hours=1)
    """How often a running watcher examines the table although nothing indicates that the table was altered."""

    def __init__(self, options: ChangesOptions, client: PostgresClient, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        published = PublishedTable()
        self._examiner = ChangesExaminer(options, client, context, published)
        self._reader = ChangeReader(options, client, context, published)

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        """Return the table that `postgres://host/database/schema/table` names, each part percent-encoded."""
        table = table_of_uri(asset_uri)
        return {} if table is None else {"table": str(table)}

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    @property
    def findings(self) -> Sequence[Finding]:
        of_listening = self.client.notifications.findings if self.options.listen else ()
        return [*self._examiner.warnings, *self._reader.findings, *of_listening]

    async def check(self) -> list[Finding]:
        findings = await self._examiner.check(self.examine_every)
        if self.context.dry_run and not has_errors(findings):
            findings.append(await survey(self._examiner.table))  # for people who check or preview
        return findings

    def source_identity(self) -> JsonObject:
        return self._examiner.identity()

    def recognizes(self, stored: JsonValue) -> bool:
        return self._examiner.recognizes(stored)

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        del position
        return self.options.name_item(item)

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        unclosed = super().events(position)
        waking = self.client.notifications.waking
        try:
            with waking(self._examiner.table.facts.table_oid, self.wake) if self.options.listen else nullcontext():
                async with aclosing(unclosed) as batches:
                    async for batch in batches:
                        yield batch
        finally:
            await self._reader.close()

    def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        return self._reader.poll(partial(self._examiner.current, self.check_again_every, self.examine_every), position)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:
        """Return the position at `now`. The log knows no other place."""
        if to != "now":
            raise ConfigurationError(f"with mode: log there is no rewind to {to!r}: write now")
        return self._reader.rewound(position)

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:  # noqa: ARG002  a rewind here is final
        return False
