"""Examining a watched table: at every start, when it is due again, and after the table was altered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

import anyio

from triggers.base import Finding, JsonObject, JsonValue, TriggerContext, refuse_errors
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import FACTS, RELATIONS, TYPES
from triggers.postgres.catalog.table_checks import judge_sessions
from triggers.postgres.connection import PostgresClient
from triggers.postgres.server.session import Lane, Server
from triggers.postgres.table.examined_table import ExaminedTable, OptionsT, busy
from triggers.shared.postgres.failures import LOCK_TIMEOUT, NotPrimary, sqlstate_of
from triggers.shared.postgres.sql import quoted
from triggers.shared.postgres.values import type_of

TableT = TypeVar("TableT", bound=ExaminedTable[Any])


class Examiner(ABC, Generic[OptionsT, TableT]):
    """Examines one table: at the start, when that is due again, and after it was altered.

    A trigger's own examiner says what its way of watching needs of the table.
    """

    __slots__ = ("_client", "_context", "_cursor", "_lane", "_table", "due_at", "examined_at", "options", "warnings")

    def __init__(self, options: OptionsT, client: PostgresClient, context: TriggerContext, *, cursor: str = "") -> None:
        """`cursor` is the column by which rows are read, '' if none is."""
        self.options = options
        self._cursor = cursor
        self._client = client
        self._context = context
        self._lane = client.lane(context.watcher, options.lock_timeout, is_alone=context.is_alone)
        self._table: TableT | None = None
        self.warnings: list[Finding] = []
        """The warnings of the last check."""
        self.examined_at = self.due_at = 0.0
        """When the table was last examined, and when it is due again, by anyio's clock."""

    @abstractmethod
    def judge(self, facts: TableFacts | None) -> list[Finding]:
        """Judge what the catalog says about the table; None: there is none (pure)."""

    @abstractmethod
    async def try_out(
        self, facts: TableFacts, lane: Lane, server: Server, *, is_new: bool
    ) -> tuple[list[Finding], TableT | None]:
        """Check on the server what the catalog does not say. Return the findings, and the table unless one of them is an error.

        `is_new`: the watcher has no position, so whatever may lose rows is refused.
        """

    @abstractmethod
    def selection(self) -> JsonObject:
        """Return the members by which a position's identity says which rows of the table are watched."""

    async def check(self, every: timedelta) -> list[Finding]:
        """Examine the table; it is due again after `every`, or up to half of that earlier. Raises SourceUnavailable."""
        findings, self._table = await self._examine(is_new=self._table is None and not self._context.has_position)
        if self._table is not None:
            self._table.max_batch_bytes = self._context.max_batch_bytes
            self._table.watcher = self._context.watcher
        self.warnings = [finding for finding in findings if finding.level in {"info", "warning"}]
        self.examined_at = anyio.current_time()
        spread = 1 - self._context.random() / 2
        self.due_at = self.examined_at + every.total_seconds() * spread
        return findings

    def is_due(self, unchanged_at: float | None, every: timedelta) -> bool:
        """Return whether to examine the table: another table may have its name by now, or an alteration may make detection inexact.

        `unchanged_at` is when the table was last known to be unaltered, which holds for `every`. None: when it was examined.
        """
        now, known_at = anyio.current_time(), self.examined_at if unchanged_at is None else unchanged_at
        return now >= self.due_at or now - known_at >= every.total_seconds()

    async def check_again(self, every: timedelta) -> TableT:
        """Examine the table again. Raises if detection is no longer exact, or if the name means another table now."""
        identity = self.identity()
        refuse_errors(await self.check(every))
        if self.identity() != identity and not self.recognizes(identity):
            raise SourceChanged(
                f"{self.options.table} is another table now; choose where to begin with `watcher rewind`"
            )
        return self.table

    async def current(self, again_every: timedelta, every: timedelta) -> TableT:
        """Return the table, examined again if that is due. Raises what `check_again` raises."""
        return await self.check_again(every) if self.is_due(None, again_every) else self.table

    def identity(self) -> JsonObject:
        """Return what a position of this watcher belongs to."""
        identifier = self.table.server.system_identifier
        return self._identity(self.table.place if identifier is None else {"system_identifier": identifier})

    def recognizes(self, stored: JsonValue) -> bool:
        """Whether a stored identity means this source, though the server tells its identifier only now, or told it only then."""
        if not isinstance(stored, Mapping):
            return False
        if "address" in stored:
            return stored == self._identity(self.table.place)
        is_unknown = self.table.server.system_identifier is None
        return is_unknown and stored == self._identity({"system_identifier": stored.get("system_identifier")})

    def _identity(self, server: JsonObject) -> JsonObject:
        facts = self.table.facts
        return {
            "trigger": "postgres.new_rows",  # for all ways to watch a table: `mode` tells them apart
            **server,
            "database": facts.database_oid,
            "table": facts.table_oid,
            "mode": self.options.mode,
            **self.selection(),
        }

    @property
    def table(self) -> TableT:
        """The table as it was last examined. Raises ConfigurationError after a check with errors."""
        if self._table is None:
            raise ConfigurationError("the start-up checks found errors: fix those first")
        return self._table

    async def _examine(self, *, is_new: bool) -> tuple[list[Finding], TableT | None]:
        options, lane = self.options, self._lane
        try:
            return await self._examined(lane, is_new=is_new)
        except SourceUnavailable as error:
            if sqlstate_of(error) != LOCK_TIMEOUT:
                raise
            relations = (await lane.fetch(RELATIONS, options.source.schema, options.source.name)).rows
            raise await busy(options, self._client, [row["oid"] for row in relations]) from error

    async def _examined(self, lane: Lane, *, is_new: bool) -> tuple[list[Finding], TableT | None]:
        name = self.options.source
        try:
            result = await lane.fetch(FACTS, name.schema, name.name, self._cursor)
        except NotPrimary as refused:
            return [Finding.error("primary", str(refused), "name the primary in the connection")], None
        except ConfigurationError as refused:
            remedy = "correct the connection; its user must be allowed to sign in, and to execute any function that is named here"
            return [Finding.error("connection", str(refused), remedy)], None
        facts = TableFacts.from_row(result.rows[0]) if result.rows else None
        findings = [Finding.ok("primary", "the server is not a standby"), *self.judge(facts)]
        if facts is None or has_errors(findings):
            return findings, None
        lane.one_plan = facts.one_plan
        findings += [judge_sessions(facts, self._client.most_sessions), *self._client.functions.judge()]
        further, table = await self.try_out(facts, lane, result.server, is_new=is_new)
        return [*findings, *further], table


