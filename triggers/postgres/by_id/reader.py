"""Mode `id`: polls of one table, with the ledger as their memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self, cast

import structlog

from triggers.base import Finding, RejectedItem, StoredPosition, TriggerBatch
from triggers.errors import ConfigurationError, SourceChanged
from triggers.postgres.by_id.history import HistoryById
from triggers.postgres.by_id.ledger import MOST_GAPS, Gap, Ledger
from triggers.postgres.by_id.names import IdRanges
from triggers.postgres.by_id.partitions import PartitionsById
from triggers.postgres.by_id.portion_reader import PortionReader
from triggers.postgres.by_id.portions import Portion
from triggers.postgres.by_id.statements import MOST_AHEAD, NEWEST_IDS, NewsById, RowsById
from triggers.postgres.history.kept_rows import WitnessKind
from triggers.postgres.options import GapAlarm, Place
from triggers.postgres.reading.alarms import AlarmReason, is_older
from triggers.postgres.reading.bad_rows import MOST_BAD_ROWS, refuse_many
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.reading.reader import Reader
from triggers.postgres.server.locks import LockSet
from triggers.postgres.server.probed_tables import Arguments
from triggers.postgres.sql import parts_as_texts
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.sql import row_as_json
from triggers.shared.postgres.values import LARGEST_ID

log = structlog.get_logger()

MOST_GAPS_AT_START: Final = MOST_GAPS // 2
"""The most holes that `start: now` turns into gaps. Deleted rows leave holes too, and writers will need room for theirs."""


class RowsByIdReader(Reader[Ledger]):
    __slots__ = ("_portions",)

    def __init__(self, table: WatchedTable, ledger: Ledger) -> None:
        progress = ReadProgress(table, ledger)
        super().__init__(table, progress, PartitionsById(table, progress), HistoryById(table, progress), IdRanges)
        self.prepare()

    def prepare(self) -> None:
        options = self.table.options
        drawn = self.table.facts.drawn(unsafe_ids=options.by_id.unsafe_ids)
        self._portions = PortionReader(self.table, drawn=drawn, reports=options.on_bad_row == "report")

    @classmethod
    async def begin(cls, table: WatchedTable, start: Place) -> Self:
        if start == "now":
            return cls(table, await _ledger_of_now(table))
        return cls.rewound(table, None, start)

    @classmethod
    def resume(cls, table: WatchedTable, position: StoredPosition) -> Self:
        return cls(table, Ledger.from_state(position.state))

    @classmethod
    def rewound(cls, table: WatchedTable, position: StoredPosition | None, to: Place) -> Self:
        highest = to if isinstance(to, int) else table.facts.before_all_ids
        ledger = Ledger(highest=highest) if position is None else Ledger.from_state(position.state)
        return cls(table, ledger.rewound(highest))

    @staticmethod
    def retold(kept: StoredPosition, batch: TriggerBatch) -> bool:
        ledger = Ledger.from_state(kept.state)
        payloads: Iterable[Any] = (event.payload for event in batch.events)
        keys: Iterable[Any] = (item.key for item in batch.rejected)
        ranges = [
            *(limits for payload in payloads for limits in payload["ranges"]),
            *((number, number) for number in keys),
        ]
        return all(ledger.accounts_for(low, high) for low, high in ranges)

    @staticmethod
    def trial(table: WatchedTable) -> tuple[str, Sequence[object]]:
        return _without_condition(table).fresh, [0, 0]

    @staticmethod
    def question(table: WatchedTable) -> NewsById:
        options = table.options
        return NewsById(
            table=options.source, column=options.column, drawn=table.facts.drawn(unsafe_ids=options.by_id.unsafe_ids)
        )

    def place(self) -> Arguments | None:
        ledger = self.progress.memory
        return (ledger.highest,) if ledger.settled and not ledger.ahead else None

    def findings(self) -> list[Finding]:
        findings, ahead = super().findings(), self.progress.memory.ahead
        if ahead:
            low, high = ahead[0][0], ahead[-1][1]
            ids = sum(last - first + 1 for first, last in ahead)
            [sequence] = self.table.facts.sequences
            findings.append(
                Finding.warning(
                    "ids ahead",
                    f"{ids:,} ids from {low} to {high} were given by hand, above those that {sequence.name} has handed out;"
                    " their rows are reported",
                    f"SELECT setval('{sequence.name}', {high}), or wait: an INSERT fails where the sequence meets such an id",
                )
            )
        return findings

    async def poll(self) -> TriggerBatch:
        before, locks = self.progress.memory.highest, await self._lock_holders()
        rows, rejected, more = await self._read()
        ledger = self.progress.memory
        if locks is not None:
            reason = reason_about_gaps(ledger, self.table.options.gap_alarm, locks.at)
            await self.progress.alarm.judge(reason, ledger)
        watermark = {"from": before, "to": ledger.highest}
        return self.batches.batch(rows, watermark, caught_up=not more, rejected=rejected)

    async def retry(self, items: Sequence[RejectedItem]) -> tuple[TriggerBatch, Sequence[RejectedItem]]:
        """Read the items' ids like gaps that no transaction holds open; the ledger stays as it is."""
        some: Mapping[Any, RejectedItem] = {item.key: item for item in items[:MOST_BAD_ROWS]}
        ids = sorted(some)
        gaps = tuple(Gap(low=number, high=number, holders=frozenset()) for number in ids)
        portions = PortionReader(self.table, drawn=None, reports=True)
        read = await portions.read(Ledger(highest=LARGEST_ID, gaps=gaps), Portion(fresh=0, late=1, gaps=len(gaps)))
        await self.table.refuse_altered()
        tried = [some[number] for number in ids[: read.portion.gaps]]
        highest = self.progress.memory.highest
        watermark = {"from": highest, "to": highest}
        batch = self.batches.batch(read.kept, watermark, caught_up=False, rejected=read.rejected, tried=tried)
        return batch, [item for item in items if item not in tried]

    async def _lock_holders(self) -> LockSet | None:
        """List the lock holders and enter them into the ledger; None if nothing is missing, so that no list is needed."""
        if self.progress.memory.settled:
            return None
        locks = await self.table.lock_holders()
        self.progress.memory = self.progress.memory.locked(locks)
        return locks

    async def _read(self) -> tuple[Sequence[Any], Sequence[RejectedItem], bool]:
        """Enter the next rows into the ledger.

        Return those that `where` keeps, ascending, those that are rejected, and whether more is waiting.
        """
        ledger, table = self.progress.memory, self.table
        fresh_limit = ledger.fresh_limit(table.options.batch.max_rows)
        whole = Portion(fresh=fresh_limit, late=ledger.late_limit(), gaps=len(ledger.gaps))
        read = await self._portions.read(ledger, whole)
        portion, rows, kept, rejected = read.portion, read.rows, read.kept, read.rejected
        gives_up = any(not gap.holders for gap in ledger.gaps)  # ids still missing from such a gap are given up
        if rows or gives_up:
            await table.refuse_altered(gives_up=gives_up)
        drawn, ahead = [row[0] for row in rows if row[-1] is None], [row[0] for row in rows if row[-1] is not None]
        after, cut = ledger.read(drawn, fresh_limit=portion.fresh, late_limit=portion.late, gaps_read=portion.gaps)
        self.progress.memory = after.with_ahead(ahead)
        self._refuse_many_ahead()
        if ledger.ahead:
            kept = [row for row in kept if not ledger.is_ahead(row[0])]
            rejected = [item for item in rejected if not ledger.is_ahead(cast("int", item.key))]
        refuse_many(table.options.table, len(rows), rejected)
        if rows:
            self._keep(rows, drawn, ahead)
        return kept, rejected, cut or portion.is_part or 0 < portion.fresh <= len(ahead)

    def _keep(self, rows: Sequence[Any], drawn: Sequence[int], ahead: Sequence[int]) -> None:
        """Keep what recognizes these rows later."""
        by_row = self.table.facts.witness.kind is WitnessKind.ROW
        place = -3 if by_row else -2  # by number, because this list is most of what recognition costs
        self.table.history.note_rows(
            [row[0] for row in rows] if ahead else drawn,
            [row[place] for row in rows],
            xmin=rows[0]["snapshot_xmin"] if by_row else 0,
            ahead=ahead,
        )

    def _refuse_many_ahead(self) -> None:
        if len(self.progress.memory.ahead) > MOST_AHEAD:
            raise SourceChanged(
                f"more than {MOST_AHEAD:,} ids of {self.table.options.table} were given by hand, with room between them: set"
                " its sequence behind them, and `watcher rewind` to the highest of them"
            )


