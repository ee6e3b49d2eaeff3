"""One watched table: its options, what the catalog says about it, and statements on the server that was checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio

from triggers.base import JsonObject
from triggers.errors import SourceBusy, SourceChanged, SourceUnavailable
from triggers.options import format_duration
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.catalog.statements import ANY_SEQUENCE, HOLDER
from triggers.postgres.connection import PostgresClient
from triggers.postgres.history.judgement import needs_examination
from triggers.postgres.history.kept_history import KeptHistory
from triggers.postgres.history.kept_rows import ServerMarks
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server.locks import LockSet
from triggers.postgres.server.marks import MARK_AND_MARKS, MOVING_MARKS, moved
from triggers.postgres.server.session import Lane, Server
from triggers.shared.postgres.failures import LOCK_TIMEOUT, STATEMENT_TIMEOUT, sqlstate_of


class Altered(Exception):
    """The table was altered since it was examined, so nothing that the statement returned may count."""


@dataclass(kw_only=True, slots=True)
class WatchedTable:
    """The table, and the server on which `check` found it."""

    options: NewRowsOptions
    facts: TableFacts
    client: PostgresClient
    session: Lane
    server: Server
    watcher: str = "NAME"
    max_batch_bytes: int = 16_000_000
    history: KeptHistory = field(default_factory=KeptHistory)
    """What the reader of the table keeps of its last batches."""

    @property
    def place(self) -> JsonObject:
        """The server and the database by their addresses, for a server that refuses to tell its identifier."""
        return {"address": self.client.place, "database_name": self.facts.database}

    async def refuse_altered(self, *, gives_up: bool = False) -> None:
        """Raise `Altered` unless the table is as it was examined. Called before rows that were read count.

        This statement comes later than the rows, so it shows every alteration made before they were written. It also shows a
        position in the WAL behind their commits: the next position keeps it, and whether missing ids are given up.
        """
        at = anyio.current_time()
        [row] = await self.fetch(MARK_AND_MARKS, self.facts.locked_relations, repeated=True)
        if row["mark"] != self.facts.mark:
            raise Altered
        self.history.note(moved(self.server.marks, row), at, gave_up=gives_up)

    async def marks(self) -> ServerMarks:
        """Return the server's marks of now."""
        [row] = await self.fetch(MOVING_MARKS)
        return moved(self.server.marks, row)

    async def fetch(
        self,
        statement: str,
        *arguments: object,
        boot: str | None = None,
        repeated: bool = False,
        longest: timedelta | None = None,
    ) -> Sequence[Any]:
        """Return the rows of one snapshot. Raises `SourceChanged` if another server than the one that was checked returned them.

        With `boot`, `SourceUnavailable` is raised if the server was restarted since it had that boot id: a list of transactions
        from an old primary says nothing about the writers on the new one. `repeated` and `longest` are explained in `Lane.fetch`.
        """
        try:
            result = await self.session.fetch(statement, *arguments, repeated=repeated, longest=longest)
        except SourceUnavailable as error:
            if sqlstate_of(error) == LOCK_TIMEOUT:
                raise await busy(self.options, self.client, self.facts.locked_relations) from error
            if sqlstate_of(error) == STATEMENT_TIMEOUT:
                raise SourceUnavailable(f"{error}; {self._too_slow()}") from error.__cause__
            raise
        if result.server is not self.server:
            self._recognize(result.server)
        if boot not in (None, result.server.boot):
            self.client.reconnect()
            raise SourceUnavailable("the server was restarted or replaced between two statements")
        return result.rows

    async def lock_holders(self) -> LockSet:
        """List the lock holders; the list is read after this call began.

        If no sequence belongs to the column, ids may be drawn from any sequence, before the table is locked.
        """
        any_sequence = [] if self.facts.sequences else [ANY_SEQUENCE]
        return await self.client.locks.read([*self.facts.locked_relations, *any_sequence])

    async def about(self, transaction: str) -> Mapping[str, Any]:
        """Return what may be known about a virtual transaction of another session; nothing if it has ended."""
        result = await self.session.fetch(HOLDER, transaction)
        return dict(result.rows[0]) if result.rows else {}

    def _too_slow(self) -> str:
        since = " and each poll reads what was updated since they began" if self.options.mode == "updated_at" else ""
        return (
            f"a poll of {self.options.table} took too long: end transactions that are open for a long time, because dead rows"
            f" stay{since}; and let the table's owner run VACUUM ANALYZE {self.options.source.sql}"
        )

    def _recognize(self, server: Server) -> None:
        known = server.system_identifier is not None and self.server.system_identifier is not None
        if known and server.system_identifier != self.server.system_identifier:
            raise SourceChanged(
                f"the connection leads to another server now (system identifier {server.system_identifier},"
                f" before {self.server.system_identifier}); correct it, or begin again with `watcher rewind`"
            )
        kept, is_later = self.history.marks, server.at > self.history.kept_at
        if server != self.server or (kept is not None and is_later and needs_examination(kept, server.marks)):
            self.client.reconnect(opened_by=min(server.at, self.server.at))
            raise SourceUnavailable(
                "the server was restarted or replaced: what it still has of the last rows is examined before others count"
            )
        self.server = server


async def busy(options: NewRowsOptions, client: PostgresClient, relations: Sequence[int]) -> SourceBusy:
    """Return the error of a statement that waited for longer than `lock_timeout`; it names the session that locks a relation."""
    holder, table = await client.locks.exclusive(relations), options.table
    if holder is None:
        return SourceBusy(
            f"{table} was locked for longer than {format_duration(options.lock_timeout)}; no session locks it now"
        )
    keeps = "locks" if holder["granted"] else "waits to lock"
    behind = "" if holder["behind"] is None else f" behind {_described(json.loads(holder['behind']))}"
    return SourceBusy(f"{_described(holder, f' {keeps} {table}')}{behind}; the watcher continues when that ends")


def _described(session: Mapping[str, Any], does: str = "") -> str:
    """Describe a session: what it is, what it does, and what else is known about it."""
    who = "a prepared transaction" if session["pid"] is None else f"pid {session['pid']}"
    parts = [
        ("user", session["user"]),
        ("application", session["application"]),
        ("since", session["since"]),
        ("query", session["query_class"]),
    ]
    about = ", ".join(f"{name} {value}" for name, value in parts if value)
    return f"{who}{does}" + (f" ({about})" if about else "")
