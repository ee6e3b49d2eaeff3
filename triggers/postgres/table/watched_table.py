"""One table whose rows are watched: who writes to it, and what is kept of the rows that were read last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from triggers.postgres.catalog.statements import ANY_SEQUENCE, HOLDER
from triggers.postgres.history.judgement import needs_examination
from triggers.postgres.history.kept_history import KeptHistory
from triggers.postgres.history.kept_rows import ServerMarks
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server.locks import LockSet
from triggers.postgres.server.marks import MARK_AND_MARKS, MOVING_MARKS, moved
from triggers.postgres.server.session import Server
from triggers.postgres.table.examined_table import ExaminedTable


class Altered(Exception):
    """The table was altered since it was examined, so nothing that the statement returned may count."""


@dataclass(kw_only=True, slots=True)
class WatchedTable(ExaminedTable[NewRowsOptions]):
    """A table whose rows are read."""

    history: KeptHistory = field(default_factory=KeptHistory)
    """What the reader of the table keeps of its last batches."""

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

    def _may_have_lost_rows(self, server: Server) -> bool:
        kept, is_later = self.history.marks, server.at > self.history.kept_at
        return kept is not None and is_later and needs_examination(kept, server.marks)
