"""Mode `id`: the polls of one table, with the ledger as their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self, cast

import structlog

from triggers.base import Finding, JsonObject, JsonValue, RejectedItem, StoredPosition, TriggerBatch
from triggers.errors import ConfigurationError, SourceChanged
from triggers.postgres.bad_rows import MOST_BAD_ROWS, refuse_many
from triggers.postgres.ledger import LARGEST_ID, MOST_GAPS, Gap, Ledger, LockSet, ranges_of
from triggers.postgres.options import SMALLEST_ID, Place
from triggers.postgres.portion_reader import PortionReader
from triggers.postgres.portions import Portion
from triggers.postgres.probes import Arguments
from triggers.postgres.reader import Reader
from triggers.postgres.source import Source
from triggers.postgres.sql import (
    MOST_AHEAD,
    MOST_COUNTED,
    NEWEST_IDS,
    NewsById,
    RowsById,
    old_rows_by_id,
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
        drawn = self.source.facts.drawn(self.options)
        self._reader = PortionReader(self.source, drawn=drawn, reports=self.options.on_bad_row == "report")

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
        rows, rejected, more = await self._read()
        if locks is not None:
            await self.judge(*self._reason_for_alarm(locks))
        watermark = {"from": before, "to": self.memory.highest}
        return self.batch_of(rows, watermark, caught_up=not more, rejected=rejected)

    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Their ids are read like gaps that nobody holds open; the ledger stays as it is."""
        some: Mapping[Any, RejectedItem] = {item.key: item for item in items[:MOST_BAD_ROWS]}
        ids = sorted(some)
        gaps = tuple(Gap(low=number, high=number, holders=frozenset()) for number in ids)
        reader = PortionReader(self.source, drawn=None, reports=True)
        read = await reader.read(Ledger(highest=LARGEST_ID, gaps=gaps), Portion(fresh=0, late=1, gaps=len(gaps)))
        await self.source.refuse_altered()
        tried = [some[number] for number in ids[: read.portion.gaps]]
        here = {"from": self.memory.highest, "to": self.memory.highest}
        batch = self.batch_of(read.kept, here, caught_up=False, rejected=read.rejected, tried=tried)
        return batch, [item for item in items if item not in tried]

    @staticmethod
    def key_of(row: Any) -> int:
        return int(row[0])

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

    async def _read(self) -> tuple[Sequence[Any], Sequence[RejectedItem], bool]:
        """Those of the rows accounted for now that `where` keeps, ascending, and those that cannot be told; whether more waits."""
        ledger = self.memory
        whole = Portion(
            fresh=ledger.fresh_limit(self.options.batch.max_rows), late=ledger.late_limit(), gaps=len(ledger.gaps)
        )
        read = await self._reader.read(ledger, whole)
        portion, rows, kept, rejected = read.portion, read.rows, read.kept, read.rejected
        if rows or any(not gap.holders for gap in ledger.gaps):  # what is still missing from those is given up
            await self.source.refuse_altered()
        ids, ahead = [row[0] for row in rows if row[-1] is None], [row[0] for row in rows if row[-1] is not None]
        after, cut = ledger.read(ids, fresh_limit=portion.fresh, late_limit=portion.late, gaps_read=portion.gaps)
        self.memory = after.with_ahead(ahead)
        self._refuse_many_ahead()
        if ledger.ahead:
            kept = [row for row in kept if not ledger.is_ahead(row[0])]
            rejected = [item for item in rejected if not ledger.is_ahead(cast("int", item.key))]
        refuse_many(self.options.table, len(rows), rejected)
        return kept, rejected, cut or portion.is_part or 0 < portion.fresh <= len(ahead)

    def _refuse_many_ahead(self) -> None:
        if len(self.memory.ahead) > MOST_AHEAD:
            raise SourceChanged(
                f"more than {MOST_AHEAD:,} ids of {self.options.table} were given by hand, with room between them: set its"
                " sequence behind them, and `watcher rewind` to the highest of them"
            )

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
    drawn = source.facts.drawn(options)
    return RowsById(table=options.source, column=options.column, where=where, row=row, drawn=drawn)


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