async def with_types(columns: Collection[str], session: Lane, facts: TableFacts) -> TableFacts:
    """Return the facts with the types of these columns."""
    rows = (await session.fetch(TYPES, facts.table_oid)).rows
    [row_type] = [row["oid"] for row in rows if row["is_row"]]
    fields = type_of(row_type, {row["oid"]: row for row in rows}).fields
    return replace(facts, types={name: fields[name] for name in columns if name in fields})


async def try_reading(
    table: ExaminedTable[Any], statement: str, arguments: Sequence[object], *sequences: str
) -> Finding:
    """Check that the role may run a statement that reads the table, and perhaps sequences, as polls and jobs do."""
    name, role = table.options.source, quoted(table.facts.role)
    grants = [f"GRANT USAGE ON SCHEMA {quoted(name.schema)} TO {role}", f"GRANT SELECT ON {name.sql} TO {role}"]
    grants += [f"GRANT SELECT ON SEQUENCE {sequence} TO {role}" for sequence in sequences]
    return await try_statement(table, "select", statement, arguments, remedy="; ".join(grants))


async def try_statement(
    table: ExaminedTable[Any], check: str, statement: str, arguments: Sequence[object] = (), *, remedy: str
) -> Finding:
    """Check that the server would run a statement, without running it."""
    try:
        await table.fetch(f"EXPLAIN {statement}", *arguments)
    except ConfigurationError as refused:
        return Finding.error(check, str(refused), remedy)
    return Finding.ok(check, f"{table.facts.role} may read what is configured")


def has_errors(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)
