"""Examining a table whose rows are read: what the modes `id` and `updated_at` need of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from triggers.base import Finding, JsonObject, TriggerContext
from triggers.errors import ConfigurationError
from triggers.postgres.catalog.checks import judge
from triggers.postgres.catalog.conditions import Expressions
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import CHANGING, LOCKS, OFFSETS
from triggers.postgres.catalog.witnesses import COLUMNS, witness_by_id, witness_by_update
from triggers.postgres.connection import PostgresClient
from triggers.postgres.history.kept_rows import Witness
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server.session import Lane, Server
from triggers.postgres.sql import ALIVE, plan_of_condition, trial_of_condition
from triggers.postgres.table.examination import Examiner, has_errors, try_reading, try_statement, with_types
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.sql import quoted

_WHO_WRITES: Final[Mapping[str, tuple[str, Sequence[object]]]] = {"id": (LOCKS, [[]]), "updated_at": (ALIVE, [])}
"""The statement that lists the transactions a poll may have to wait for, by mode, with arguments for a trial."""

Trial: TypeAlias = Callable[[WatchedTable], tuple[str, Sequence[object]]]
"""Returns a statement without `where`, and its arguments, that needs every right a poll needs."""


class RowExaminer(Examiner[NewRowsOptions, WatchedTable]):
    """Examines a table for a reader of rows, whose `trial` a poll's statement is."""

    __slots__ = ("_trial",)

    def __init__(self, options: NewRowsOptions, client: PostgresClient, context: TriggerContext, trial: Trial) -> None:
        super().__init__(options, client, context, cursor=options.column)
        self._trial = trial

    def judge(self, facts: TableFacts | None) -> list[Finding]:
        return judge(facts, self.options)

    def selection(self) -> JsonObject:
        options, time_zone = self.options, self.options.by_update.time_zone
        selection = {"column": options.column, "where": options.where}
        return selection if time_zone is None else {**selection, "time_zone": time_zone}

    async def try_out(
        self, facts: TableFacts, lane: Lane, server: Server, *, is_new: bool
    ) -> tuple[list[Finding], WatchedTable | None]:
        options = self.options
        if options.columns or options.mode != "id":
            facts = await with_types({*options.columns, *facts.primary_key}, lane, facts)
        try:
            facts = replace(facts, witness=await _witness_of(options, lane, facts))
        except ConfigurationError as refused:
            return [Finding.error("witness", str(refused), "correct `witness`, or leave it out")], None
        findings = [Finding.ok("witness", facts.witness.describe())]
        table = WatchedTable(options=options, facts=facts, client=self._client, session=lane, server=server)
        findings += await self._try_configured(table, is_new=is_new)
        return findings, None if has_errors(findings) else table

    async def _try_configured(self, table: WatchedTable, *, is_new: bool) -> list[Finding]:
        """Check on the server what the catalog does not say: the time zone, rights, and `where`."""
        options, time_zone = table.options, table.options.by_update.time_zone
        findings = [] if time_zone is None else [await _judge_time_zone(table, time_zone)]
        if not has_errors(findings):
            findings += await self._try_statements(table)
        if options.where is not None and not options.unsafe_where and not has_errors(findings):
            findings += await _judge_condition(table, options.where, is_new=is_new)
        return findings

    async def _try_statements(self, table: WatchedTable) -> list[Finding]:
        """Check that the role may read what is configured, and that `where` is a condition on one row."""
        name, role, options = table.options.source, table.facts.role, table.options
        statement, arguments = self._trial(table)
        sequences = [each.name for each in table.facts.sequences[:1]] if options.mode == "id" else []
        findings = [await try_reading(table, statement, arguments, *sequences)]
        if not has_errors(findings):
            who_writes, given = _WHO_WRITES[options.mode]
            remedy = "GRANT EXECUTE ON FUNCTION … TO " + quoted(role) + ", because rows could be lost without it"
            refused = await try_statement(table, "functions", who_writes, given, remedy=remedy)
            findings += [refused] if refused.level == "error" else []
        if options.where is not None and not has_errors(findings):
            remedy = "write a condition on one row of the table, as it may stand after WHERE"
            findings.append(await try_statement(table, "where", trial_of_condition(name, options.where), remedy=remedy))
        return findings


async def _witness_of(options: NewRowsOptions, lane: Lane, facts: TableFacts) -> Witness:
    if options.mode == "updated_at":
        return witness_by_update(options.source, options.column, facts.type or "")
    columns = (await lane.fetch(COLUMNS, facts.table_oid)).rows
    return witness_by_id(options.source, columns, options.by_id.witness)


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
