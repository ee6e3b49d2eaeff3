"""Examining a watched table: at every start, when it is due again, and after the table was altered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeAlias

import anyio

from triggers.base import Finding, JsonObject, JsonValue, TriggerContext, refuse_errors
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.postgres.catalog.checks import judge, judge_sessions
from triggers.postgres.catalog.conditions import Expressions
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import CHANGING, FACTS, LOCKS, OFFSETS, RELATIONS, TYPES
from triggers.postgres.catalog.witnesses import COLUMNS, witness_by_id, witness_by_update
from triggers.postgres.connection import PostgresClient
from triggers.postgres.history.kept_rows import Witness
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server.session import Lane
from triggers.postgres.sql import ALIVE, plan_of_condition, trial_of_condition
from triggers.postgres.table.watched_table import WatchedTable, busy
from triggers.shared.postgres.failures import LOCK_TIMEOUT, NotPrimary, sqlstate_of
from triggers.shared.postgres.sql import quoted
from triggers.shared.postgres.values import ValueType, type_of

_WHO_WRITES: Final[Mapping[str, tuple[str, Sequence[object]]]] = {"id": (LOCKS, [[]]), "updated_at": (ALIVE, [])}
"""The statement that lists the transactions a poll may have to wait for, by mode, with arguments for a trial."""

Trial: TypeAlias = Callable[[WatchedTable], tuple[str, Sequence[object]]]
"""Returns a statement without `where`, and its arguments, that needs every right a poll needs."""
FurtherCheck: TypeAlias = Callable[[WatchedTable], Awaitable[list[Finding]]]
"""Checks what only one mode needs, on the server."""


class Examiner:
    """Examines one table: at the start, when that is due again, and after it was altered."""

    __slots__ = (
        "_client",
        "_context",
        "_further",
        "_lane",
        "_options",
        "_table",
        "_trial",
        "due_at",
        "examined_at",
        "warnings",
    )

    def __init__(
        self,
        options: NewRowsOptions,
        client: PostgresClient,
        context: TriggerContext,
        trial: Trial,
        further: FurtherCheck | None = None,
    ) -> None:
        self._options = options
        self._client = client
        self._context = context
        self._lane = client.lane(context.watcher, options.lock_timeout, is_alone=context.is_alone)
        self._trial = trial
        self._further = further
        self._table: WatchedTable | None = None
        self.warnings: list[Finding] = []
        """The warnings of the last check."""
        self.examined_at = self.due_at = 0.0
        """When the table was last examined, and when it is due again, by anyio's clock."""

    async def check(self, every: timedelta) -> list[Finding]:
        """Examine the table; it is due again after `every`, or up to half of that earlier. Raises SourceUnavailable."""
        is_new = self._table is None and not self._context.has_position
        findings, self._table = await examine(self._options, self._client, self._lane, self._trial, is_new=is_new)
        if self._table is not None and self._further is not None:
            findings += await self._further(self._table)
            self._table = None if _failed(findings) else self._table
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

    async def check_again(self, every: timedelta) -> WatchedTable:
        """Examine the table again. Raises if detection is no longer exact, or if the name means another table now."""
        identity = self.identity()
        refuse_errors(await self.check(every))
        if self.identity() != identity and not self.recognizes(identity):
            raise SourceChanged(
                f"{self._options.table} is another table now; choose where to begin with `watcher rewind`"
            )
        return self.table

    async def current(self, again_every: timedelta, every: timedelta) -> WatchedTable:
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
        table, options = self.table, self._options
        return {
            "trigger": "postgres.new_rows",
            **server,
            "database": table.facts.database_oid,
            "table": table.facts.table_oid,
            "mode": options.mode,
            **({} if options.mode == "log" else {"column": options.column, "where": options.where}),
            **({} if options.time_zone is None else {"time_zone": options.time_zone}),
        }

    @property
    def table(self) -> WatchedTable:
        """The table as it was last examined. Raises ConfigurationError after a check with errors."""
        if self._table is None:
            raise ConfigurationError("the start-up checks found errors: fix those first")
        return self._table


async def examine(
    options: NewRowsOptions, client: PostgresClient, lane: Lane, trial: Trial, *, is_new: bool
) -> tuple[list[Finding], WatchedTable | None]:
    """Return the findings, and the table to read unless one of them is an error. Raises SourceUnavailable.

    `is_new`: the watcher has no position, so whatever may lose rows is refused.
    """
    try:
        return await _examined(options, client, lane, trial, is_new=is_new)
    except SourceUnavailable as error:
        if sqlstate_of(error) != LOCK_TIMEOUT:
            raise
        relations = (await lane.fetch(RELATIONS, options.source.schema, options.source.name)).rows
        raise await busy(options, client, [row["oid"] for row in relations]) from error


