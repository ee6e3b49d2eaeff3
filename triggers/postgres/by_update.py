"""Mode `updated_at`: the polls of one table for new and updated rows, with the window as their memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

from triggers.base import Finding, JsonObject, JsonValue, RowChanges, StoredPosition, TriggerBatch
from triggers.errors import SourceChanged
from triggers.postgres.bad_rows import BadRow, culprit, first_unreadable, huge_row, refuse_unreadable
from triggers.postgres.failures import UnreadableRows
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import Place
from triggers.postgres.portions import length_of, size_of
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Altered, Source
from triggers.postgres.sql import (
    ALIVE,
    MOST_COUNTED,
    MOST_PLACES,
    NewsByUpdate,
    RowsByUpdate,
    old_rows_by_update,
    primary_key_as_json,
    row_as_json,
)
from triggers.postgres.storage import OldRows
from triggers.postgres.values import parse_all
from triggers.postgres.window import BEFORE_ALL_TIME, BEFORE_THE_FIRST, XID_SPACE, Part, RowPlace, Snapshot, Window


@dataclass(frozen=True, kw_only=True)
class WaitingRow:
    """A version that is to be told. `xid` has 64 bits, or is `BEFORE_THE_FIRST`; `written_by` is as it stands on the row.

    `key` is JSON, `size` that of the columns in bytes.
    """

    xid: int
    written_by: int
    place: RowPlace
    key: str
    size: int


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
        self._rows_at = memory.until
        """When the last rows were read, or a time before it."""

    def prepare(self) -> None:
        self._sql = statements(self.source, where=self.options.where)
        self._drain: Drain | None = None

    async def recall(self, state: Mapping[str, Any]) -> None:
        """An older release kept one number for all files, which partitions coming and going changed too."""
        await super().recall(state)
        if "relations" not in state and self.memory.files not in (None, self.source.facts.files):
            raise SourceChanged(self._about_rewritten(self.options.table))

    def refuse_rewritten(self) -> None:
        rewritten = self.storage.rewritten(self.source.facts, "r")
        if rewritten and self.memory.window.xmin is not None:
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
            floor = to.isoformat(timespec="microseconds").replace("+00:00", "Z")
        memory = Memory(window=Window(floor=floor, next_floor=floor), until=floor)
        return cls(source, memory, written=memory)

    @staticmethod
    def trial(source: Source) -> tuple[str, Sequence[object]]:
        row = row_as_json(source.options.columns, source.facts.types)
        sql = statements(source, where=None, size=f"length({row})")
        return sql.all_places, [[], BEFORE_ALL_TIME, None, None, None]

    async def handle_what_is_there(self) -> None:
        living = await self._living()
        snapshot, rows = await self._read(self._sql.visible_xids, living=living)
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
        count, rows = await self._part(drain)
        if count:
            await self.source.refuse_altered()
        self._take(drain, count)
        kept = [row for row in rows if row["keep"]]
        self.memory = replace(self.memory, left_out=self.memory.left_out + len(rows) - len(kept))
        return self.batch_of(kept, {"from": before, "to": self.memory.until}, caught_up=self.memory.window.part is None)

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

    def is_aged(self) -> bool:
        return self.memory.window.has_aged_since(self._written[0].window)

    def state(self) -> JsonObject:
        return {**self.memory.window.to_state(), "files": self.memory.files, "until": self.memory.until}

    def row_changes(self, written: Memory) -> RowChanges:
        window = self.memory.window
        new = window.handled - written.window.handled
        return RowChanges(delete_below=window.xmin, insert={xid: xid for xid in new})

    def watermark(self) -> dict[str, JsonValue]:
        """With the transaction that was open for longest only where that is an alarm: others end without being written."""
        window = self.memory.window
        oldest: JsonValue = None
        if window.checkpoints and self.alarm is not None:
            first = window.checkpoints[0]
            oldest = {"transaction": min(first.alive), "pid": self._pids.get(min(first.alive)), "since": first.moment}
        return {"up_to": self.memory.until, "floor": window.floor, "seen": len(window.handled), "oldest": oldest}

    async def _living(self) -> LockSet:
        """Taken into account at once."""
        [row] = await self.source.fetch(ALIVE)
        self._pids = dict(row["alive"])
        living = LockSet(boot=row["boot"], at=row["moment"], holders=self._pids)
        self.memory = replace(self.memory, window=self.memory.window.alive(living))
        return living

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
        await self.judge(*self._reason_for_alarm(living))
        waiting = [
            WaitingRow(
                xid=snapshot.widen(row["xid"]) if row["xid"] else BEFORE_THE_FIRST,
                written_by=row["written_by"],
                place=RowPlace(relation=row["relation"], block=row["place"][0], number=row["place"][1]),
                key=row["key"],
                size=row["size"],
            )
            for row in rows
        ]
        return Drain(rows=waiting, snapshot=snapshot, until=living.at, is_cut=len(waiting) >= MOST_PLACES)

    async def _read(self, statement: str, *arguments: object, living: LockSet) -> tuple[Snapshot, Sequence[Any]]:
        """The rows of one snapshot."""
        rows = await self.source.fetch(statement, self.source.facts.relations, *arguments, boot=living.boot)
        if rows[0]["files"] != self.source.facts.files:
            raise Altered
        snapshot = Snapshot(xmin=rows[0]["snapshot_xmin"], xmax=rows[0]["snapshot_xmax"])
        self._refuse_what_is_not_exact(snapshot)
        self.memory = replace(self.memory, files=rows[0]["files"])
        return snapshot, [row for row in rows if row["xid"] is not None]

    async def _part(self, drain: Drain) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """How many of the rows that wait are told now, one at least, and what stands there now."""
        some = drain.rows[: self._fitting([row.size for row in drain.rows], self.source.max_batch_bytes // 4)]
        if not some or (not self.options.columns and self.options.where is None):
            return len(some), [{"key": row.key, "keep": True} for row in some]
        self._refuse_huge(some[0], some[0].size)
        while True:
            try:
                rows = await self._rows(some)
            except UnreadableRows as error:
                count = await first_unreadable(some, self._rows)
                if not count:
                    raise await self._bad_row(some[0], error) from error
                some = some[:count]
            else:
                sizes = [length_of(row and row["row"]) for row in rows]
                self._refuse_huge(some[0], sizes[0])
                count = self._fitting(sizes, self.source.max_batch_bytes // 2)
                kept = zip(some[:count], rows, strict=False)
                return count, [{**row, "key": waiting.key} for waiting, row in kept if row is not None]

    async def _rows(self, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        """What stands there, None where there is another version by now, which comes later. Raises `UnreadableRows`."""
        return await self._rows_by(self._sql, waiting)

    async def _rows_by(self, sql: RowsByUpdate, waiting: Sequence[WaitingRow]) -> Sequence[Any]:
        relations, places = [row.place.relation for row in waiting], [row.place.ctid for row in waiting]
        xids = [str(row.written_by) for row in waiting]
        rows = {row["number"]: row for row in await self.source.fetch(sql.rows, relations, places, xids)}
        refuse_unreadable(row["row"] for row in rows.values())
        return [rows.get(number) for number in range(1, len(waiting) + 1)]

    def _refuse_huge(self, row: WaitingRow, size: int) -> None:
        """The first of these rows is to be read in any case."""
        if size > self.source.max_batch_bytes:
            raise huge_row(self.options.table, f"the key {row.key}", size, self.source.max_batch_bytes)

    def _fitting(self, sizes: Sequence[int], budget: int) -> int:
        """How many of the rows of these sizes one commit takes."""
        used = 0
        for count, size in enumerate(sizes[: self.options.batch.max_rows]):
            if count and used + size > budget:
                return count
            used += size
        return min(len(sizes), self.options.batch.max_rows)

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

    async def _bad_row(self, row: WaitingRow, error: UnreadableRows) -> BadRow:
        parts: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        if self.options.where is not None:
            sql = statements(self.source, where=self.options.where, columns=())
            parts.append(("the condition `where`", partial(self._rows_by, sql, [row])))
        for column in self.options.columns:
            sql = statements(self.source, where=None, columns=(column,))
            parts.append((f"the column {column}", partial(self._rows_by, sql, [row])))
        return BadRow(self.options.table, f"the key {row.key}", *await culprit(parts, error))

    def _refuse_what_is_not_exact(self, snapshot: Snapshot) -> None:
        table, rewind = self.options.table, "`watcher rewind` to now or to a time decides"
        if self.memory.window.too_far_back(snapshot):
            raise SourceChanged(f"too many transactions have passed since the last poll of {table}; {rewind}")

    def _reason_for_alarm(self, living: LockSet) -> tuple[str | None, str | None]:
        """With one of the transactions that have been alive for longest."""
        checkpoints = self.memory.window.checkpoints
        if checkpoints and self.too_old(checkpoints[0].moment, living.at):
            reason = "a transaction is open for too long: each poll reads again what was updated since; end it"
            return reason, min(checkpoints[0].alive)
        return None, None


def _xids(window: Window) -> tuple[str, list[str]]:
    """The last snapshot's own xmin and the xids that were handled since, as rows have them."""
    xmin = 0 if window.xmin is None else window.xmin
    return str(xmin % XID_SPACE), [str(xid % XID_SPACE) for xid in window.handled]


def _just_before(moment: str) -> str:
    before = datetime.fromisoformat(moment) - timedelta(microseconds=1)
    return before.isoformat(timespec="microseconds").replace("+00:00", "Z")


def statements(
    source: Source, *, where: str | None, columns: Sequence[str] | None = None, size: str | None = None
) -> RowsByUpdate:
    """For these columns if they are given, else for those that are configured."""
    options, facts = source.options, source.facts
    columns = options.columns if columns is None else columns
    return RowsByUpdate.of(
        options.source,
        options.column,
        key=primary_key_as_json(facts.primary_key, facts.types),
        where=where,
        row=row_as_json(columns, facts.types),
        size=size or size_of(columns, facts.columns),
    )
