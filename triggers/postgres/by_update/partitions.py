"""Partitions of a table in mode `updated_at`: what was attached before the position, and relations that were rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from triggers.base import Finding
from triggers.errors import SourceChanged
from triggers.postgres.by_update.statements import old_rows_by_update
from triggers.postgres.by_update.window import XID_SPACE, VersionMemory, VersionWindow, moment_text
from triggers.postgres.catalog.relations import OldRows
from triggers.postgres.reading.partitions import Partitions


class PartitionsByUpdate(Partitions[VersionMemory]):
    __slots__ = ()

    def recall(self, state: Mapping[str, Any]) -> None:
        """Also compare the one number for all files that an older release stored; attached and dropped partitions changed it too."""
        super().recall(state)
        if "relations" not in state and self._progress.memory.files not in (None, self._table.facts.files):
            raise SourceChanged(self._about_rewritten(self._table.options.table))

    def _refuse_rewritten(self) -> None:
        rewritten = self._progress.relations.rewritten(self._table.facts, "r")
        window = self._progress.memory.window
        if rewritten and (window.xmin is not None or window.first is not None):
            raise SourceChanged(self._about_rewritten(", ".join(rewritten)))

    def _about_rewritten(self, relations: str) -> str:
        return (
            f"{relations} was rewritten or emptied, so its rows no longer show which transaction wrote them;"
            f" choose where to continue with `watcher rewind {self._table.watcher}`, to now or to a time"
        )

    async def _old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """Count the rows that the next poll would not read."""
        window, options = self._progress.memory.window, self._table.options
        if window.xmin is None:
            return None
        statement = old_rows_by_update(options.source, options.column, bounds, options.by_update.time_zone)
        [row] = await self._table.fetch(statement, oid, window.floor, *_row_xids(window.xmin, window))
        return OldRows.from_row(row) if row["rows"] else None

    def _finding(self, partition: str, old: OldRows) -> Finding:
        watcher, column = self._table.watcher, self._table.options.column
        before = moment_text(datetime.fromisoformat(str(old.lowest)) - timedelta(microseconds=1))
        return Finding.warning(
            "partition",
            f"the partition {partition} was attached with {old.how_many} rows of {column} from {old.lowest} to"
            f" {old.highest}, written before the position at that time: they are not reported, because they may have been"
            " reported before",
            f"`watcher rewind {watcher} --to {before}` reports them, and all newer rows again (--preview counts them);"
            f" `watcher rewind {watcher} --to {self._progress.memory.until}` if they were reported before",
        )


def _row_xids(xmin: int, window: VersionWindow) -> tuple[str, list[str]]:
    """Return the last snapshot's own xmin and the xids handled since, in the 32 bits that rows hold."""
    return str(xmin % XID_SPACE), [str(xid % XID_SPACE) for xid in window.handled]
