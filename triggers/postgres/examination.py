"""All start-up checks of a table together: reach it, read the catalogue, try the statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from triggers.base import Finding
from triggers.errors import ConfigurationError
from triggers.postgres.checks import TableFacts, judge
from triggers.postgres.connection import NotPrimary, PostgresClient, Session
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.source import Source
from triggers.postgres.sql import FACTS, quoted, trial_of_condition

Trial: TypeAlias = Callable[[Source], tuple[str, Sequence[object]]]
"""A statement, and its arguments, that needs every right a poll needs; without `where`."""


async def examine(
    options: NewRowsOptions, client: PostgresClient, session: Session, trial: Trial
) -> tuple[list[Finding], Source | None]:
    """What was found, and the source to read unless there was an error. Raises SourceUnavailable."""
    table = options.source
    try:
        answer = await session.fetch(FACTS, table.schema, table.name, options.column)
    except NotPrimary as error:
        return [_refused("primary", error, "name the primary in the connection")], None
    except ConfigurationError as error:
        remedy = "correct the connection; its user must be allowed to sign in and to execute pg_control_system()"
        return [_refused("connection", error, remedy)], None
    facts = TableFacts.from_row(dict(answer.rows[0])) if answer.rows else None
    findings = [Finding(check="primary", level="ok", message="the server is no standby"), *judge(facts, options)]
    if facts is None or _failed(findings):
        return findings, None
    source = Source(options=options, facts=facts, client=client, session=session, server=answer.server)
    findings += await _try_statements(source, trial)
    return findings, None if _failed(findings) else source


async def _try_statements(source: Source, trial: Trial) -> list[Finding]:
    """Whether the role may read what is configured, and whether `where` is a condition on one row."""
    table, role, where = source.options.source, source.facts.role, source.options.where
    grant = (
        f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {quoted(role)}; GRANT SELECT ON {table.sql} TO {quoted(role)}"
    )
    statement, arguments = trial(source)
    findings = [await _try(source, "select", statement, arguments, remedy=grant)]
    if where is not None and not _failed(findings):
        remedy = "write a condition on one row of the table, as it may stand after WHERE"
        findings.append(await _try(source, "where", trial_of_condition(table, where), (), remedy=remedy))
    return findings


async def _try(source: Source, check: str, statement: str, arguments: Sequence[object], *, remedy: str) -> Finding:
    try:
        await source.fetch(f"EXPLAIN {statement}", *arguments)
    except ConfigurationError as error:
        return _refused(check, error, remedy)
    return Finding(check=check, level="ok", message=f"{source.facts.role} may ask for what is configured")


def _refused(check: str, error: Exception, remedy: str) -> Finding:
    return Finding(check=check, level="error", message=str(error), remedy=remedy)


def _failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)
