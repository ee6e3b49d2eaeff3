"""A model of PostgreSQL for mode `updated_at`: xids, subtransactions, row versions, a clock and a wrapping counter."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from triggers.postgres.by_update.window import (
    BEFORE_THE_FIRST,
    XID_SPACE,
    DrainCursor,
    RowPlace,
    TransactionSnapshot,
    VersionWindow,
    moment_text,
)
from triggers.postgres.server.locks import LockSet

_CLOCK_BEGAN: Final = datetime(2026, 11, 20, tzinfo=UTC)


def moment_of(clock: int) -> str:
    return moment_text(_CLOCK_BEGAN + timedelta(seconds=clock))


def clock_at(moment: str) -> int:
    """Return the clock at a moment, also at the one before all others."""
    if moment == "-infinity":
        return -(10**9)
    return round((datetime.fromisoformat(moment) - _CLOCK_BEGAN).total_seconds())


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of the row `key`; `number` is unique, `xid` has the 32 bits that a row holds."""

    key: int
    number: int
    xid: int
    updated_at: int

    @property
    def place(self) -> RowPlace:
        """The place of the version, in an order that has nothing to do with time."""
        return RowPlace(relation=self.number % 2, block=self.number * 7919 % 101, number=self.number)


@dataclass
class Transaction:
    name: str
    started: int
    xids: list[int] = field(default_factory=list)
    written: dict[int, Version] = field(default_factory=dict)
    savepoint: dict[int, Version] | None = None
    prepared: bool = False