def _without_condition(table: WatchedTable) -> RowsById:
    options = table.options
    row = row_as_json(options.columns, table.facts.types) if options.columns else None
    drawn = table.facts.drawn(unsafe_ids=options.by_id.unsafe_ids)
    parts = parts_as_texts(options.source.sql, options.dividing_columns) if options.dividing_columns else None
    return RowsById(table=options.source, column=options.column, where=None, row=row, parts=parts, drawn=drawn)


async def _ledger_of_now(table: WatchedTable) -> Ledger:
    """Return a ledger for which every visible row is old; an id missing below may belong to a writer that has not committed yet.

    The lock list is read after the rows, and every hole stays a gap until the next poll has read it once more: its writer may
    have committed between the two statements.
    """
    [row] = await table.fetch(_without_condition(table).newest)
    ahead = row["ahead"] or []
    if len(ahead) > MOST_AHEAD:
        raise ConfigurationError(
            f"more than {MOST_AHEAD:,} ids of {table.options.table} lie above those that its sequence has handed out:"
            " set the sequence behind them"
        )
    before_all = table.facts.before_all_ids
    if row["highest"] is None:
        return Ledger(highest=before_all).with_ahead(ahead)
    holes = [(low, high) for low, high in row["holes"] or ()]
    if row["ids"] < NEWEST_IDS and table.facts.sequences and before_all + 1 < row["lowest"]:
        holes.insert(0, (before_all + 1, row["lowest"] - 1))
    locks = await table.lock_holders()
    _warn_of_writers_below(table, row, holes, locks)
    return Ledger(highest=row["highest"], holes=tuple(holes[-MOST_GAPS_AT_START:])).locked(locks).with_ahead(ahead)


