"""Mode `updated_at`: the polls of one table for new and updated rows, with the window as their memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

import anyio

from triggers.base import (
    Finding,
    JsonObject,
    JsonValue,
    Position,
    RejectedItem,
    RowChanges,
    StoredPosition,
    TriggerBatch,
)
from triggers.errors import SourceChanged, SourceUnavailable
from triggers.postgres.bad_rows import MOST_BAD_ROWS, refuse_many
from triggers.postgres.catalog import XID_HOLDER
from triggers.postgres.failures import STATEMENT_TIMEOUT, sqlstate_of
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import Place
from triggers.postgres.portions import length_of
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Altered, Source
from triggers.postgres.sql import (
    ALIVE,
    MOST_COUNTED,
    MOST_PLACES,
    NewsByUpdate,
    old_rows_by_update,
    row_as_json,
)
from triggers.postgres.storage import OldRows
from triggers.postgres.values import parse_all
from triggers.postgres.waiting_rows import WaitingReader, WaitingRow, statements
from triggers.postgres.window import BEFORE_ALL_TIME, BEFORE_THE_FIRST, XID_SPACE, Part, Snapshot, Window

MOST_HANDLED: Final = 100_000
"""Xids in mind, beyond which it is an alarm whoever keeps them there."""

CLOCK_JITTER: Final = timedelta(seconds=0.5)
"""By so much two looks at the server's clock may disagree; the margin of a checkpoint's moment is larger."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    """What waits, in the order in which it is told, in parts if it is much. `is_cut`: more waits than was looked up.

    `until`: what was committed before is among it.
    """

    rows: Sequence[WaitingRow]
    snapshot: Snapshot
    until: str
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class VersionsBatch(TriggerBatch):
    """With the versions that its events tell, or that it keeps aside, and the snapshot they were read in."""

    versions: Sequence[WaitingRow]
    snapshot: Snapshot

    def comes_again_from(self, window: Window) -> bool:
        """Whether any of these would be told by a watcher that goes on with this window."""
        xids = ((self.snapshot.widen(row.written_by), row.place) for row in self.versions)
        return not all(window.accounts_for(xid, place) for xid, place in xids)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """`files` is one number for all, as older releases tell a rewritten table by, None before the first read; `until`: everything committed before is accounted for.

    `left_out`: how many rows `where` did without, since this process reads.
    """

    window: Window
    files: int | None = None
    until: str = BEFORE_ALL_TIME
    left_out: int = 0


class RowsByUpdateReader(Reader[Memory]):
    def __init__(self, source: Source, memory: Memory, *, written: Memory) -> None:
        super().__init__(source, memory, written=written)
        self.prepare()
        self._pids: dict[str, int | None] = {}
        self._earliest: int | None = None
        """The process of the text of statements that came first of those under way."""
        self._oldest: JsonValue = None
        """The transaction that the alarm is about."""
        self._xmin: tuple[int, str] = (0, "")
        """Of the last snapshot, and since when it has been that."""
        self._clock: tuple[float, datetime] | None = None
        """When the living were last asked for, and what the server's clock showed then."""
        self._is_set_back = False
        """The floor went back and is not written yet."""
        self._rows_at = memory.until
        """When the last rows were read, or a time before it."""

    def prepare(self) -> None:
        self._sql = statements(self.source, where=self.options.where)
        self._reader = WaitingReader(self.source, self._sql)
        self._drain: Drain | None = None

    async def recall(self, state: Mapping[str, Any]) -> None:
        """An older release kept one number for all files, which partitions coming and going changed too."""
        await super().recall(state)
        if "relations" not in state and self.memory.files not in (None, self.source.facts.files):
            raise SourceChanged(self._about_rewritten(self.options.table))

    def refuse_rewritten(self) -> None:
        rewritten = self.storage.rewritten(self.source.facts, "r")
        window = self.memory.window
        if rewritten and (window.xmin is not None or window.first is not None):
            raise SourceChanged(self._about_rewritten(", ".join(rewritten)))

    def _about_rewritten(self, what: str) -> str:
        return (
            f"{what} was rewritten or emptied: its rows no longer tell who wrote them;"
            f" `watcher rewind {self.source.watcher}` to now or to a time decides"
        )

    async def old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """Those that the next poll would not read."""
        window, options = self.memory.window, self.options
        if window.xmin is None:
            return None
        statement = old_rows_by_update(options.source, options.column, bounds)
        [row] = await self.source.fetch(statement, oid, window.floor, *_xids(window))
        return OldRows(**row) if row["rows"] else None

    def explain_old_rows(self, partition: str, old: OldRows) -> Finding:
        watcher, most = self.source.watcher, "at least " if old.rows >= MOST_COUNTED else ""
        return Finding.warning(
            "partition",
            f"the partition {partition} came with {most}{old.rows:,} rows of {self.options.column} from {old.lowest} to"
            f" {old.highest}, written before the position then: these are not told, since they may have been told before",
            f"`watcher rewind {watcher} --to {_just_before(str(old.lowest))}` tells them, and all newer rows again (--preview"
            f" counts them); `watcher rewind {watcher} --to {self.memory.until}` if they were told before",
        )

    @classmethod
    async def begin(cls, source: Source, start: Place) -> Self:
        """With `now` all that is visible counts as handled."""
        reader = cls.rewound(source, None, start)
        if start == "now":
            await reader.handle_what_is_there()
        return reader

    @classmethod
    def resume(cls, source: Source, position: StoredPosition) -> Self:
        state: Mapping[str, Any] = position.state
        memory = Memory(window=Window.from_state(state, position.rows), files=state["files"], until=state["until"])
        return cls(source, memory, written=memory)

    @classmethod
    def rewound(cls, source: Source, position: StoredPosition | None, to: Place) -> Self:  # noqa: ARG003
        """Nothing stays open: what is above the floor is to come, and nothing else."""
        floor = BEFORE_ALL_TIME
        if isinstance(to, datetime):
            floor = _as_text(to)
        memory = Memory(window=Window(floor=floor, next_floor=floor), until=floor)
        return cls(source, memory, written=memory)

    @staticmethod
    def trial(source: Source) -> tuple[str, Sequence[object]]:
        row = row_as_json(source.options.columns, source.facts.types)
        sql = statements(source, where=None, size=f"length({row})")
        return sql.all_places, [[], BEFORE_ALL_TIME, None, None, None]

    async def handle_what_is_there(self) -> None:
        living = await self._living()
        try:
            snapshot, rows = await self._read(self._sql.visible_xids, living=living)
        except SourceUnavailable as error:
            if sqlstate_of(error) != STATEMENT_TIMEOUT:
                raise
            raise SourceUnavailable(
                f"to begin at now {self.options.table} is read once as a whole, which took too long: begin at a time instead,"
                f" with `start: {living.at}`, or with `watcher rewind {self.source.watcher} --to {living.at}` after a rewind"
            ) from error.__cause__
        window = self.memory.window.read(snapshot, {row["xid"] for row in rows})
        self.memory = replace(self.memory, window=window, until=living.at)

    @staticmethod
    def question(source: Source) -> NewsByUpdate:
        return NewsByUpdate(table=source.options.source, column=source.options.column)

    def place(self) -> Arguments | None:
        """While no row that was handled lies above the floor: each probe would read those again."""
        window = self.memory.window
        if window.xmin is None or window.part or window.handled or window.floor <= self._rows_at:
            return None
        return window.floor, window.xmin

    async def poll(self) -> TriggerBatch:
        before, drain = self.memory.until, self._drain or await self._look()
        batch_rows = await self._reader.read(drain.rows, reports=self.options.on_bad_row == "report")
        refuse_many(self.options.table, batch_rows.count, batch_rows.rejected)
        self._take(drain, batch_rows.count)
        if batch_rows.count or self.worth_a_write() or self.is_aged():
            await self.source.refuse_altered()
        kept = [row for row in batch_rows.rows if row["keep"]]
        left_out = {row["key"] for row in batch_rows.rows if not row["keep"]}
        self.memory = replace(self.memory, left_out=self.memory.left_out + len(left_out))
        watermark, caught_up = {"from": before, "to": self.memory.until}, self.memory.window.part is None
        batch = self.batch_of(kept, watermark, caught_up=caught_up, rejected=batch_rows.rejected)
        versions = [row for row in drain.rows[: batch_rows.count] if row.key not in left_out]
        return VersionsBatch(**vars(batch), versions=versions, snapshot=drain.snapshot)

    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Those versions that still stand there; newer ones come by themselves. The window stays as it is."""
        some = items[:MOST_BAD_ROWS]
        versions = {(json.dumps(item.key), item.version): item for item in some}
        names = self.source.facts.primary_key
        keys = [dict(zip(names, item.key if len(names) > 1 else [item.key], strict=True)) for item in some]  # type: ignore[arg-type]  # a list
        rows = await self.source.fetch(self._sql.by_key, json.dumps(keys))
        waiting = [row for row in map(WaitingRow.of, rows) if (json.dumps(row.json_key), row.version) in versions]
        batch_rows = await self._reader.read(waiting, reports=True)
        await self.source.refuse_altered()
        left = {(json.dumps(row.json_key), row.version) for row in waiting[batch_rows.count :]}
        tried = [item for place, item in versions.items() if place not in left]
        here = {"from": self.memory.until, "to": self.memory.until}
        kept = [row for row in batch_rows.rows if row["keep"]]
        batch = self.batch_of(kept, here, caught_up=False, rejected=batch_rows.rejected, tried=tried)
        return batch, [item for item in items if item not in tried]

    @staticmethod
    def key_of(row: Any) -> JsonValue:
        return parse_all([row["key"]])[0]  # type: ignore[no-any-return]

    @staticmethod
    def name_rows(rows: Sequence[Any]) -> JsonObject:
        return {"keys": parse_all([row["key"] for row in rows])}

    @staticmethod
    def name_size(row: Any) -> int:
        return length_of(row["key"]) + 2

    def has_moved(self, written: Memory) -> bool:
        """`where` left rows out; without a row, floor and snapshot only follow the clock."""
        return self.memory.left_out != written.left_out

    @property
    def up_to(self) -> JsonValue:
        return self.memory.until

    def position(self) -> Position:
        self._is_set_back = False
        return super().position()

    def is_aged(self) -> bool:
        return self._is_set_back or self.memory.window.has_aged_since(self._written[0].window)

    def state(self) -> JsonObject:
        return {**self.memory.window.to_state(), "files": self.memory.files, "until": self.memory.until}

    def row_changes(self, written: Memory) -> RowChanges:
        window = self.memory.window
        new = window.handled - written.window.handled
        return RowChanges(delete_below=window.xmin, insert={xid: xid for xid in new})

    def watermark(self) -> dict[str, JsonValue]:
        """With the transaction that was open for longest only where that is an alarm: others end without being written."""
        window, oldest = self.memory.window, None if self.alarm is None else self._oldest
        return {"up_to": self.memory.until, "floor": window.floor, "seen": len(window.handled), "oldest": oldest}

    async def _living(self) -> LockSet:
        """Taken into account at once."""
        asked_at = anyio.current_time()
        [row] = await self.source.fetch(ALIVE, repeated=True)
        self._pids = dict(row["alive"])
        since, self._earliest = row["earliest"] or (None, None)
        living = LockSet(boot=row["boot"], at=row["moment"], holders=self._pids, since=since)
        if (moment := self._clock_went_back_to(living, asked_at)) is not None:
            self._set_back(moment)
        self.memory = replace(self.memory, window=self.memory.window.alive(living))
        return living

    def _set_back(self, moment: str) -> None:
        [written, alarm], window = self._written, self.memory.window
        self._written = replace(written, window=written.window.set_back(moment)), alarm
        self.memory = replace(self.memory, window=window.set_back(moment))
        self._is_set_back = self._is_set_back or self.memory.window != window

    def _clock_went_back_to(self, living: LockSet, asked_at: float) -> str | None:
        """The lowest that the server's clock can have shown since the last look, if that is a step back."""
        window, now, before = self.memory.window, datetime.fromisoformat(living.at), self._clock
        self._clock = (asked_at, now)
        if window.boot not in ("", living.boot):  # all transactions began since, but for the prepared ones
            return _as_text(datetime.fromisoformat(living.boot) - timedelta(seconds=1))
        if before is not None:
            lowest = now - timedelta(seconds=anyio.current_time() - before[0])
            return _as_text(lowest) if lowest < before[1] - CLOCK_JITTER else None
        return BEFORE_ALL_TIME if window.boot and window.xmin is not None and living.at < self.memory.until else None

    async def _look(self) -> Drain:
        """What waits above the floor, read after a list of the living."""
        living, window = await self._living(), self.memory.window
        part = window.part
        behind = (None, None) if part is None else (part.place.relation, part.place.ctid)
        xmin = window.first if window.xmin is None else window.xmin
        arguments: tuple[object, ...] = window.floor, None if xmin is None else str(xmin % XID_SPACE)
        if window.xmin is not None:
            arguments += (
                [str(xid % XID_SPACE) for xid in window.handled],
                None if part is None else str(part.xid % XID_SPACE),
            )
        statement = self._sql.all_places if window.xmin is None else self._sql.new_places
        snapshot, rows = await self._read(statement, *arguments, *behind, living=living)
        if rows:
            self._rows_at = living.at
        await self.judge(*await self._reason_for_alarm(living, snapshot))
        waiting = [WaitingRow.of(row, snapshot.widen(row["xid"]) if row["xid"] else BEFORE_THE_FIRST) for row in rows]
        return Drain(rows=waiting, snapshot=snapshot, until=living.at, is_cut=len(waiting) >= MOST_PLACES)

    async def _read(self, statement: str, *arguments: object, living: LockSet) -> tuple[Snapshot, Sequence[Any]]:
        """The rows of one snapshot."""
        relations, repeated = self.source.facts.relations, statement is self._sql.new_places
        rows = await self.source.fetch(statement, relations, *arguments, boot=living.boot, repeated=repeated)
        if rows[0]["files"] != self.source.facts.files:
            raise Altered
        snapshot = Snapshot(xmin=rows[0]["snapshot_xmin"], xmax=rows[0]["snapshot_xmax"])
        self._refuse_what_is_not_exact(snapshot)
        self.memory = replace(self.memory, files=rows[0]["files"])
        return snapshot, [row for row in rows if row["xid"] is not None]

    def _take(self, drain: Drain, count: int) -> None:
        """The first rows of the drain are handled from here on."""
        some, rest = drain.rows[:count], drain.rows[count:]
        xids, window = {row.xid for row in some}, self.memory.window
        if rest or drain.is_cut:
            window = window.read_part(drain.snapshot, xids, Part(xid=some[-1].xid, place=some[-1].place))
            self.memory = replace(self.memory, window=window)
        else:
            window = window.read(drain.snapshot, xids - {BEFORE_THE_FIRST})
            self.memory = replace(self.memory, window=window, until=drain.until)
        self._drain = replace(drain, rows=rest) if rest else None

    def _refuse_what_is_not_exact(self, snapshot: Snapshot) -> None:
        table, rewind = self.options.table, "`watcher rewind` to now or to a time decides"
        if self.memory.window.too_far_back(snapshot):
            raise SourceChanged(f"too many transactions have passed since the last poll of {table}; {rewind}")

    async def _reason_for_alarm(self, living: LockSet, snapshot: Snapshot) -> tuple[str | None, str | None]:
        """With one of the transactions that have been alive for longest, or the one that keeps many xids in mind."""
        checkpoints = self.memory.window.checkpoints
        if self._xmin[0] != snapshot.xmin:
            self._xmin = (snapshot.xmin, living.at)
        if checkpoints and self.too_old(checkpoints[0].moment, living.at):
            by_text = [name for name, pid in self._pids.items() if pid is not None and pid == self._earliest]
            transaction = min(by_text or checkpoints[0].alive)
            self._oldest = _holder(transaction, self._pids.get(transaction), checkpoints[0].moment)
            return (
                "a transaction is open for too long: each poll reads again what was updated since; end it",
                transaction,
            )
        if not self._has_many_in_mind(living):
            return None, None
        for row in await self.source.fetch(XID_HOLDER, str(snapshot.xmin % XID_SPACE)):
            self._oldest = _holder(row["transaction"], row["pid"], self._xmin[1])
            many = len(self.memory.window.handled)
            return f"{many:,} transactions are kept in mind until the oldest of the server ends; end it", row[
                "transaction"
            ]
        return None, None

    def _has_many_in_mind(self, living: LockSet) -> bool:
        """A transaction of another database keeps them there, too, which is in no list of the living."""
        many = len(self.memory.window.handled)
        return many >= MOST_HANDLED or (many >= self.options.gap_alarm.count and self.too_old(self._xmin[1], living.at))


def _holder(transaction: str, pid: int | None, since: str) -> JsonObject:
    return {"transaction": transaction, "pid": pid, "since": since}


def _xids(window: Window) -> tuple[str, list[str]]:
    """The last snapshot's own xmin and the xids that were handled since, as rows have them."""
    xmin = 0 if window.xmin is None else window.xmin
    return str(xmin % XID_SPACE), [str(xid % XID_SPACE) for xid in window.handled]


def _just_before(moment: str) -> str:
    return _as_text(datetime.fromisoformat(moment) - timedelta(microseconds=1))


def _as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
