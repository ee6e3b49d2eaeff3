"""Checks that any way to watch a table begins with: that it is there, is a table, and has what is configured (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from triggers.base import Finding
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.table_options import TableOptions

OptionsT = TypeVar("OptionsT", bound=TableOptions)
Check: TypeAlias = Callable[[TableFacts, OptionsT], Iterator[Finding]]

OLDEST_SERVER: Final = 14
TABLE_KINDS: Final = {"r": "a table", "p": "a partitioned table"}
OTHER_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}


def judge_by(stages: Sequence[Sequence[Check[OptionsT]]], facts: TableFacts | None, options: OptionsT) -> list[Finding]:
    """Return the findings of these checks. An error that makes later checks meaningless ends the list with its stage."""
    if facts is None:
        message = f"there is no table {options.table} in this database"
        case = "schema.table, upper and lower case as in the catalog"
        return [Finding.error("table", message, f"correct `table` ({case}) or the connection's database")]
    findings: list[Finding] = []
    for stage in stages:
        findings += [finding for check in stage for finding in check(facts, options)]
        if any(finding.level == "error" for finding in findings):
            break
    return findings


def judge_sessions(facts: TableFacts, most: int) -> Finding:
    """Judge a connection that opens at most `most` sessions."""
    if facts.most_sessions is None or most <= facts.most_sessions:
        return Finding.ok("connections", f"all watchers of the connection share at most {most} sessions")
    return Finding.warning(
        "connections",
        f"the watchers of the connection open up to {most} sessions, but the server allows {facts.role} only"
        f" {facts.most_sessions}: polls fail when it refuses a session",
        f"lower the connection's `pool_size` by {most - facts.most_sessions} or more, or raise max_connections",
    )


def _version(facts: TableFacts, _: TableOptions) -> Iterator[Finding]:
    major = facts.server_version // 10_000
    if major < OLDEST_SERVER:
        yield Finding.error("version", f"the server is PostgreSQL {major}", f"upgrade it to {OLDEST_SERVER} or newer")
    else:
        yield Finding.ok("version", f"PostgreSQL {major}")


def _kind(facts: TableFacts, options: TableOptions) -> Iterator[Finding]:
    if facts.kind not in TABLE_KINDS:
        kind = OTHER_KINDS.get(facts.kind, "no table")
        yield Finding.error("table", f"{options.table} is {kind}", "watch the table into which rows are inserted")
    elif facts.kind == "r" and facts.children:
        yield Finding.error(
            "table",
            f"other tables inherit from {options.table}: nothing keeps ids unique across them",
            "watch each table, or turn it into a partitioned table",
        )
    else:
        yield Finding.ok("table", f"{options.table} is {TABLE_KINDS[facts.kind]}")


def _columns(facts: TableFacts, options: TableOptions) -> Iterator[Finding]:
    missing = [name for name in options.named_columns if name not in facts.columns]
    if missing:
        yield Finding.error(
            "columns",
            f"{options.table} has no column {', '.join(missing)}",
            f"choose from {', '.join(facts.columns)}, with `column`, `columns`, `partition` and `soft_delete`",
        )


def judge_primary_key(facts: TableFacts, options: TableOptions) -> Iterator[Finding]:
    if facts.primary_key:
        yield Finding.ok("primary key", f"events name rows by {', '.join(facts.primary_key)}")
    else:
        yield Finding.error("primary key", f"{options.table} has no primary key", "add one: events name rows by it")


def judge_listen(facts: TableFacts, options: TableOptions) -> Iterator[Finding]:
    if options.listen and not facts.notifies:
        yield Finding.warning(
            "listen",
            f"no trigger of {options.table} notifies: new rows are found only when the interval ends",
            "have the table's owner run what `watcher pg install-notify NAME` prints, or remove `listen`",
        )
    elif options.listen:
        yield Finding.ok("listen", f"a trigger of {options.table} notifies")


ESSENTIAL: Final[Sequence[Check[TableOptions]]] = (_version, _kind, _columns)
"""What any way to watch a table needs."""
