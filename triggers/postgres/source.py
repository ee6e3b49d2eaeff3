"""One watched table as a mode's reader needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from triggers.errors import SourceChanged, SourceUnavailable
from triggers.postgres.checks import TableFacts
from triggers.postgres.connection import PostgresClient, Server, Session
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.sql import HOLDER

log = structlog.get_logger()


@dataclass(kw_only=True)
class Source:
    """The table, and the server that `check` found it on."""

    options: NewRowsOptions
    facts: TableFacts
    client: PostgresClient
    session: Session
    server: Server

    async def fetch(self, statement: str, *arguments: object, boot: str | None = None) -> Sequence[Any]:
        """Rows of one snapshot, of the server that was checked; with `boot` also of that life of it.

        Otherwise a list of those alive on an old primary could say that nobody writes to the new one.
        """
        answer = await self.session.fetch(statement, *arguments)
        self._recognise(answer.server)
        if boot not in (None, answer.server.boot):
            self.client.reconnect()
            raise SourceUnavailable("the server was restarted or replaced between two statements")
        return answer.rows

    async def lock_holders(self) -> LockSet:
        """Read after this call began."""
        return await self.client.locks.read(self.facts.locked_relations)

    async def about(self, transaction: str) -> Mapping[str, Any]:
        """What may be known about a virtual transaction of another session; nothing when it has ended."""
        answer = await self.session.fetch(HOLDER, transaction)
        return dict(answer.rows[0]) if answer.rows else {}

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
