"""Examining what a server still has of the rows that were reported last, before any other row counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic

import anyio
import structlog

from triggers.base import Finding, JsonObject, Position, StoredPosition
from triggers.errors import SourceChanged
from triggers.hosting import UNRESOLVED
from triggers.postgres.history.judgement import (
    Decision,
    Judgement,
    PresentRow,
    RowFate,
    is_another_timeline,
    judge,
    needs_examination,
)
from triggers.postgres.history.kept_history import IS_BACK, NEWEST_CHUNK
from triggers.postgres.history.kept_rows import (
    FINGERPRINT,
    Chunk,
    ChunkWindow,
    Key,
    Milestone,
    ServerMarks,
    key_parts,
    widened,
)
from triggers.postgres.reading.progress import MemoryT, ReadProgress
from triggers.postgres.table.watched_table import WatchedTable

log = structlog.get_logger()

EXAMINED_AT_A_TIME: Final = 10_000
NAMED: Final = 100
"""How many keys a finding or an error names."""
CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""The clocks of two servers of one history differ by less than this."""


class HistoryExamination(ABC, Generic[MemoryT]):
    """Compares a stored position's chunks with the server, and changes the reader's memory if something was taken back."""

    def __init__(self, table: WatchedTable, progress: ReadProgress[MemoryT]) -> None:
        self._table = table
        self._progress = progress
        self.refusal: SourceChanged | None = None
        """Why only a person can say where to continue. It is raised after the position of `resume` is written."""

    async def begin(self) -> Position:
        """Return the first position, which keeps the newest rows that count as handled: nothing was reported yet."""
        chunk = await self._baseline()
        self._table.history.begin(chunk if chunk.keys else replace(chunk, before=self._beginning))
        return self._progress.position()

    def refuse(self) -> None:
        """Raise the `refusal`, if there is one."""
        if self.refusal is not None:
            raise self.refusal

    async def resume(self, position: StoredPosition) -> Position | None:
        """Continue with the position's chunks. Return the position that must be written before any row counts, if there is one.

        What showed that the history went back is written too, because the server may show it no longer after a restart.
        Raises `SourceChanged`, or sets `refusal`, if only a person can say where to continue.
        """
        table, history = self._table, self._table.history
        state: Mapping[str, Any] = position.state
        history.changes, history.is_back = state.get(UNRESOLVED, ()), state.get(IS_BACK, False)
        history.kept_at = anyio.current_time()
        now = await table.marks()
        chunks = {number: Chunk.unpack(data) for number, data in sorted(position.chunks.items())}
        history.window = ChunkWindow.of(chunks)
        newest = history.window.newest
        if newest is None or state.get(NEWEST_CHUNK) != history.window.last_number:
            # A rewind has dropped the chunks, or an older release has moved the position without one.
            if is_another_timeline(state["timeline"], now.timeline):
                self._add_change({"timeline": state["timeline"], "lsn": None, "decision": "unknown"}, now)
            history.begin(await self._baseline())
            return replace(self._progress.position(), silent=True)
        if not needs_examination(newest.marks, now) and not history.is_back:
            return None
        try:
            is_healed = await self._examine([*chunks.values()], now)
        except SourceChanged as error:
            if history.is_back:
                raise
            self.refusal, history.is_back = error, True
            return replace(self._progress.position(), silent=True)
        return replace(self._progress.position(), silent=not is_healed)

    async def _examine(self, chunks: Sequence[Chunk], now: ServerMarks) -> bool:
        """Compare the chunks with the server. Return whether something was taken back."""
        table, kept = self._table, chunks[-1].marks
        present: dict[Key, PresentRow] = {}
        for keys in key_parts((key for chunk in chunks for key in chunk.keys), EXAMINED_AT_A_TIME):
            present |= await self._present(keys)
        is_back = table.history.is_back or await self._is_back()
        judgement = judge(chunks, present, now, table.facts.witness, is_back=is_back)
        if judgement.decision is Decision.BLOCKED:
            raise SourceChanged(self._about_blocked(judgement, chunks, now))
        is_healed = judgement.decision is Decision.HEAL
        if is_healed:
            await self._heal(judgement, present)
        else:
            self._restarted(judgement, now)
        table.history.is_back = False
        if is_healed or is_another_timeline(kept.timeline, now.timeline):
            self._add_change(self._change(judgement, chunks), now)
        if is_healed:
            table.history.begin(await self._baseline())
        else:
            table.history.note(now, anyio.current_time())
        return is_healed

    @abstractmethod
    async def _present(self, keys: Sequence[Key]) -> Mapping[Key, PresentRow]:
        """Return the rows that stand under these keys now."""

    @abstractmethod
    async def _baseline(self) -> Chunk:
        """Return a chunk of the newest rows that are handled."""

    async def _is_back(self) -> bool:
        """Return whether something besides rows and marks says that the history went back."""
        return False

    @abstractmethod
    async def _heal(self, judgement: Judgement, present: Mapping[Key, PresentRow]) -> None:
        """Set the memory back to what the judgement found certain. Raises `SourceChanged` beside a prepared transaction."""

    @property
    @abstractmethod
    def _beginning(self) -> Milestone:
        """The milestone before everything."""

    def _restarted(self, judgement: Judgement, now: ServerMarks) -> None:
        """Take note of a restart or a promotion that took nothing back."""

    @abstractmethod
    def _rewind_to(self, chunk: Chunk) -> str:
        """Return the place for a rewind that reports everything since this chunk again."""

    def _about_blocked(self, judgement: Judgement, chunks: Sequence[Chunk], now: ServerMarks) -> str:
        table, name, oldest = self._table.options.table, self._table.watcher, chunks[0]
        rewind = f"`watcher rewind {name} --to"
        what = f"the history of {table} went back from {_where(chunks[-1].marks)} to {_where(now)}"
        if judgement.unclear:
            ids = ", ".join(map(str, judgement.unclear[:NAMED]))
            last = min(judgement.reached, judgement.unclear[0] - 1)
            return (
                f"{what}; of the rows with the ids {ids} it cannot be told whether they were reported: {rewind} {last}` reports"
                f" all rows above {last}, also those reported before (--preview counts them), --to now none of them"
            )
        since = datetime.fromtimestamp(oldest.at, UTC).isoformat(timespec="seconds")
        place, until = self._rewind_to(oldest), self._rewind_to(chunks[-1])
        return (
            f"{what}; of the {len(judgement.fates):,} rows that were read since {since}, from {place} to {until}, none proves where"
            f" the two part, so rows written after that may be missing. If they part later than {since}, {rewind} {place}` reports"
            f" all rows behind that (--preview counts them), also those reported before; if a copy is older, name a place before"
            f" it, or start; --to now reports none"
        )

    def _change(self, judgement: Judgement, chunks: Sequence[Chunk]) -> JsonObject:
        counts = judgement.counts
        gone = judgement.keys(RowFate.GONE)
        return {
            "timeline": chunks[-1].marks.timeline,
            "lsn": chunks[-1].marks.inserted,
            "decision": judgement.decision.value,
            "rows": {fate.value: counts[fate] for fate in RowFate if counts[fate]},
            "gone": gone[:NAMED] if judgement.decision is Decision.HEAL else [],
            "from": self._reached(judgement),
        }

    @abstractmethod
    def _reached(self, judgement: Judgement) -> str:
        """Say from where on rows count as new, for a person."""

    def _add_change(self, change: JsonObject, now: ServerMarks) -> None:
        to = {"timeline": now.timeline, "lsn": now.inserted, "replayed": now.replayed, "boot": now.boot}
        entry = {**change, "to": to, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        self._table.history.add_change(entry)
        log.warning("postgres.history_changed", table=self._table.options.table, **entry)


def _where(marks: ServerMarks) -> str:
    return f"timeline {marks.timeline} at {lsn_text(marks.inserted)}, of the server started {marks.boot}"


def lsn_text(position: int | None) -> str:
    """Return a position in the WAL as PostgreSQL writes it."""
    return "an unknown position" if position is None else f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def history_findings(changes: Sequence[Mapping[str, Any]], watcher: str) -> list[Finding]:
    """Return a finding for each change of history that nobody has resolved."""
    return [_finding(change, watcher) for change in changes]


def _finding(change: Mapping[str, Any], watcher: str) -> Finding:
    to, rows = change["to"], change.get("rows", {})
    counts = ", ".join(f"{number:,} {fate}" for fate, number in rows.items()) or "no rows"
    what = (
        f"at {change['at']} the server's history changed: from timeline {change['timeline']} at {lsn_text(change['lsn'])} to"
        f" timeline {to['timeline']} at {lsn_text(to['lsn'])}"
    )
    remedy = f"`watcher watchers resolve {watcher}` once you have read it"
    match change["decision"]:
        case "same":
            return Finding.info("history", f"{what}; nothing that was reported was taken back ({counts})", remedy)
        case "unknown":
            text = (
                f"{what}, while the position kept no rows to compare: what was written around that time is not proven"
            )
            return Finding.warning("history", text, remedy)
    gone = ", ".join(map(str, change["gone"]))
    named = f"; gone are {gone}" if gone else ""
    return Finding.warning("history", f"{what}. Of the rows read last {counts}{named}; {change['from']}", remedy)


def present_row(row: Any) -> PresentRow:
    """Return a row as the server has it now."""
    xid, witness = FINGERPRINT.unpack(row["fingerprint"])
    return PresentRow(xid=widened(xid, row["xmax"]), witness=witness)


def waits_for(name: str, why: str) -> SourceChanged:
    """Return the error that a prepared transaction must end first."""
    return SourceChanged(
        f"the server's history went back, and the prepared transaction {name!r} is open: {why}. The watcher continues when it has"
        " ended: roll it back; if you commit it, its rows are not reported, unless `watcher rewind` goes back behind them"
    )
