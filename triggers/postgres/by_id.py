"""Mode `id`: the polls of one table, with the ledger as their memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, Final, Self, TypeAlias

import structlog

from triggers.base import Finding, JsonObject, JsonValue, StoredPosition, TriggerBatch
from triggers.errors import ConfigurationError, SourceChanged
from triggers.postgres.bad_rows import BadRow, culprit, first_unreadable, huge_row, refuse_unreadable
from triggers.postgres.failures import UnreadableRows
from triggers.postgres.ledger import MOST_GAPS, Ledger, LockSet, ranges_of
from triggers.postgres.options import SMALLEST_ID, Place
from triggers.postgres.portions import Portion, Sized, length_of, portion_of, size_of
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Source
from triggers.postgres.sql import (
    MOST_AHEAD,
    MOST_COUNTED,
    NEWEST_IDS,
    SET_BACK,
    NewsById,
    RowsById,
    condition,
    old_rows_by_id,
    quoted,
    row_as_json,
)
from triggers.postgres.storage import OldRows

log = structlog.get_logger()

MOST_GAPS_AT_START: Final = MOST_GAPS // 2
"""Deleted rows leave holes too: room is left for those that writers are going to make."""


class RowsByIdReader(Reader[Ledger]):
    def __init__(self, source: Source, ledger: Ledger) -> None:
        super().__init__(source, ledger, written=ledger)
        self.prepare()

    def prepare(self) -> None:
        options, facts = self.options, self.source.facts
        where, row = options.where, row_as_json(options.columns, facts.types) if options.columns else None
        self._sql = _both(self.source, where=where, row=row)
        size = size_of(options.columns, facts.columns)
        self._sizes = None if size is None else _both(self.source, where=where, row=size)

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
    def question(source: Source) -> NewsById:
        options = source.options
        return NewsById(table=options.source, column=options.column, drawn=source.facts.drawn(options))

    def place(self) -> Arguments | None:
        return (self.memory.highest,) if self.memory.settled and not self.memory.ahead else None

    def refuse_rewritten(self) -> None:
        """A table that is emptied as its sequence begins anew: its ids come again."""
        facts, table = self.source.facts, self.options.table
        restarted = self.storage.rewritten(facts, "S")
        if restarted and self.storage.rewritten(facts, "r") and self.memory.highest > _before_all(self.source):
            raise SourceChanged(
                f"{', '.join(restarted)} was restarted and {table} emptied or rewritten: ids up to {self.memory.highest} come"
                f" a second time; `watcher rewind {self.source.watcher} --to start` tells all rows that are there, --to now none"
            )

    async def old_rows(self, oid: int, bounds: str) -> OldRows | None:
        """At or below the highest id, and in no gap."""
        ledger, options = self.memory, self.options
        open_ranges = [*((gap.low, gap.high) for gap in ledger.gaps), *ledger.holes]
        statement = old_rows_by_id(options.source, options.column, bounds)
        limits = [low for low, _ in open_ranges], [high for _, high in open_ranges]
        [row] = await self.source.fetch(statement, oid, ledger.highest, *limits)
        return OldRows(**row) if row["rows"] else None

    def explain_old_rows(self, partition: str, old: OldRows) -> Finding:
        watcher, most = self.source.watcher, "at least " if old.rows >= MOST_COUNTED else ""
        return Finding.warning(
            "partition",
            f"the partition {partition} came with {most}{old.rows:,} rows of ids from {old.lowest} to {old.highest}, below the"
            " position then: these are not told, since they may have been told before",
            f"`watcher rewind {watcher} --to {int(old.lowest) - 1}` tells them, and all rows above {int(old.lowest) - 1} again"
            f" (--preview counts them); `watcher rewind {watcher} --to {self.memory.highest}` if they were told before",
        )

    def findings(self) -> list[Finding]:
        findings = super().findings()
        if self.memory.ahead:
            low, high = self.memory.ahead[0][0], self.memory.ahead[-1][1]
            ids = sum(high - low + 1 for low, high in self.memory.ahead)
            [sequence] = self.source.facts.sequences
            findings.append(
                Finding.warning(
                    "ids ahead",
                    f"{ids:,} ids from {low} to {high} were given by hand, above those that {sequence.name} has handed out; their"
                    " rows are told",
                    f"SELECT setval('{sequence.name}', {high}), or wait: an INSERT fails where the sequence meets such an id",
                )
            )
        return findings

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
        if rows:
            await self.source.refuse_altered()
        ids, ahead = [row[0] for row in rows if row[-1] is None], [row[0] for row in rows if row[-1] is not None]
        after, cut = ledger.read(ids, fresh_limit=portion.fresh, late_limit=portion.late, gaps_read=portion.gaps)
        self.memory = after.with_ahead(ahead)
        self._refuse_many_ahead()
        kept = rows if self.options.where is None else [row for row in rows if row["keep"]]
        if ledger.ahead:
            kept = [row for row in kept if not ledger.is_ahead(row[0])]
        return kept, cut or portion.is_part or 0 < portion.fresh <= len(ahead)

    def _refuse_many_ahead(self) -> None:
        if len(self.memory.ahead) > MOST_AHEAD:
            raise SourceChanged(
                f"more than {MOST_AHEAD:,} ids of {self.options.table} were given by hand, with room between them: set its"
                " sequence behind them, and `watcher rewind` to the highest of them"
            )

    async def _readable(self, ledger: Ledger, whole: Portion) -> tuple[Portion, Sequence[Any]]:
        """As many rows as make a batch, all before the first that cannot be told. Raises `BadRow` if that is the next one."""
        while True:
            try:
                return await self._fitting(ledger, whole)
            except UnreadableRows as error:
                plain = _both(self.source, where=None, row=None)
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

    def _only(self, ids: Sequence[int], where: str | None, row: str | None) -> _Both:
        """A statement that looks into these rows only, and else at ids."""
        cursor = f"{self.options.source.sql}.{quoted(self.options.column)}"
        numbers = ",".join(map(str, ids))
        among = f"CASE WHEN {cursor} = ANY ('{{{numbers}}}'::int8[]) THEN {condition(where)} ELSE false END"
        return _both(self.source, where=among, row=row)

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
        rows = await self._fetch(self._sizes, ledger, whole)
        most = self.source.max_batch_bytes
        portion, budget = whole, most // 4  # JSON may be longer than what it stands for
        if ledger.ahead and sum(row["row"] or 0 for row in rows) > budget and any(row[-1] is None for row in rows):
            rows = [row for row in rows if row[-1] is None]
            portion = replace(whole, ahead=False, is_part=True)
        sized = [(row[0], row["row"] or 0) for row in rows]
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

    async def _fetch(self, statements: _Both, ledger: Ledger, portion: Portion) -> Sequence[Any]:
        sql: RowsById = statements[0]
        arguments: list[object] = [ledger.highest, portion.fresh]
        if ledger.ahead and self.source.facts.drawn(self.options) is not None:
            free = ledger.free if portion.ahead else []
            sql, arguments = statements[1], [*arguments, [low for low, _ in free], [high for _, high in free]]
        if not portion.gaps:
            return self._recognised(await self.source.fetch(sql.fresh, *arguments))
        gaps = ledger.gaps[: portion.gaps]
        arguments += [gap.low for gap in gaps], [gap.high for gap in gaps], portion.late
        rows = await self.source.fetch(sql.fresh_and_late, *arguments, boot=ledger.boot)
        return sorted(self._recognised(rows), key=itemgetter(0))

    def _recognised(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Raises `SourceChanged` when the sequence was set back: ids come again."""
        notes = {row[-1]: row[0] for row in rows if row[-1] is not None}
        if SET_BACK in notes:
            [sequence], last, highest = self.source.facts.sequences, notes[SET_BACK], self.memory.highest
            raise SourceChanged(
                f"{sequence.name} stands at {last}, below the position {highest}: it was set back, or never got there, and rows"
                f" with ids up to {highest} may come unseen; `watcher rewind {self.source.watcher} --to start` tells all rows that"
                f" are there, --to {last} those above it; or SELECT setval('{sequence.name}', {highest}) if none has come yet"
            )
        return rows

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


