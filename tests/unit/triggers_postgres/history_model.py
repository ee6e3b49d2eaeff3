"""Models of both modes whose server is replaced by an older copy of itself, at random moments."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from random import Random
from typing import Generic, TypeVar

from tests.unit.triggers_postgres.updates_model import Server, Version, WindowPoller, moment_of
from tests.unit.triggers_postgres.updates_model import Transaction as Open
from tests.unit.triggers_postgres.visibility_model import LedgerPoller, Table, Transaction
from triggers.postgres.by_id.ledger import Ledger
from triggers.postgres.by_update.window import BEFORE_ALL_TIME, RowPlace, TransactionSnapshot, VersionWindow, earlier
from triggers.postgres.history.judgement import Decision, Judgement, PresentRow, RowFate, judge, needs_examination
from triggers.postgres.history.kept_rows import (
    FINGERPRINT,
    Chunk,
    ChunkWindow,
    Key,
    Milestone,
    ServerMarks,
    Witness,
    WitnessKind,
)

BY_TIME = Witness(kind=WitnessKind.TIME, sql="created_at", column="created_at")
BY_HASH = Witness(kind=WitnessKind.ROW, sql="hash")
BY_UPDATE = Witness(kind=WitnessKind.UPDATE, sql="updated_at", column="updated_at")
CLOCKS_DIFFER = 20
_boots = count(1)


@dataclass
class Wal:
    """A server's place in its history."""

    boot: str = "0"
    timeline: int = 1
    inserted: int = 0
    flushed: int = 0
    replayed: int | None = None
    received: int | None = None

    def marks(self, xmax: int) -> ServerMarks:
        return ServerMarks(
            boot=self.boot,
            timeline=self.timeline,
            inserted=self.inserted,
            flushed=self.flushed,
            replayed=self.replayed,
            received=self.received,
            xmax=xmax,
        )

    def opened(self, kind: str) -> Wal:
        """Return the place of a copy that is opened for writing, or of the server itself after a crash."""
        return Wal(
            boot=str(next(_boots)),
            timeline=self.timeline + (kind in {"promoted", "restored"}),
            inserted=self.inserted,
            flushed=self.inserted,
            replayed=self.inserted,
            received=self.inserted if kind == "promoted" else None,
        )

    def restarted(self) -> Wal:
        return replace(self, boot=str(next(_boots)), replayed=None, received=None)


