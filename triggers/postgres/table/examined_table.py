"""One table that was examined: its options, what the catalog says about it, and statements on the server that was checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from triggers.base import JsonObject
from triggers.errors import SourceBusy, SourceChanged, SourceUnavailable
from triggers.options import format_duration
from triggers.postgres.catalog.facts import TableFacts
from triggers.postgres.connection import PostgresClient
from triggers.postgres.server.session import Lane, Server
from triggers.postgres.table_options import TableOptions
from triggers.shared.postgres.failures import LOCK_TIMEOUT, STATEMENT_TIMEOUT, sqlstate_of

OptionsT = TypeVar("OptionsT", bound=TableOptions)


@dataclass(kw_only=True, slots=True)
class ExaminedTable(Generic[OptionsT]):
    """The table, and the server on which `check` found it."""

    options: OptionsT
    facts: TableFacts
    client: PostgresClient
    session: Lane
    server: Server
    watcher: str = "NAME"
    max_batch_bytes: int = 16_000_000

    @property
    def place(self) -> JsonObject:
        """The server and the database by their addresses, for a server that refuses to tell its identifier."""
        return {"address": self.client.place, "database_name": self.facts.database}

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
        if server != self.server or self._may_have_lost_rows(server):
            self.client.reconnect(opened_by=min(server.at, self.server.at))
            raise SourceUnavailable(
                "the server was restarted or replaced: what it still has of the last rows is examined before others count"
            )
        self.server = server

    def _may_have_lost_rows(self, server: Server) -> bool:  # noqa: ARG002  for those who override it
        """Return whether the same server may not have what was read of it before."""
        return False


async def busy(options: TableOptions, client: PostgresClient, relations: Sequence[int]) -> SourceBusy:
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