async def _examined(
    options: NewRowsOptions, client: PostgresClient, lane: Lane, trial: Trial, *, is_new: bool
) -> tuple[list[Finding], WatchedTable | None]:
    name = options.source
    try:
        result = await lane.fetch(FACTS, name.schema, name.name, options.column)
    except NotPrimary as refused:
        return [Finding.error("primary", str(refused), "name the primary in the connection")], None
    except ConfigurationError as refused:
        remedy = "correct the connection; its user must be allowed to sign in, and to execute any function that is named here"
        return [Finding.error("connection", str(refused), remedy)], None
    facts = TableFacts.from_row(result.rows[0]) if result.rows else None
    findings = [Finding.ok("primary", "the server is not a standby"), *judge(facts, options)]
    if facts is None or _failed(findings):
        return findings, None
    lane.one_plan = facts.one_plan
    findings += [judge_sessions(facts, client.most_sessions), *client.functions.judge()]
    if options.columns or options.mode != "id":
        columns = {*options.columns, *facts.primary_key}
        facts = replace(facts, types=await _types_of(columns, lane, facts))
    try:
        facts = replace(facts, witness=await _witness_of(options, lane, facts))
    except ConfigurationError as refused:
        return [*findings, Finding.error("witness", str(refused), "correct `witness`, or leave it out")], None
    findings.append(Finding.ok("witness", facts.witness.describe()))
    table = WatchedTable(options=options, facts=facts, client=client, session=lane, server=result.server)
    findings += await _try_configured(table, trial, is_new=is_new)
    return findings, None if _failed(findings) else table


async def _try_configured(table: WatchedTable, trial: Trial, *, is_new: bool) -> list[Finding]:
    """Check on the server what the catalog does not say: the time zone, rights, and `where`."""
    options = table.options
    findings = [] if options.time_zone is None else [await _judge_time_zone(table, options.time_zone)]
    if not _failed(findings):
        findings += await _try_statements(table, trial)
    if options.where is not None and not options.unsafe_where and not _failed(findings):
        findings += await _judge_condition(table, options.where, is_new=is_new)
    return findings


async def _witness_of(options: NewRowsOptions, lane: Lane, facts: TableFacts) -> Witness:
    if options.mode == "updated_at":
        return witness_by_update(options.source, options.column, facts.type or "")
    columns = (await lane.fetch(COLUMNS, facts.table_oid)).rows
    return witness_by_id(options.source, columns, options.witness)


async def _types_of(columns: Collection[str], session: Lane, facts: TableFacts) -> Mapping[str, ValueType]:
    rows = (await session.fetch(TYPES, facts.table_oid)).rows
    [row_type] = [row["oid"] for row in rows if row["is_row"]]
    fields = type_of(row_type, {row["oid"]: row for row in rows}).fields
    return {name: fields[name] for name in columns if name in fields}


async def _try_statements(table: WatchedTable, trial: Trial) -> list[Finding]:
    """Check that the role may read what is configured, and that `where` is a condition on one row."""
    name, role, where = table.options.source, table.facts.role, table.options.where
    grant = (
        f"GRANT USAGE ON SCHEMA {quoted(name.schema)} TO {quoted(role)}; GRANT SELECT ON {name.sql} TO {quoted(role)}"
    )
    if table.options.mode == "id" and table.facts.sequences:
        grant += f"; GRANT SELECT ON SEQUENCE {table.facts.sequences[0].name} TO {quoted(role)}"
    statement, arguments = trial(table)
    findings = [await _try(table, "select", statement, arguments, remedy=grant)]
    if not _failed(findings):
        who_writes, given = _WHO_WRITES.get(table.options.mode, ("SELECT", ()))
        remedy = "GRANT EXECUTE ON FUNCTION … TO " + quoted(role) + ", because rows could be lost without it"
        refused = await _try(table, "functions", who_writes, given, remedy=remedy)
        findings += [refused] if refused.level == "error" else []
    if where is not None and not _failed(findings):
        remedy = "write a condition on one row of the table, as it may stand after WHERE"
        findings.append(await _try(table, "where", trial_of_condition(name, where), (), remedy=remedy))
    return findings


async def _judge_time_zone(table: WatchedTable, time_zone: str) -> Finding:
    """Check that local times of the zone grow with the time: where clocks are set back, an hour's writes lie below the floor."""
    remedy = "name a zone without daylight saving, such as UTC, and let all writers set the column to its time"
    try:
        [row] = await table.fetch(OFFSETS, time_zone)
    except ConfigurationError as refused:
        return Finding.error("time zone", str(refused), remedy)
    if row["offsets"] == 1:
        return Finding.ok("time zone", f"{time_zone} has no daylight saving")
    why = "its clocks are set back once a year, and rows of the hour that comes twice would be lost"
    return Finding.error("time zone", f"{time_zone} has daylight saving: {why}", remedy)


async def _judge_condition(table: WatchedTable, where: str, *, is_new: bool) -> list[Finding]:
    """Check that `where` gives the same answer about a row at any time: a poll asks once, and never comes back."""
    [row] = await table.fetch(plan_of_condition(table.options.source, where))
    used = Expressions.of(json.loads(row[0])[0]["Plan"], where)
    reason = used.reason
    if reason is None:
        names, arguments = [name for name, _ in used.calls], [number for _, number in used.calls]
        changing = await table.fetch(CHANGING, names, arguments, used.operators)
        reason = changing[0]["reason"] if changing else None
    if reason is None:
        return []
    message = (
        f"the answer of `where` about a row may change, because {reason}: a row that is skipped once is never reported"
    )
    remedy = "write a condition on the row alone, or set `unsafe_where: true` if rows may be skipped for good"
    return [Finding.error("where", message, remedy) if is_new else Finding.warning("where", message, remedy)]


async def _try(table: WatchedTable, check: str, statement: str, arguments: Sequence[object], *, remedy: str) -> Finding:
    try:
        await table.fetch(f"EXPLAIN {statement}", *arguments)
    except ConfigurationError as refused:
        return Finding.error(check, str(refused), remedy)
    return Finding.ok(check, f"{table.facts.role} may read what is configured")


def _failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)