_Both: TypeAlias = tuple[RowsById, RowsById]
"""As long as no id was given by hand ahead of the sequence, and while some are known."""


def _both(source: Source, *, where: str | None, row: str | None) -> _Both:
    options, drawn = source.options, source.facts.drawn(source.options)
    known = RowsById.of(options.source, options.column, where=where, row=row, drawn=drawn)
    if drawn is None:
        return known, known
    return known, RowsById.of(options.source, options.column, where=where, row=row, drawn=drawn, free=True)


def statements(source: Source, *, where: str | None) -> RowsById:
    options = source.options
    row = row_as_json(options.columns, source.facts.types) if options.columns else None
    drawn = source.facts.drawn(options)
    return RowsById.of(options.source, options.column, where=where, row=row, drawn=drawn)


def _before_all(source: Source) -> int:
    smallest = min((sequence.minimum for sequence in source.facts.sequences), default=SMALLEST_ID)
    return max(SMALLEST_ID, smallest - 1)


async def _ledger_of_now(source: Source) -> Ledger:
    """Everything visible is old; what is missing below may be a writer's who has not committed yet.

    The lock list comes after the rows, and every hole stays a gap until the next poll has read it once more: its writer
    may have committed between the two statements.
    """
    [row] = await source.fetch(statements(source, where=None).newest)
    ahead = row["ahead"] or []
    if len(ahead) > MOST_AHEAD:
        raise ConfigurationError(
            f"more than {MOST_AHEAD:,} ids of {source.options.table} lie above what its sequence has handed out: set it behind them"
        )
    if row["highest"] is None:
        return Ledger(highest=_before_all(source)).with_ahead(ahead)
    holes = [(low, high) for low, high in row["holes"] or ()]
    lowest = _before_all(source) + 1
    if row["ids"] < NEWEST_IDS and source.facts.sequences and lowest < row["lowest"]:
        holes.insert(0, (lowest, row["lowest"] - 1))
    locks = await source.lock_holders()
    _warn_of_writers_below(source, row, holes, locks)
    return Ledger(highest=row["highest"], holes=tuple(holes[-MOST_GAPS_AT_START:])).locked(locks).with_ahead(ahead)


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
