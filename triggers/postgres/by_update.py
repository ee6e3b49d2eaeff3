"""Mode `updated_at`: the polls of one table for new and updated rows, with the window as their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from triggers.base import Finding, JsonObject, JsonValue, RowChanges, StoredPosition, TriggerBatch
from triggers.errors import ConfigurationError, SourceChanged
from triggers.postgres.catalog import FILES_TOGETHER
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import Place
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader, parse_all
from triggers.postgres.source import Altered, Source
from triggers.postgres.sql import (
    ALIVE,
    MOST_COUNTED,
    MOST_ROWS,
    NewsByUpdate,
    RowsByUpdate,
    old_rows_by_update,
    primary_key_as_json,
    row_as_json,
)
from triggers.postgres.storage import OldRows
from triggers.postgres.window import BEFORE_ALL_TIME, XID_SPACE, Snapshot, Window


@dataclass(frozen=True, kw_only=True)
class Memory:
    """`until`: everything committed before is accounted for. `left_out`: how many rows `where` did without, since this process reads.

    `files` is a number for the files of all partitions, as an older release stored it; None: there is none.
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

    async def recall(self, state: Mapping[str, Any]) -> None:
        """An older release kept one number for all files, which partitions coming and going changed too."""
        await super().recall(state)
        if self.memory.files is None:
            return
        [row] = await self.source.fetch(FILES_TOGETHER, self.source.facts.relations)
        if row["files"] != self.memory.files:
            raise SourceChanged(self._about_rewritten(self.options.table))
        self.memory = replace(self.memory, files=None)

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
        memory = Memory(window=Window.from_state(state, position.rows), until=state["until"], files=state["files"])
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
        return statements(source, where=None).all_rows, [[], 0, BEFORE_ALL_TIME]

    async def handle_what_is_there(self) -> None:
        living = await self._living()
        await self._read(self._sql.visible_xids, living=living)

    @staticmethod
    def question(source: Source) -> NewsByUpdate:
        return NewsByUpdate(table=source.options.source, column=source.options.column)

    def place(self) -> Arguments | None:
        """While no row that was handled lies above the floor: each probe would read those again."""
        window = self.memory.window
        if window.xmin is None or window.handled or window.floor <= self._rows_at:
            return None
        return window.floor, window.xmin

    async def poll(self) -> TriggerBatch:
        before, living = self.memory.until, await self._living()
        rows = await self._new_rows(living)
        if rows:
            self._rows_at = living.at
        await self.judge(*self._reason_for_alarm(living))
        kept = [row for row in rows if row["keep"]]
        self.memory = replace(self.memory, left_out=self.memory.left_out + len(rows) - len(kept))
        return self.batch_of(kept, {"from": before, "to": self.memory.until})

    @staticmethod
    def name_rows(rows: Sequence[Any]) -> JsonObject:
        return {"keys": parse_all([row["key"] for row in rows])}

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

    async def _new_rows(self, living: LockSet) -> Sequence[Any]:
        window = self.memory.window
        if window.xmin is None:
            return await self._read(self._sql.all_rows, window.floor, living=living)
        return await self._read(self._sql.new_rows, window.floor, *_xids(window), living=living)

    async def _read(self, statement: str, *arguments: object, living: LockSet) -> Sequence[Any]:
        """The rows of one snapshot, handled from here on."""
        facts = self.source.facts
        rows = await self.source.fetch(statement, facts.locked_relations, facts.files, *arguments, boot=living.boot)
        if rows[0]["note"] is not None:
            raise Altered
        if rows[0]["xid"] is not None:
            await self.source.refuse_altered()
        snapshot = Snapshot(xmin=rows[0]["snapshot_xmin"], xmax=rows[0]["snapshot_xmax"])
        self._refuse_what_is_not_exact(snapshot, rows)
        visible = [row for row in rows if row["xid"] is not None]
        window = self.memory.window.read(snapshot, {row["xid"] for row in visible})
        self.memory = replace(self.memory, window=window, until=living.at)
        return visible

    def _refuse_what_is_not_exact(self, snapshot: Snapshot, rows: Sequence[Any]) -> None:
        table, rewind = self.options.table, "`watcher rewind` to now or to a time decides"
        if self.memory.window.too_far_back(snapshot):
            raise SourceChanged(f"too many transactions have passed since the last poll of {table}; {rewind}")
        if len(rows) > MOST_ROWS:
            raise ConfigurationError(
                f"more than {MOST_ROWS:,} rows of {table} are waiting, too many for one commit:"
                " set `start` to now or to a later time and rewind the watcher there"
            )

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


def statements(source: Source, *, where: str | None) -> RowsByUpdate:
    options, facts = source.options, source.facts
    key = primary_key_as_json(facts.primary_key, facts.columns)
    row = row_as_json(options.columns, facts.columns)
    return RowsByUpdate.of(options.source, options.column, key=key, where=where, row=row)
