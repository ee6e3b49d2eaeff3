"""Functions that a managed server may refuse to a role, or not have at all, and what takes their place in statements.

A statement that fails for such a reason is repeated without those of its functions that fail by themselves. What stays is
exact: only what people are told, and how a server is recognized, becomes less. A function without which rows could be lost
has no place here, and its refusal names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import asyncpg

from triggers.errors import Finding

REFUSALS: Final = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFunctionError,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionalFunction:
    """A function: where statements use it, what stands there without it, and how it is tried."""

    used: re.Pattern[str]
    instead: str
    trial: str
    lost: str
    """What a watcher lacks without it; '' if nothing."""

    async def fails(self, connection: asyncpg.Connection) -> bool:
        try:
            await connection.fetch(self.trial)
        except REFUSALS:
            return True
        except asyncpg.PostgresError:  # it may be called, though not with what the trial gives it
            return False
        return False


def _function(used: str, instead: str, trial: str, lost: str) -> OptionalFunction:
    return OptionalFunction(used=re.compile(used), instead=instead, trial=f"SELECT {trial}", lost=lost)


_NO_SESSIONS: Final = (
    "(SELECT NULL::int AS pid, NULL::name AS usename, NULL::text AS application_name, NULL::name AS datname, NULL::text AS state,"
    " NULL::text AS query, NULL::timestamptz AS xact_start WHERE false)"
)
_NO_PREPARED: Final = "(SELECT NULL::xid AS transaction, NULL::timestamptz AS prepared, NULL::text AS gid WHERE false)"
_ANCESTORS: Final = (
    "(WITH RECURSIVE above(relid) AS (SELECT w.oid UNION SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.relid"
    " JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition) SELECT relid FROM above)"
)
_TIMELINE: Final = r"\('x' \|\| left\(pg_walfile_name\(pg_current_wal_lsn\(\)\), 8\)\)::bit\(32\)::int"
_HISTORY: Final = "every new connection examines the rows that were read last, and after a restart only rows prove what the server still has"

OPTIONAL: Final[Mapping[str, OptionalFunction]] = {
    "pg_control_system": _function(
        r"\(SELECT system_identifier::text FROM pg_control_system\(\)\)",
        "NULL::text",
        "FROM pg_control_system()",
        "the server is recognized by its address and by the database's name and number",
    ),
    "pg_current_wal_lsn": _function(_TIMELINE, "0", "pg_current_wal_lsn()", _HISTORY),
    "pg_walfile_name": _function(_TIMELINE, "0", "pg_walfile_name('0/1')", _HISTORY),
    **{
        name: _function(rf"\b{name}\(\)", "NULL::pg_lsn", f"{name}()", _HISTORY)
        for name in (
            "pg_current_wal_insert_lsn",
            "pg_current_wal_flush_lsn",
            "pg_last_wal_replay_lsn",
            "pg_last_wal_receive_lsn",
        )
    },
    "pg_blocking_pids": _function(
        r"unnest\(pg_blocking_pids\(l\.pid\)\)",
        "unnest(NULL::int[])",
        "pg_blocking_pids(0)",
        "who waits behind whom for a locked table is not told",
    ),
    "pg_stat_get_activity": _function(
        r"\bpg_stat_activity\b",
        _NO_SESSIONS,
        "FROM pg_stat_activity LIMIT 0",
        "of a session that locks or keeps something only the pid is told",
    ),
    "pg_prepared_xact": _function(
        r"\bpg_prepared_xacts\b",
        _NO_PREPARED,
        "FROM pg_prepared_xacts LIMIT 0",
        "the names of prepared transactions are not told",
    ),
    "pg_get_partition_constraintdef": _function(
        r"pg_get_partition_constraintdef\(\$1::oid\)",
        "'true'::text",
        "pg_get_partition_constraintdef(0)",
        "counting the rows of an attached partition takes longer",
    ),
    "has_sequence_privilege": _function(
        r"has_sequence_privilege\(seqrelid, 'SELECT'\)",
        "false",
        "has_sequence_privilege(0::oid, 'SELECT')",
        "ids set by hand and a sequence set back are not noticed",
    ),
    "pg_has_role": _function(
        r"pg_has_role\(o\.oid, 'USAGE'\)",
        "false",
        "pg_has_role(session_user, 'USAGE')",
        "of the policies of row-level security only those for PUBLIC count",
    ),
    "row_security_active": _function(
        r"row_security_active\((\w)\.oid\)",
        r"(SELECT relrowsecurity FROM pg_class protected WHERE protected.oid = \1.oid)",
        "row_security_active(0::oid)",
        "row-level security counts as active for everybody",
    ),
    "pg_partition_ancestors": _function(
        r"pg_partition_ancestors\(w\.oid\)", _ANCESTORS, "FROM pg_partition_ancestors('pg_class'::regclass)", ""
    ),
}

OF_HISTORY: Final = frozenset(name for name, each in OPTIONAL.items() if each.lost == _HISTORY)
"""The functions that say where the server's history stands."""


class FunctionRights:
    """What is known about the functions that the role of one connection may use, for all of its sessions."""

    def __init__(self) -> None:
        self.refused: frozenset[str] = frozenset()

    def usable(self, statement: str) -> str:
        """Return the statement without the functions that were refused."""
        return _without(statement, self.refused) if self.refused else statement

    async def learn(self, connection: asyncpg.Connection, statement: str) -> bool:
        """Find out which functions of a statement are refused. Return whether it may succeed without them."""
        before = self.usable(statement)
        self.refused |= {
            name for name, each in OPTIONAL.items() if each.used.search(statement) and await each.fails(connection)
        }
        return self.usable(statement) != before

    def judge(self) -> Sequence[Finding]:
        """Judge what is lost without the functions that were refused."""
        names: dict[str, list[str]] = {}
        for name in sorted(self.refused):
            names.setdefault(OPTIONAL[name].lost, []).append(name)
        lost = [f"{sentence} ({' and '.join(functions)})" for sentence, functions in names.items() if sentence]
        remedy = (
            "nothing, or GRANT EXECUTE on the functions and restart the daemon; rows are found exactly without them"
        )
        return [Finding.info("functions", f"the server refuses functions: {'; '.join(lost)}", remedy)] if lost else []


@lru_cache(maxsize=200)
def _without(statement: str, refused: frozenset[str]) -> str:
    for name in refused:
        statement = OPTIONAL[name].used.sub(OPTIONAL[name].instead, statement)
    return statement