class HistoryTable(Table):
    """A table whose rows have a witness, on a server that may be copied and replaced by the copy.

    A commit is logged first and seen later, so the order in which commits are seen is not their order in the WAL.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.wal = Wal()
        self.next_xid = 5 * 2**32 - random.randint(1, 50)
        self.xid_of: dict[str, int] = {}
        self.logged: list[str] = []
        self.restarts = True
        self.witnesses: dict[int, bytes] = {}
        self.writers: dict[int, int] = {}

    def step(self) -> None:
        super().step()
        self.wal.inserted += self.random.randint(1, 9)

    def _restart(self) -> None:
        if self.restarts:
            super()._restart()
            self.wal = self.wal.restarted()

    def _crash(self) -> None:
        """Restart from the WAL: what was logged is committed, and all else that was open has ended."""
        for transaction in self.transactions:
            if transaction.name in self.logged:
                self._show(transaction)
        super()._crash()
        self.logged, self.xid_of = [], {}

    def _prepare(self) -> None:
        """Prepare nothing: a prepared transaction blocks, which a table of cases shows."""

    def copied(self) -> HistoryTable:
        """Return what a copy of the server has of the history: only what is committed."""
        random, self.random = self.random, Random(0)
        there = copy.deepcopy(self)
        self.random = there.random = random
        return there

    def opened(self, kind: str) -> None:
        """Open the copy for writing. It is not restarted before the watcher looks, because that would hide what happened."""
        self._crash()
        self.wal = self.wal.opened(kind)
        self.restarts = False

    @property
    def oldest_xid(self) -> int:
        return min((self.xid_of[one.name] for one in self.transactions), default=self.next_xid)

    def _begin(self) -> None:
        super()._begin()
        if self.transactions and self.transactions[-1].name not in self.xid_of:
            self.xid_of[self.transactions[-1].name] = self.next_xid
            self.next_xid += 1

    def _work(self) -> None:
        busy, self.transactions = self.transactions, [one for one in self.transactions if one.name not in self.logged]
        super()._work()
        self.transactions = busy

    def _finish(self) -> None:
        if self.transactions:
            transaction: Transaction = self.random.choice(self.transactions)
            if transaction.name in self.logged:
                self._show(transaction)
                self.logged.remove(transaction.name)
                self.transactions.remove(transaction)
            elif self.random.random() < 0.75:
                self.logged.append(transaction.name)
            else:
                self.transactions.remove(transaction)

    def _show(self, transaction: Transaction) -> None:
        self.rows = sorted([*self.rows, *transaction.inserted])
        self.ever_visible.update(transaction.inserted)
        for number in transaction.inserted:
            self.witnesses[number] = next(_WITNESSES).to_bytes(8, "big")
            self.writers[number] = self.xid_of[transaction.name]


_WITNESSES = count(1)


class Blocked(Exception):
    """The watcher asks a person."""


@dataclass
class Kept:
    """The chunks of a position, as they were committed."""

    chunks: dict[int, bytes] = field(default_factory=dict)
    window: ChunkWindow = field(default_factory=ChunkWindow)

    def begin(self, chunk: Chunk) -> None:
        self.chunks = dict(self.window.begin(chunk).chunks)

    def add(self, chunk: Chunk) -> None:
        changes = self.window.add(chunk)
        below = changes.delete_chunks_below or 0
        self.chunks = {number: data for number, data in self.chunks.items() if number >= below} | dict(changes.chunks)

    def unpacked(self) -> list[Chunk]:
        return [Chunk.unpack(data) for _, data in sorted(self.chunks.items())]


class HistoryLedgerPoller(LedgerPoller):
    """Polls in mode `id`; each rule that a test may break is a method of its own."""

    table: HistoryTable
    recognition = BY_TIME
    heals = 0

    def __init__(self, table: HistoryTable, *, start: str) -> None:
        super().__init__(table, start=start)
        self.reported = Counter[tuple[int, bytes]]()
        self.deletes = table.random.random() < 0.5
        self.once_gone: set[int] = set()
        """Ids of rows that were gone after a change of history: if another change brings one back, it is reported again."""
        self.there = {(number, table.witnesses[number]) for number in self.already_there}
        self.kept = Kept()
        rows = [number for number in table.rows if number <= self.ledger.highest][-20:]
        before = None if rows else Milestone(highest=0)
        self.kept.begin(replace(self._chunk(rows), before=before))

    def _chunk(self, ids: list[int]) -> Chunk:
        newest = self.kept.window.newest
        return Chunk(
            marks=self.table.wal.marks(self.table.next_xid),
            at=float(len(self.kept.chunks)),
            before=None if newest is None else newest.after,
            after=Milestone(highest=self.ledger.highest, xmax=self.table.next_xid),
            witness=self.recognition.sql,
            keys=ids,
            xmin=self.table.oldest_xid,
            fingerprints=[FINGERPRINT.pack(self.table.writers[number] % 2**32, self.witness(number)) for number in ids],
        )

    def witness(self, number: int) -> bytes:
        return self.table.witnesses[number]

    def finish(self, ids: list[int]) -> None:
        random = self.table.random
        if random.random() < 0.15:
            self.ledger = Ledger.from_state(json.loads(self.host.state))
            return
        read = {number: self.table.witnesses[number] for number in self.was_read}
        chunk = self._chunk(self.was_read)
        self.host.commit(json.dumps(self.ledger.to_state()), ids)
        self.kept.add(chunk)
        self.reported.update((number, read[number]) for number in ids)
        self.table.deletable = {number for number, _ in self.reported} if self.deletes else set()

    def poll(self) -> None:
        if needs_examination(self.kept.unpacked()[-1].marks, self.table.wal.marks(self.table.next_xid)):
            self.ledger = Ledger.from_state(json.loads(self.host.state))
            self.examine()
        random = self.table.random
        if not self.ledger.settled:
            self.ledger = self.ledger.locked(self.holders())
        fresh_limit, late_limit = self.ledger.fresh_limit(random.choice([1, 4, 99])), random.choice([1, 2, 99])
        self.gaps_read = random.choice([None, 1, 2])
        ids = self.rows(fresh_limit, late_limit)
        self.ledger, _ = self.read(ids, fresh_limit, late_limit)
        self.was_read = ids
        self.finish([number for number in ids if number % 5])
        self.others_work()

    def examine(self) -> None:
        self.table.restarts = True
        chunks, now = self.kept.unpacked(), self.table.wal.marks(self.table.next_xid)
        present: dict[Key, PresentRow] = {
            number: PresentRow(xid=self.table.writers[number], witness=self.witness(number))
            for number in self.table.rows
        }
        judgement = self.judge(chunks, present, now, is_back=self.table.sequence < self.ledger.highest)
        if judgement.decision is Decision.BLOCKED:
            raise Blocked
        if judgement.decision is Decision.HEAL:
            self.heals += 1
            self.once_gone.update(key for key in judgement.keys(RowFate.GONE) if isinstance(key, int))
            self.ledger = self.ledger.healed(judgement.reached, lost=[], kept=[])
            rows = [number for number in self.table.rows if number <= self.ledger.highest][-20:]
            self.kept.begin(replace(self._chunk(rows), before=None))
        else:
            self.kept.add(self._chunk([]))
        self.host.state = json.dumps(self.ledger.to_state())

    def judge(
        self, chunks: list[Chunk], present: dict[Key, PresentRow], now: ServerMarks, *, is_back: bool
    ) -> Judgement:
        return judge(chunks, present, now, self.recognition, is_back=is_back)


class HashLedgerPoller(HistoryLedgerPoller):
    """Recognizes rows by their transactions and hashes."""

    recognition = BY_HASH


class HistoryServer(Server):
    """A server of mode `updated_at` that may be copied and replaced by the copy. A commit is logged first and seen later."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.wal = Wal()
        self.logged: list[Open] = []
        self.restarts = True

    def step(self) -> None:
        super().step()
        self.wal.inserted += self.random.randint(1, 9)

    def _restart(self) -> None:
        if self.restarts:
            self._recover()
            self.wal = self.wal.restarted()

    def _recover(self) -> None:
        """Restart from the WAL: what was logged is committed, and all else that was open has ended."""
        for transaction in self.logged:
            self.versions.update(transaction.written)
        super()._restart()
        self.transactions, self.logged = [], []
        self.boot = next(_boots)

    def _prepare(self) -> None:
        """Prepare nothing: a prepared transaction blocks, which a table of cases shows."""

    def _write(self) -> None:
        everyone, self.transactions = self.transactions, [one for one in self.transactions if one not in self.logged]
        super()._write()
        self.transactions = everyone

    def _savepoint(self) -> None:
        everyone, self.transactions = self.transactions, [one for one in self.transactions if one not in self.logged]
        super()._savepoint()
        self.transactions = everyone

    def _finish(self) -> None:
        if self.transactions:
            transaction = self.random.choice(self.transactions)
            if transaction in self.logged:
                self.logged.remove(transaction)
                self.transactions.remove(transaction)
                self.versions.update(transaction.written)
            elif self.random.random() < 0.8:
                self.logged.append(transaction)
            else:
                self.transactions.remove(transaction)

    def copied(self) -> HistoryServer:
        random, self.random = self.random, Random(0)
        there = copy.deepcopy(self)
        self.random = there.random = random
        return there

    def opened(self, kind: str, clock: int, numbers: int) -> None:
        """Open the copy for writing, at about the time that the old server's clock shows."""
        self._recover()
        self.wal, self.restarts = self.wal.opened(kind), False
        self.boot = int(self.wal.boot)
        self.clock = clock + self.random.randint(-CLOCKS_DIFFER + 2, CLOCKS_DIFFER // 2)
        self._numbers = numbers


class HistoryWindowPoller(WindowPoller):
    """Polls in mode `updated_at`; each rule that a test may break is a method of its own.

    Versions whose number is divisible by 5 fail the condition. A version that is replaced before it is read is not reported. What
    was read without an event stays in the memory until there is one.
    """

    server: HistoryServer
    heals = 0

    def __init__(self, server: HistoryServer, *, start: str) -> None:
        self.kept = Kept()
        self.until = "-infinity"
        self.again: list[str] = []
        self.newest: dict[int, int] = {}
        """The version that was reported last of each key."""
        self.uncertain = set[int]()
        """Versions under whose keys no chunk has a reported one, and that were written while older transactions were open.

        They may be reported twice.
        """
        self.repeated = set[int]()
        """Versions that were reported although their keys' last reported versions were the same."""
        self.noted: list[tuple[Version, bool, bool]] = []
        """The versions since the last position, whether they were still there, and whether they were reported."""
        self.xmin: int | None = None
        """The lowest xmin of the snapshots in which they were read."""
        self.handled: int | None = None
        """The lowest xid that was not handled before they were listed."""
        super().__init__(server, start=start)
        self.newest = {row.key: row.number for row in server.versions.values() if row.number in self.already_there}
        rows = self._newest_handled()
        self.noted = [(row, True, True) for row in rows]
        self.kept.begin(replace(self._chunk(), before=None if rows else Milestone(highest=0)))

    def _newest_handled(self) -> list[Version]:
        snapshot, nowhere = self.server.snapshot(), RowPlace(relation=0, block=0, number=0)
        rows = sorted(self.server.versions.values(), key=lambda row: row.updated_at)[-20:]
        return [row for row in rows if self.window.accounts_for(snapshot.widen(row.xid), nowhere)]

    def _chunk(self) -> Chunk:
        newest, snapshot = self.kept.window.newest, self.server.snapshot()
        noted, self.noted = self.noted, []
        xmin, self.xmin, handled, self.handled = self.xmin, None, self.handled, None
        return Chunk(
            marks=self.server.wal.marks(snapshot.xmax),
            at=float(len(self.kept.chunks)),
            before=None if newest is None else newest.after,
            after=Milestone(highest=self.window.highest, until=self.until, xmax=snapshot.xmax),
            xmin=snapshot.xmin if xmin is None else xmin,
            witness=BY_UPDATE.sql,
            unreported=self.unreported([number for number, (_, _, is_reported) in enumerate(noted) if not is_reported]),
            handled=handled or 0,
            keys=[str(row.key) for row, _, _ in noted],
            fingerprints=[
                FINGERPRINT.pack(row.xid if is_there else 0, row.updated_at.to_bytes(8, "big"))
                for row, is_there, _ in noted
            ],
        )

    def poll(self) -> int:
        marks = self.server.wal.marks(self.server.snapshot().xmax)
        if needs_examination(self.kept.unpacked()[-1].marks, marks):
            self._resume()
            self.examine(marks)
        if self.again:
            rows = [self.server.versions[int(key)] for key in self.again if int(key) in self.server.versions]
            self.again = []
            rows = self._note(self._handled(rows), self.server.snapshot(), handled=0)
            self.kept.add(self._chunk())
            self._report(rows)
        living, boot = self.living(), self.server.wal.boot
        self.window = self.window.alive(living, self.lateness)
        self.others_work()
        if needs_examination(self.kept.unpacked()[-1].marks, self.server.wal.marks(self.server.snapshot().xmax)):
            self._resume()  # a restart between the list and the rows
            return 1
        rows, snapshot = self.server.rows(self.window), self.server.snapshot()
        rows.sort(key=lambda row: -self.server.age(row.xid))
        if self.server.random.random() < 0.3:
            self.others_work()
            if self.server.wal.boot != boot:
                self._resume()
                return 1
        reported = self._note(rows, snapshot, handled=self.window.xmin or 0)
        self.window = self.read(snapshot, rows)
        self.until = living.at
        if self.server.random.random() < 0.15:
            self._resume()
        elif reported or self.server.random.random() < 0.3:
            self.kept.add(self._chunk())
            self._report(reported)
        self.others_work()
        return len(rows)

    def _note(self, rows: list[Version], snapshot: TransactionSnapshot, *, handled: int) -> list[Version]:
        """Note versions that were listed in this snapshot. Return those that are reported."""
        there = [self.server.versions.get(row.key) == row for row in rows]
        reported = [row for row, is_there in zip(rows, there, strict=True) if is_there and row.number % 5]
        if rows:
            self.xmin = snapshot.xmin if self.xmin is None else min(self.xmin, snapshot.xmin)
            self.handled = handled if self.handled is None else min(self.handled, handled)
        self.noted += [(row, is_there, row in reported) for row, is_there in zip(rows, there, strict=True)]
        return reported

    def unreported(self, numbers: list[int]) -> list[int]:
        return numbers

    def _handled(self, rows: list[Version]) -> list[Version]:
        snapshot, nowhere = self.server.snapshot(), RowPlace(relation=0, block=0, number=0)
        return [row for row in rows if self.window.accounts_for(snapshot.widen(row.xid), nowhere)]

    def _report(self, rows: list[Version]) -> None:
        self._commit(rows)
        again = {row.number for row in rows if self.newest.get(row.key) == row.number}
        self.repeated |= again - self.uncertain
        self.newest |= {row.key: row.number for row in rows}

    def _commit(self, rows: list[Version]) -> None:
        super()._commit(rows)
        self._until = self.until

    def _resume(self) -> None:
        state, handled = self._committed
        self.window, self.until = VersionWindow.from_state(json.loads(state), json.loads(handled)), self._until
        self.noted, self.xmin, self.handled = [], None, None

    def examine(self, now: ServerMarks) -> None:
        self.server.restarts = True
        chunks, snapshot = self.kept.unpacked(), self.server.snapshot()
        present: dict[Key, PresentRow] = {
            str(row.key): PresentRow(xid=snapshot.widen(row.xid), witness=row.updated_at.to_bytes(8, "big"))
            for row in self.server.versions.values()
        }
        judgement = judge(chunks, present, now, BY_UPDATE)
        if judgement.decision is Decision.BLOCKED:
            raise Blocked
        if judgement.decision is Decision.HEAL:
            self.heals += 1
            self.heal(judgement, present)
            self.uncertain = self._uncertain(chunks)
            self.noted = [(row, True, True) for row in self._newest_handled()]
            self.kept.begin(replace(self._chunk(), before=None))
        else:
            self.set_back(judgement.until or moment_of(self.server.clock - CLOCKS_DIFFER))
            self.kept.add(self._chunk())
        self._commit([])

    def heal(self, judgement: Judgement, present: dict[Key, PresentRow]) -> None:
        self.window = self.window.healed(judgement.reached)
        self.set_back(judgement.until)
        self.until = min(self.until, judgement.until or "-infinity")
        nowhere = RowPlace(relation=0, block=0, number=0)
        self.again = [
            str(key)
            for key in judgement.keys(RowFate.OLDER, RowFate.CHANGED, RowFate.REISSUED)
            if key not in judgement.held and self.window.accounts_for(present[key].xid, nowhere)
        ]

    def _uncertain(self, chunks: list[Chunk]) -> set[int]:
        widen, keys = self.server.snapshot().widen, map(int, self.again)
        reported = {
            int(key) for each in chunks for number, key in enumerate(each.keys) if number not in each.unreported
        }
        rows = [self.server.versions[key] for key in keys if key not in reported]
        handled = {int(key): each.handled for each in reversed(chunks) for key in each.keys}
        return {row.number for row in rows if widen(row.xid) >= handled[row.key]}

    def set_back(self, until: str) -> None:
        moment = earlier(until or BEFORE_ALL_TIME, timedelta(seconds=CLOCKS_DIFFER))
        self.window = self.window.set_back(moment, self.lateness)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    lost: frozenset[object]
    repeated: frozenset[object]
    heals: int
    blocked: bool


ServerT = TypeVar("ServerT", HistoryTable, HistoryServer)


class Replacements(Generic[ServerT]):
    """A standby that lags, a backup, and what of the server's own WAL has reached its disk: one of these goes on at random moments."""

    def __init__(self, server: ServerT) -> None:
        self._random = server.random
        self.keep(server)

    def keep(self, server: ServerT) -> None:
        server.wal.flushed = server.wal.inserted
        self._copies = dict.fromkeys(("promoted", "restored", "restored on its timeline", "crashed"), server.copied())

    def next(self, server: ServerT) -> tuple[ServerT, str] | None:
        """Return the copy that replaces the server, and how it came about; None: the server goes on."""
        for kind in self._copies:
            if self._random.random() < 0.2:
                self._copies[kind] = server.copied()
                if kind == "crashed":
                    server.wal.flushed = server.wal.inserted
        if self._random.random() >= 0.05:
            return None
        kind = self._random.choice([*self._copies])
        return self._copies[kind], kind


def simulate_ids(random: Random, poller_class: type[HistoryLedgerPoller], *, polls: int = 40) -> Outcome:
    """Run writers, a poller, and servers that are replaced by copies of themselves; then a quiet end."""
    table = HistoryTable(random)
    for _ in range(random.randint(0, 30)):
        table.step()
    poller = poller_class(table, start=random.choice(["all", "now"]))
    replacements = Replacements(table)
    try:
        for _ in range(polls):
            poller.others_work()
            poller.poll()
            if (replacement := replacements.next(poller.table)) is not None:
                poller.table, kind = replacement
                poller.table.opened(kind)
                replacements.keep(poller.table)
                for _ in range(random.randint(0, 60)):  # it may pass the old position before the watcher looks
                    poller.table.step()
        poller.table.end_all()
        poller.others_work = lambda: None  # type: ignore[method-assign]  # quiet
        for _ in range(3):
            poller.poll()
        while not poller.ledger.settled or poller.rows(1, 1):
            poller.poll()
    except Blocked:
        return Outcome(lost=frozenset(), repeated=frozenset(), heals=poller.heals, blocked=True)
    there = {(number, poller.table.witnesses[number]) for number in poller.table.rows if number % 5}
    return Outcome(
        lost=frozenset(there - poller.reported.keys() - poller.there),
        repeated=frozenset(
            row for row, times in poller.reported.items() if times > 1 and row[0] not in poller.once_gone
        ),
        heals=poller.heals,
        blocked=False,
    )


def simulate_updates(random: Random, poller_class: type[HistoryWindowPoller], *, polls: int = 40) -> Outcome:
    """Do the same in mode `updated_at`. A row is lost if its version at the end is not the one that was reported last."""
    server = HistoryServer(random)
    for _ in range(random.randint(0, 40)):
        server.step()
    poller = poller_class(server, start=random.choice(["all", "now"]))
    replacements = Replacements(server)
    try:
        for _ in range(polls):
            poller.others_work()
            has_caught_up = poller.poll() == 0 and not poller.again
            if has_caught_up and (replacement := replacements.next(poller.server)) is not None:
                clock, numbers = poller.server.clock, poller.server._numbers
                poller.server, kind = replacement
                poller.server.opened(kind, clock, numbers)
                replacements.keep(poller.server)
                for _ in range(random.randint(0, 60)):
                    poller.server.step()
        poller.server.end_all()
        poller.others_work = lambda: None  # type: ignore[method-assign]  # quiet
        quiet = 0
        while quiet < 4:
            quiet = 0 if poller.poll() else quiet + 1
    except Blocked:
        return Outcome(lost=frozenset(), repeated=frozenset(), heals=poller.heals, blocked=True)
    newest = {row.key: row.number for row in poller.server.versions.values() if row.number % 5}
    return Outcome(
        lost=frozenset(key for key, number in newest.items() if poller.newest.get(key) != number),
        repeated=frozenset(poller.repeated),
        heals=poller.heals,
        blocked=False,
    )
