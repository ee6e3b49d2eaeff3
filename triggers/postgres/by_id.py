"""Mode `id`: the polls of one table, with the ledger as their memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Self

import structlog

from triggers.base import JsonObject, JsonValue, StoredPosition, TriggerBatch
from triggers.postgres.bad_rows import BadRow, culprit, first_unreadable, huge_row, refuse_unreadable
from triggers.postgres.failures import UnreadableRows
from triggers.postgres.ledger import MOST_GAPS, Ledger, LockSet, ranges_of
from triggers.postgres.options import SMALLEST_ID, NewRowsOptions, Place
from triggers.postgres.portions import Portion, Sized, length_of, portion_of, size_of
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Source
from triggers.postgres.sql import NEWEST_IDS, NewsById, RowsById, condition, quoted, row_as_json

log = structlog.get_logger()

MOST_GAPS_AT_START: Final = MOST_GAPS // 2
"""Deleted rows leave holes too: room is left for those that writers are going to make."""


class RowsByIdReader(Reader[Ledger]):
    def __init__(self, source: Source, ledger: Ledger) -> None:
        super().__init__(source, ledger, written=ledger)
        self._sql = statements(source, where=source.options.where)
        size = size_of(source.options.columns, source.facts.columns)
        self._sizes: RowsById | None = None
        if size is not None:
            table, column = source.options.source, source.options.column
            self._sizes = RowsById.of(table, column, where=source.options.where, row=size)

    @classmethod
    async def begin(cls, source: Source, start: Place) -> Self:
        if start == "now":
            return cls(source, await _ledger_of_now(source))
        return cls.rewound(source, None, start)

    @classmethod
    def resume(cls, source: Source, position: StoredPosition) -> Self:
        return cls(source, Ledger.from_state(position.state))

    @classmethod
    def rewound(cls, source: Source, position: StoredPosition | None, to: Place) -> Self:
        highest = to if isinstance(to, int) else _before_all(source)
        ledger = Ledger(highest=highest) if position is None else Ledger.from_state(position.state)
        return cls(source, ledger.rewound(highest))

    @staticmethod
    def trial(source: Source) -> tuple[str, Sequence[object]]:
        return statements(source, where=None).fresh, [0, 0]

    @staticmethod
    def question(options: NewRowsOptions) -> NewsById:
        return NewsById(table=options.source, column=options.column)

    def place(self) -> Arguments | None:
        return (self.memory.highest,) if self.memory.settled else None

    async def poll(self) -> TriggerBatch:
        before, locks = self.memory.highest, await self._lock_holders()
        rows, more = await self._read()
        if locks is not None:
            await self.judge(*self._reason_for_alarm(locks))
        return self.batch_of(rows, {"from": before, "to": self.memory.highest}, caught_up=not more)

    @staticmethod
    def name_rows(rows: Sequence[Any]) -> JsonObject:
        """The sizes of `ranges` add up to the number of rows."""
        return {"ranges": [list(limits) for limits in ranges_of([row[0] for row in rows])]}

    @staticmethod
    def name_size(row: Any) -> int:  # noqa: ARG004  all are alike
        return 48

    def has_moved(self, written: Ledger) -> bool:
        """Gaps opened or closed, or `where` left rows out."""
        return self.memory != written

    def state(self) -> JsonObject:
        return self.memory.to_state()

    def watermark(self) -> dict[str, JsonValue]:
        ledger, oldest = self.memory, self.memory.oldest
        holder = oldest and {"transaction": oldest[0], "pid": oldest[1].pid, "since": oldest[1].since}
        gaps = len(ledger.gaps) + len(ledger.holes)
        return {"up_to": ledger.highest, "gaps": gaps, "open_ids": ledger.open_ids, "oldest": holder}

    async def _lock_holders(self) -> LockSet | None:
        """Needed only while something is missing; taken into account at once."""
        if self.memory.settled:
            return None
        locks = await self.source.lock_holders()
        self.memory = self.memory.locked(locks)
        return locks

    async def _read(self) -> tuple[Sequence[Any], bool]:
        """Those of the rows accounted for now that `where` keeps, ascending; and whether more is waiting."""
        ledger = self.memory
        whole = Portion(
            fresh=ledger.fresh_limit(self.options.batch.max_rows), late=ledger.late_limit(), gaps=len(ledger.gaps)
        )
        portion, rows = await self._readable(ledger, whole)
        ids = [row[0] for row in rows]
        self.memory, cut = ledger.read(ids, fresh_limit=portion.fresh, late_limit=portion.late, gaps_read=portion.gaps)
        kept = rows if self.options.where is None else [row for row in rows if row["keep"]]
        return kept, cut or portion.is_part

    async def _readable(self, ledger: Ledger, whole: Portion) -> tuple[Portion, Sequence[Any]]:
        """As many rows as make a batch, all before the first that cannot be told. Raises `BadRow` if that is the next one."""
        while True:
            try:
                return await self._fitting(ledger, whole)
            except UnreadableRows as error:
                plain = RowsById.of(self.options.source, self.options.column, where=None, row=None)
                ids = [row[0] for row in await self._fetch(plain, ledger, whole)]
                count = await first_unreadable(ids, partial(self._read_some, ledger, whole)) if ids else 0
                if not count:
                    raise await self._bad_row(ledger, whole, ids[:1], error) from error
                whole = portion_of([(number, 1) for number in ids], ledger, whole, budget=count)

    async def _read_some(self, ledger: Ledger, whole: Portion, ids: Sequence[int]) -> None:
        """Compute, send and decode no other rows of this portion. Raises `UnreadableRows`."""
        where, row = self.options.where, row_as_json(self.options.columns, self.source.facts.types)
        size = size_of(self.options.columns, self.source.facts.columns)
        parts: Sequence[Sequence[int]] = [ids]
        if size is not None:
            sized = await self._fetch(self._only(ids, where, size), ledger, whole)
            parts = self._parts(ids, {each[0]: each["row"] or 0 for each in sized})
        for part in parts:
            rows = await self._fetch(self._only(part, where, row), ledger, whole)
            refuse_unreadable(each["row"] for each in rows)

    def _parts(self, ids: Sequence[int], sizes: Mapping[int, int]) -> Sequence[Sequence[int]]:
        """As many ids as are read at a time."""
        parts: list[list[int]] = [[]]
        used = 0
        for number in ids:
            used += sizes.get(number, 0)
            if parts[-1] and used > self.source.max_batch_bytes // 4:
                parts.append([])
                used = sizes.get(number, 0)
            parts[-1].append(number)
        return parts

    def _only(self, ids: Sequence[int], where: str | None, row: str | None) -> RowsById:
        """A statement that looks into these rows only, and else at ids."""
        cursor = f"{self.options.source.sql}.{quoted(self.options.column)}"
        numbers = ",".join(map(str, ids))
        among = f"CASE WHEN {cursor} = ANY ('{{{numbers}}}'::int8[]) THEN {condition(where)} ELSE false END"
        return RowsById.of(self.options.source, self.options.column, where=among, row=row)

    async def _bad_row(self, ledger: Ledger, whole: Portion, ids: Sequence[int], error: UnreadableRows) -> BadRow:
        async def read(where: str | None, row: str | None) -> None:
            rows = await self._fetch(self._only(ids, where, row), ledger, whole)
            refuse_unreadable(each["row"] for each in rows if row is not None)

        parts: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        if self.options.where is not None:
            parts.append(("the condition `where`", partial(read, self.options.where, None)))
        for column in self.options.columns:
            row = row_as_json([column], self.source.facts.types)
            parts.append((f"the column {column}", partial(read, None, row)))
        key = f"{self.options.column} {ids[0]}" if ids else "an id"
        return BadRow(self.options.table, key, *await culprit(parts, error))

    async def _fitting(self, ledger: Ledger, whole: Portion) -> tuple[Portion, Sequence[Any]]:
        """As many rows as make a batch that is not too large, and at least one."""
        if self._sizes is None:
            rows = await self._fetch(self._sql, ledger, whole)
            refuse_unreadable(row["row"] for row in rows if self.options.columns)
            return whole, rows
        sized = [(row[0], row["row"] or 0) for row in await self._fetch(self._sizes, ledger, whole)]
        most = self.source.max_batch_bytes
        portion, budget = whole, most // 4  # JSON may be longer than what it stands for
        while True:
            self._refuse_huge(sized, most)
            portion = portion_of(sized, ledger, portion, budget)
            rows = await self._fetch(self._sql, ledger, portion)
            refuse_unreadable(row["row"] for row in rows)
            sized, budget = [(row[0], length_of(row["row"])) for row in rows], most // 2
            if len(rows) <= 1 or sum(size for _, size in sized) <= budget:
                self._refuse_huge(sized, most)
                return portion, rows

    def _refuse_huge(self, sized: Sequence[Sized], most: int) -> None:
        """The first of these rows is to be read in any case."""
        if sized and sized[0][1] > most:
            number, size = sized[0]
            raise huge_row(self.options.table, f"{self.options.column} {number}", size, most)

    async def _fetch(self, sql: RowsById, ledger: Ledger, portion: Portion) -> Sequence[Any]:
        if not portion.gaps:
            return await self.source.fetch(sql.fresh, ledger.highest, portion.fresh)
        gaps = ledger.gaps[: portion.gaps]
        limits = [gap.low for gap in gaps], [gap.high for gap in gaps], portion.late
        rows = await self.source.fetch(sql.fresh_and_late, ledger.highest, portion.fresh, *limits, boot=ledger.boot)
        return sorted(rows, key=itemgetter(0))

    def _reason_for_alarm(self, locks: LockSet) -> tuple[str | None, str | None]:
        """With the transaction that holds gaps open for longest."""
        gaps, oldest = len(self.memory.gaps), self.memory.oldest
        transaction = oldest[0] if oldest is not None else None
        if gaps >= MOST_GAPS:
            return "so many gaps are open that newer rows wait until their writers end", transaction
        if gaps >= self.options.gap_alarm.count:
            return "too many gaps are open", transaction
        if oldest is not None and self.too_old(oldest[1].since, locks.at):
            return "a writer keeps gaps open for too long: end its transaction", transaction
        return None, None


def statements(source: Source, *, where: str | None) -> RowsById:
    options = source.options
    row = row_as_json(options.columns, source.facts.types) if options.columns else None
    return RowsById.of(options.source, options.column, where=where, row=row)


def _before_all(source: Source) -> int:
    smallest = min((sequence.minimum for sequence in source.facts.sequences), default=SMALLEST_ID)
    return max(SMALLEST_ID, smallest - 1)


async def _ledger_of_now(source: Source) -> Ledger:
    """Everything visible is old; what is missing below may be a writer's who has not committed yet.

    The lock list comes after the rows, and every hole stays a gap until the next poll has read it once more: its writer
    may have committed between the two statements.
    """
    [row] = await source.fetch(statements(source, where=None).newest)
    if row["highest"] is None:
        return Ledger(highest=_before_all(source))
    holes = [(low, high) for low, high in row["holes"] or ()]
    lowest = _before_all(source) + 1
    if row["ids"] < NEWEST_IDS and source.facts.sequences and lowest < row["lowest"]:
        holes.insert(0, (lowest, row["lowest"] - 1))
    locks = await source.lock_holders()
    _warn_of_writers_below(source, row, holes, locks)
    return Ledger(highest=row["highest"], holes=tuple(holes[-MOST_GAPS_AT_START:])).locked(locks)


def _warn_of_writers_below(source: Source, row: Any, holes: list[tuple[int, int]], locks: LockSet) -> None:
    """Only so many ids are looked at: a writer alive now may have drawn a lower one long ago."""
    cut = len(holes) > MOST_GAPS_AT_START
    if locks.holders and (cut or row["ids"] == NEWEST_IDS):
        log.warning(
            "postgres.start_window",
            table=source.options.table,
            watched_from=holes[-MOST_GAPS_AT_START][0] if cut else row["lowest"],
            writers=sorted(pid for pid in locks.holders.values() if pid is not None),
            consequence="a row of these writers is not found if its id was drawn below",
        )