class Server:
    def __init__(self, random: Random, *, lateness: int = 0) -> None:
        """`lateness` is how many seconds the clocks of clients may be behind."""
        self.random = random
        self.lateness = lateness
        self.next_xid = 7 * XID_SPACE - random.randint(1, 200)
        self.clock = 10_000_000
        self.boot = 1
        self.versions: dict[int, Version] = {}
        self.transactions: list[Transaction] = []
        self._numbers = 0
        self._names = 0
        self._prepared = 0

    def step(self) -> None:
        self.clock += self.random.randint(0, 3)
        actions = (
            [self._begin] * 4 + [self._write] * 8 + [self._finish] * 3 + [self._savepoint, self._prepare, self._foreign]
        )
        if self.random.random() < 0.005:
            actions = [self._restart]
        self.random.choice(actions)()

    def snapshot(self) -> TransactionSnapshot:
        running = [xid for one in self.transactions for xid in one.xids]
        return TransactionSnapshot(xmin=min(running, default=self.next_xid), xmax=self.next_xid)

    def rows(self, window: VersionWindow, *, everything: bool = False) -> list[Version]:
        """What the statement of a poll returns, with the 32-bit arithmetic of `age()`."""
        floor = clock_at(window.floor)
        rows = [version for version in self.versions.values() if version.updated_at > floor]
        if everything or window.xmin is None:
            return rows
        oldest = self.age(window.xmin % XID_SPACE)
        handled = {xid % XID_SPACE for xid in window.handled}
        return [row for row in rows if 1 <= self.age(row.xid) <= oldest and row.xid not in handled]

    def waiting(self, window: VersionWindow) -> tuple[list[tuple[int, Version]], TransactionSnapshot]:
        """What the statement of a drain returns: the waiting versions in the order in which they are reported, with xids of 64 bits."""
        snapshot = self.snapshot()
        first = snapshot.xmin if window.first is None else window.first
        waiting = [(self._rank(row, window, first, snapshot), row) for row in self.rows(window)]
        part = window.part
        if part is not None:
            waiting = [one for one in waiting if one[0] != part.xid or one[1].place > part.place]
        rest = BEFORE_THE_FIRST if part is None else part.xid
        return sorted(waiting, key=lambda one: (one[0] != rest, one[0], one[1].place)), snapshot

    def _rank(self, row: Version, window: VersionWindow, first: int, snapshot: TransactionSnapshot) -> int:
        if window.xmin is None and not 1 <= self.age(row.xid) <= self.age(first % XID_SPACE):
            return BEFORE_THE_FIRST
        return snapshot.widen(row.xid)

    def age(self, xid: int) -> int:
        return (self.next_xid - xid + XID_SPACE // 2) % XID_SPACE - XID_SPACE // 2

    def living(self) -> LockSet:
        transactions = {one.name: None if one.prepared else 4711 for one in self.transactions}
        return LockSet(boot=str(self.boot), at=moment_of(self.clock - 1), holders=transactions)

    def end_all(self) -> None:
        while self.transactions:
            self._finish()

    def _begin(self) -> None:
        """Begin a transaction: now() is fixed here, and the first write assigns an xid."""
        if len(self.transactions) < 5:
            self._names += 1
            self.transactions.append(Transaction(name=f"3/{self._names}", started=self.clock))

    def _write(self) -> None:
        working = [one for one in self.transactions if not one.prepared]
        if working:
            transaction = self.random.choice(working)
            if not transaction.xids:
                self._assign(transaction)
            locked = {key for one in self.transactions if one is not transaction for key in one.written}
            key = self.random.choice([key for key in range(100) if key not in locked])
            self._numbers += 1
            transaction.written[key] = Version(
                key=key,
                number=self._numbers,
                xid=transaction.xids[-1] % XID_SPACE,
                updated_at=self.random.choice([transaction.started, self.clock]) - self._behind(),
            )

    def _behind(self) -> int:
        return self.random.randint(0, self.lateness) if self.lateness else 0

    def _assign(self, transaction: Transaction) -> None:
        transaction.xids.append(self.next_xid)
        self.next_xid += 1

    def _savepoint(self) -> None:
        """Run a subtransaction: it has its own xid, which stays with the transaction even if its writes are rolled back."""
        working = [one for one in self.transactions if one.xids and not one.prepared]
        if working:
            transaction = self.random.choice(working)
            if transaction.savepoint is not None and self.random.random() < 0.5:
                transaction.written = transaction.savepoint
                transaction.savepoint = None
            else:
                transaction.savepoint = dict(transaction.written)
            self._assign(transaction)

    def _foreign(self) -> None:
        """Let transactions on other tables use up xids."""
        self.next_xid += self.random.randint(1, 20)

    def _finish(self) -> None:
        if self.transactions:
            transaction = self.transactions.pop(self.random.randrange(len(self.transactions)))
            if self.random.random() < 0.8:
                self.versions.update(transaction.written)

    def _prepare(self) -> None:
        waiting = [one for one in self.transactions if one.xids and not one.prepared]
        if waiting:
            transaction = self.random.choice(waiting)
            transaction.prepared = True
            if self.random.random() < 0.5:
                self._rename(transaction)

    def _rename(self, transaction: Transaction) -> None:
        if not transaction.name.startswith("-1/"):
            self._prepared += 1
            transaction.name = f"-1/{self._prepared}"

    def _restart(self) -> None:
        self.boot += self.random.randint(0, 1)
        self.transactions = [one for one in self.transactions if one.prepared]
        for transaction in self.transactions:
            self._rename(transaction)
        self._names = 0


class WindowPoller:
    """Polls as the trigger does, with a host that may crash before it commits."""

    def __init__(self, server: Server, *, start: str) -> None:
        self.server = server
        self.lateness = timedelta(seconds=server.lateness)
        self.emitted = Counter[int]()
        self.already_there: set[int] = set()
        self.window = VersionWindow()
        if start == "now":
            rows, snapshot = self.server.rows(self.window, everything=True), self.server.snapshot()
            self.already_there = {row.number for row in rows}
            self.window = self.window.read(snapshot, [row.xid for row in rows])
        self._commit([])

    def others_work(self) -> None:
        for _ in range(self.server.random.randint(0, 8)):
            self.server.step()

    def poll(self) -> int:
        self.window = self.window.alive(self.living(), self.lateness)
        self.others_work()
        rows, snapshot = self.server.rows(self.window), self.server.snapshot()
        self.window = self.read(snapshot, rows)
        self.others_work()
        self._finish(rows)
        return len(rows)

    def living(self) -> LockSet:
        return self.server.living()

    def read(self, snapshot: TransactionSnapshot, rows: list[Version]) -> VersionWindow:
        return self.window.read(snapshot, [row.xid for row in rows])

    def _finish(self, rows: list[Version]) -> bool:
        """Return whether the daemon survived."""
        random = self.server.random
        if random.random() < 0.15:
            state, handled = self._committed
            self.window = VersionWindow.from_state(json.loads(state), json.loads(handled))
            return False
        if rows or random.random() < 0.5:
            self._commit(rows)
        return True

    def _commit(self, rows: list[Version]) -> None:
        self._committed = json.dumps(self.window.to_state()), json.dumps(sorted(self.window.handled))
        self.emitted.update(row.number for row in rows)


class DrainingPoller(WindowPoller):
    """Reports waiting versions in parts, and lists them again in the middle: half of the time others have committed by then."""

    def poll(self) -> int:
        random = self.server.random
        self.window = self.window.alive(self.living(), self.lateness)
        self.others_work()
        waiting, snapshot = self.server.waiting(self.window)
        seen, is_cut = len(waiting), len(waiting) > (most := random.randint(1, 12))
        del waiting[most:]
        while waiting:
            size = random.randint(1, 4)
            some, waiting = waiting[:size], waiting[size:]
            if not waiting and not is_cut:
                self.window = self.window.read(snapshot, [row.xid for xid, row in some if xid != BEFORE_THE_FIRST])
            else:
                self.window = self.part(snapshot, some)
            self.others_work()
            if not self._finish([row for _, row in some]):
                return seen
        if not seen:
            self.window = self.window.read(snapshot, [])
            self._finish([])
        return seen

    def part(self, snapshot: TransactionSnapshot, some: list[tuple[int, Version]]) -> VersionWindow:
        xid, row = some[-1]
        return self.window.read_part(snapshot, {each for each, _ in some}, DrainCursor(xid=xid, place=row.place))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    lost: frozenset[int]
    repeated: frozenset[int]
    unwanted: frozenset[int]
    versions: int
    floor: str


def simulate(random: Random, poller_class: type[WindowPoller], *, polls: int = 40, lateness: int = 0) -> Outcome:
    """Run writers, restarts and crashes, then a quiet end. A row is lost if its newest version was never reported."""
    server = Server(random, lateness=lateness)
    for _ in range(random.randint(0, 40)):
        server.step()
    poller = poller_class(server, start=random.choice(["all", "now"]))
    for _ in range(polls):
        poller.others_work()
        poller.poll()
    server.end_all()
    poller.others_work = lambda: None  # type: ignore[method-assign]  # quiet
    while poller.poll() or poller.poll() or poller.poll():
        pass
    newest = {version.number for version in server.versions.values()}
    return Outcome(
        lost=frozenset(newest - poller.emitted.keys() - poller.already_there),
        repeated=frozenset(number for number, times in poller.emitted.items() if times > 1),
        unwanted=frozenset(poller.emitted.keys() & poller.already_there),
        versions=poller.emitted.total(),
        floor=poller.window.floor,
    )
