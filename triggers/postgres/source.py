"""One watched table: examined at every start, then read by its mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import structlog

from triggers.base import Finding
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, SourceUnavailable
from triggers.options import format_duration
from triggers.postgres.catalog import ANY_SEQUENCE, FACTS, HOLDER, MARK_OF_ALL, RELATIONS, TYPES
from triggers.postgres.checks import TableFacts, judge, judge_sessions
from triggers.postgres.connection import PostgresClient
from triggers.postgres.failures import LOCK_TIMEOUT, STATEMENT_TIMEOUT, NotPrimary, sqlstate_of
from triggers.postgres.lanes import Lane
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.session import Server
from triggers.postgres.sql import quoted, trial_of_condition
from triggers.postgres.values import ValueType, type_of

log = structlog.get_logger()


class Altered(Exception):
    """Somebody altered the table since it was examined: nothing that the statement gave may count."""


@dataclass(kw_only=True, slots=True)
class Source:
    """The table, and the server that `check` found it on."""

    options: NewRowsOptions
    facts: TableFacts
    client: PostgresClient
    session: Lane
    server: Server
    watcher: str = "NAME"
    max_batch_bytes: int = 16_000_000

    async def refuse_altered(self) -> None:
        """Raises `Altered` unless the table is as it was examined; called before rows that were read count.

        Whoever altered it before they were written is seen by this later statement in any case.
        """
        [row] = await self.fetch(MARK_OF_ALL, self.facts.locked_relations, repeated=True)
        if row["mark"] != self.facts.mark:
            raise Altered

    async def fetch(
        self, statement: str, *arguments: object, boot: str | None = None, repeated: bool = False
    ) -> Sequence[Any]:
        """Rows of one snapshot, of the server that was checked; with `boot` also of that life of it.

        Otherwise a list of those alive on an old primary could say that nobody writes to the new one. `repeated`: see `Lane`.
        """
        try:
            answer = await self.session.fetch(statement, *arguments, repeated=repeated)
        except SourceUnavailable as error:
            if sqlstate_of(error) == LOCK_TIMEOUT:
                raise await busy(self.options, self.client, self.facts.locked_relations) from error
            if sqlstate_of(error) == STATEMENT_TIMEOUT:
                raise SourceUnavailable(f"{error}; {self._too_slow()}") from error.__cause__
            raise
        self._recognise(answer.server)
        if boot not in (None, answer.server.boot):
            self.client.reconnect()
            raise SourceUnavailable("the server was restarted or replaced between two statements")
        return answer.rows

    async def lock_holders(self) -> LockSet:
        """Read after this call began. Where no sequence belongs to the column, ids may be drawn from any, before the table is locked."""
        any_sequence = [] if self.facts.sequences else [ANY_SEQUENCE]
        return await self.client.locks.read([*self.facts.locked_relations, *any_sequence])

    async def about(self, transaction: str) -> Mapping[str, Any]:
        """What may be known about a virtual transaction of another session; nothing when it has ended."""
        answer = await self.session.fetch(HOLDER, transaction)
        return dict(answer.rows[0]) if answer.rows else {}

    def _too_slow(self) -> str:
        since = " and what was updated since is read by each poll" if self.options.mode == "updated_at" else ""
        return (
            f"a poll of {self.options.table} took too long: end transactions that are open for long, since dead rows stay"
            f"{since}, and let the table's owner run VACUUM ANALYZE {self.options.source.sql}"
        )

    def _recognise(self, server: Server) -> None:
        if server.system_identifier != self.server.system_identifier:
            raise SourceChanged(
                f"the connection leads to another server now (system identifier {server.system_identifier},"
                f" before {self.server.system_identifier}); correct it, or `watcher rewind` starts anew"
            )
        self.notice_timeline(since=self.server.timeline, now=server.timeline)
        self.server = server

    def notice_timeline(self, *, since: int, now: int) -> None:
        """A standby that was promoted may not have had the newest rows, and may hand out their ids again."""
        if now != since:
            log.warning("postgres.timeline_changed", table=self.options.table, before=since, now=now)


async def busy(options: NewRowsOptions, client: PostgresClient, relations: Sequence[int]) -> SourceBusy:
    """Of a statement that waited for longer than `lock_timeout`: who keeps all others from one of the relations."""
    holder, table = await client.locks.exclusive(relations), options.table
    if holder is None:
        return SourceBusy(
            f"{table} was locked for longer than {format_duration(options.lock_timeout)}; nobody locks it now"
        )
    keeps = "locks" if holder["granted"] else "waits to lock"
    behind = "" if holder["behind"] is None else f" behind {_described(json.loads(holder['behind']))}"
    return SourceBusy(f"{_described(holder, f' {keeps} {table}')}{behind}; the watcher goes on once that ends")


def _described(session: Mapping[str, Any], does: str = "") -> str:
    """What is known of it, behind what it does."""
    who = "a prepared transaction" if session["pid"] is None else f"pid {session['pid']}"
    parts = [
        ("user", session["user"]),
        ("application", session["application"]),
        ("since", session["since"]),
        ("query", session["query_class"]),
    ]
    about = ", ".join(f"{name} {value}" for name, value in parts if value)
    return f"{who}{does}" + (f" ({about})" if about else "")


Trial: TypeAlias = Callable[[Source], tuple[str, Sequence[object]]]
"""A statement, and its arguments, that needs every right a poll needs; without `where`."""


async def examine(
    options: NewRowsOptions, client: PostgresClient, lane: Lane, trial: Trial
) -> tuple[list[Finding], Source | None]:
    """What was found, and the source to read unless there was an error. Raises SourceUnavailable."""
    try:
        return await _examined(options, client, lane, trial)
    except SourceUnavailable as error:
        if sqlstate_of(error) != LOCK_TIMEOUT:
            raise
        relations = (await lane.fetch(RELATIONS, options.source.schema, options.source.name)).rows
        raise await busy(options, client, [row["oid"] for row in relations]) from error


async def _examined(
    options: NewRowsOptions, client: PostgresClient, lane: Lane, trial: Trial
) -> tuple[list[Finding], Source | None]:
    table = options.source
    try:
        answer = await lane.fetch(FACTS, table.schema, table.name, options.column)
    except NotPrimary as refused:
        return [Finding.error("primary", str(refused), "name the primary in the connection")], None
    except ConfigurationError as refused:
        remedy = "correct the connection; its user must be allowed to sign in and to execute pg_control_system()"
        return [Finding.error("connection", str(refused), remedy)], None
    facts = TableFacts.from_row(dict(answer.rows[0])) if answer.rows else None
    findings = [Finding.ok("primary", "the server is no standby"), *judge(facts, options)]
    if facts is None or _failed(findings):
        return findings, None
    lane.one_plan = facts.one_plan
    findings.append(judge_sessions(facts, client.most_sessions))
    if options.columns or options.mode == "updated_at":
        columns = {*options.columns, *facts.primary_key}
        facts = replace(facts, types=await _types_of(columns, lane, facts))
    source = Source(options=options, facts=facts, client=client, session=lane, server=answer.server)
    findings += await _try_statements(source, trial)
    return findings, None if _failed(findings) else source


async def _types_of(columns: Collection[str], session: Lane, facts: TableFacts) -> Mapping[str, ValueType]:
    rows = (await session.fetch(TYPES, facts.table_oid)).rows
    [row_type] = [row["oid"] for row in rows if row["is_row"]]
    fields = type_of(row_type, {row["oid"]: row for row in rows}).fields
    return {name: fields[name] for name in columns if name in fields}


async def _try_statements(source: Source, trial: Trial) -> list[Finding]:
    """Whether the role may read what is configured, and whether `where` is a condition on one row."""
    table, role, where = source.options.source, source.facts.role, source.options.where
    grant = (
        f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {quoted(role)}; GRANT SELECT ON {table.sql} TO {quoted(role)}"
    )
    if source.options.mode == "id" and source.facts.sequences:
        grant += f"; GRANT SELECT ON SEQUENCE {source.facts.sequences[0].name} TO {quoted(role)}"
    statement, arguments = trial(source)
    findings = [await _try(source, "select", statement, arguments, remedy=grant)]
    if where is not None and not _failed(findings):
        remedy = "write a condition on one row of the table, as it may stand after WHERE"
        findings.append(await _try(source, "where", trial_of_condition(table, where), (), remedy=remedy))
    return findings


async def _try(source: Source, check: str, statement: str, arguments: Sequence[object], *, remedy: str) -> Finding:
    try:
        await source.fetch(f"EXPLAIN {statement}", *arguments)
    except ConfigurationError as refused:
        return Finding.error(check, str(refused), remedy)
    return Finding.ok(check, f"{source.facts.role} may ask for what is configured")


def _failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)