def _warn_of_writers_below(table: WatchedTable, row: Any, holes: list[tuple[int, int]], locks: LockSet) -> None:
    """Warn if a current writer may have drawn an id below the newest ids, which alone are examined."""
    is_cut = len(holes) > MOST_GAPS_AT_START
    if locks.holders and (is_cut or row["ids"] == NEWEST_IDS):
        log.warning(
            "postgres.start_window",
            table=table.options.table,
            watched_from=holes[-MOST_GAPS_AT_START][0] if is_cut else row["lowest"],
            writers=sorted(pid for pid in locks.holders.values() if pid is not None),
            consequence="a row of these writers is not found if its id is lower than that",
        )


def reason_about_gaps(ledger: Ledger, limits: GapAlarm, now: str) -> AlarmReason | None:
    """Judge mode `id`; the reason names the transaction that has held gaps open for the longest time."""
    gaps, oldest = len(ledger.gaps), ledger.oldest
    rows_wait = gaps >= MOST_GAPS
    transaction = oldest[0] if oldest is not None else None
    if rows_wait:
        text = "so many gaps are open that newer rows wait until their writers end"
    elif gaps >= limits.count:
        text = "too many gaps are open"
    elif oldest is not None and is_older(oldest[1].since, now, limits.age):
        text = "a writer keeps gaps open for too long: end its transaction"
    else:
        return None
    return AlarmReason(text=text, transaction=transaction, rows_wait=rows_wait)
