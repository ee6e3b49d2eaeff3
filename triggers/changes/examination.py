"""Examining a table whose changes are read: its catalog, the right to read its rows, and what publishes its changes."""

from __future__ import annotations

from triggers.base import Finding, JsonObject, TriggerContext
from triggers.changes.checks import judge_table
from triggers.changes.options import ChangesOptions
from triggers.changes.published_table import PublishedTable
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.connection import PostgresClient
from triggers.postgres.server.session import Lane, Server
from triggers.postgres.table.examination import Examiner, has_errors, try_reading, with_types
from triggers.postgres.table.examined_table import ExaminedTable
from triggers.shared.postgres.sql import quoted


class ChangesExaminer(Examiner[ChangesOptions, ExaminedTable[ChangesOptions]]):
    """Examines a table, and what publishes its changes."""

    __slots__ = ("_published",)

    def __init__(
        self, options: ChangesOptions, client: PostgresClient, context: TriggerContext, published: PublishedTable
    ) -> None:
        super().__init__(options, client, context)
        self._published = published

    def judge(self, facts: TableFacts | None) -> list[Finding]:
        return judge_table(facts, self.options)

    def selection(self) -> JsonObject:
        return {}

    async def try_out(
        self, facts: TableFacts, lane: Lane, server: Server, *, is_new: bool
    ) -> tuple[list[Finding], ExaminedTable[ChangesOptions] | None]:
        del is_new
        options = self.options
        facts = await with_types({*options.columns, *facts.primary_key}, lane, facts)
        table = ExaminedTable(options=options, facts=facts, client=self._client, session=lane, server=server)
        columns = ", ".join(quoted(name) for name in (*facts.primary_key, *options.columns))  # as jobs read them by key
        findings = [await try_reading(table, f"SELECT {columns} FROM {options.source.sql}", [])]  # noqa: S608
        if not has_errors(findings):
            findings += await self._published.check(table)
        return findings, None if has_errors(findings) else table
