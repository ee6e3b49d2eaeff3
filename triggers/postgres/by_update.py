"""Mode `updated_at`: the polls of one table for new and updated rows, with the window as their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from triggers.base import JsonObject, JsonValue, RowChanges, StoredPosition, TriggerBatch
from triggers.errors import ConfigurationError, SourceChanged
from triggers.postgres.ledger import LockSet
from triggers.postgres.options import NewRowsOptions, Place
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Source
from triggers.postgres.sql import ALIVE, MOST_ROWS, NewsByUpdate, RowsByUpdate, primary_key_as_json, row_as_json
from triggers.postgres.values import parse_all
from triggers.postgres.window import BEFORE_ALL_TIME, XID_SPACE, Snapshot, Window


@dataclass(frozen=True, kw_only=True)
class Memory:
    """`files` tells a rewritten table, None before the first read; `until`: everything committed before is accounted for.

    `left_out`: how many rows `where` did without, since this process reads.
    """

    window: Window
    files: int | None = None
    until: str = BEFORE_ALL_TIME
    left_out: int = 0


class RowsByUpdateReader(Reader[Memory]):
    def __init__(self, source: Source, memory: Memory, *, written: Memory) -> None:
        super().__init__(source, memory, written=written)
        self._sql = statements(source, where=source.options.where)
        self._pids: dict[str, int | None] = {}
        self._rows_at = memory.until
        """When the last rows were read, or a time before it."""

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
        return statements(source, where=None).all_rows, [[], BEFORE_ALL_TIME]

    async def handle_what_is_there(self) -> None:
        living = await self._living()
        await self._read(self._sql.visible_xids, self.source.facts.relations, living=living)

    @staticmethod
    def question(options: NewRowsOptions) -> NewsByUpdate:
        return NewsByUpdate(table=options.source, column=options.column)

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
        window, relations = self.memory.window, self.source.facts.relations
        if window.xmin is None:
            return await self._read(self._sql.all_rows, relations, window.floor, living=living)
        handled = [str(xid % XID_SPACE) for xid in window.handled]
        xmin = str(window.xmin % XID_SPACE)
        return await self._read(self._sql.new_rows, relations, window.floor, xmin, handled, living=living)

    async def _read(self, statement: str, *arguments: object, living: LockSet) -> Sequence[Any]:
        """The rows of one snapshot, handled from here on."""
        rows = await self.source.fetch(statement, *arguments, boot=living.boot)
        snapshot = Snapshot(xmin=rows[0]["snapshot_xmin"], xmax=rows[0]["snapshot_xmax"])
        self._refuse_what_is_not_exact(snapshot, rows)
        visible = [row for row in rows if row["xid"] is not None]
        window = self.memory.window.read(snapshot, {row["xid"] for row in visible})
        self.memory = replace(self.memory, window=window, files=rows[0]["files"], until=living.at)
        return visible

    def _refuse_what_is_not_exact(self, snapshot: Snapshot, rows: Sequence[Any]) -> None:
        table, rewind = self.options.table, "`watcher rewind` to now or to a time decides"
        if self.memory.files not in (None, rows[0]["files"]):
            raise SourceChanged(f"{table} was rewritten or emptied: its rows no longer tell who wrote them; {rewind}")
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


def statements(source: Source, *, where: str | None) -> RowsByUpdate:
    options, facts = source.options, source.facts
    key = primary_key_as_json(facts.primary_key, facts.types)
    row = row_as_json(options.columns, facts.types)
    return RowsByUpdate.of(options.source, options.column, key=key, where=where, row=row)
