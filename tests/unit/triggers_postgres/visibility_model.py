"""A model of PostgreSQL for mode `id`: which transactions draw ids and hold locks, and what a snapshot shows."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from triggers.postgres.by_id.ledger import Ledger, holes_between
from triggers.postgres.server.locks import LockSet


@dataclass
class Transaction:
    name: str
    drawn: list[int] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)
    savepoints: list[int] = field(default_factory=list)
    prepared: bool = False
    visible: bool = False

    def rollback_to_savepoint(self) -> None:
        """Roll back to the savepoint; the client still has the ids inserted since, and may insert them again."""
        kept = self.savepoints.pop()
        self.drawn += self.inserted[kept:]
        del self.inserted[kept:]


class Table:
    """One table, its sequence and all its writers; each call of `step` is one thing that can happen between two reads."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sequence = 0
        self.xids = 0
        self.boot = 1
        self.transactions: list[Transaction] = []
        self.rows: list[int] = []  # ascending
        self.ever_visible: set[int] = set()
        self.deletable: set[int] = set()
        self._local_ids = Counter[int]()

    def step(self) -> None:
        actions = [self._begin] * 4 + [self._work] * 8 + [self._finish] * 3 + [self._prepare, self._delete]
        if self.random.random() < 0.005:
            actions = [self._restart, self._crash]
        self.random.choice(actions)()

    def snapshot(self) -> list[int]:
        return list(self.rows)

    def lock_holders(self) -> LockSet:
        holders = {transaction.name: None if transaction.prepared else 4711 for transaction in self.transactions}
        return LockSet(boot=str(self.boot), at="2026-11-20T09:00:00+00:00", holders=holders)

    def end_all(self) -> None:
        while self.transactions:
            self._finish()

    def _begin(self) -> None:
        """Run a backend's first statement on the table: from here on it holds the lock."""
        if len(self.transactions) < 5:
            taken = {transaction.name.split("/")[0] for transaction in self.transactions if not transaction.prepared}
            backend = self.random.choice([number for number in range(3, 9) if str(number) not in taken])
            self._local_ids[backend] += 1
            self.transactions.append(Transaction(name=f"{backend}/{self._local_ids[backend]}"))

    def _work(self) -> None:
        working = [one for one in self.transactions if not one.prepared and not one.visible]
        if working:
            transaction = self.random.choice(working)
            self.random.choice([self._draw, self._draw, self._insert, self._copy, self._savepoint])(transaction)

    def _draw(self, transaction: Transaction) -> None:
        """Call nextval, before there is a row or an xid."""
        self.sequence += 1
        transaction.drawn.append(self.sequence)

    def _insert(self, transaction: Transaction) -> None:
        if not transaction.drawn:
            self._draw(transaction)
        transaction.inserted.append(transaction.drawn.pop(self.random.randrange(len(transaction.drawn))))

    def _copy(self, transaction: Transaction) -> None:
        for _ in range(self.random.randint(1, 9)):
            self.sequence += 1
            transaction.inserted.append(self.sequence)

    def _savepoint(self, transaction: Transaction) -> None:
        if transaction.savepoints and self.random.random() < 0.5:
            transaction.rollback_to_savepoint()
        else:
            transaction.savepoints.append(len(transaction.inserted))

    def _finish(self) -> None:
        """End the transaction: COMMIT first shows the rows and later releases its locks; ROLLBACK only releases its locks."""
        if self.transactions:
            transaction = self.random.choice(self.transactions)
            if transaction.visible or self.random.random() < 0.25:
                self.transactions.remove(transaction)
            else:
                transaction.visible = True
                self.rows = sorted([*self.rows, *transaction.inserted])
                self.ever_visible.update(transaction.inserted)

    def _prepare(self) -> None:
        """Prepare the transaction: current servers keep its virtual transaction until they restart, older ones rename it at once."""
        waiting = [one for one in self.transactions if not one.prepared and not one.visible]
        if waiting:
            transaction = self.random.choice(waiting)
            transaction.prepared = True
            if self.random.random() < 0.5:
                self._rename(transaction)

    def _rename(self, transaction: Transaction) -> None:
        if not transaction.name.startswith("-1/"):
            self.xids += 1
            transaction.name = f"-1/{self.xids}"

    def _restart(self) -> None:
        self.boot += 1
        self._crash()

    def _crash(self) -> None:
        """End all but prepared transactions, and number virtual transactions from one again; the postmaster may have survived."""
        self.transactions = [one for one in self.transactions if one.prepared and not one.visible]
        for transaction in self.transactions:
            self._rename(transaction)
        self._local_ids.clear()

    def _delete(self) -> None:
        """Delete only rows that a poll has seen: rows deleted earlier are not promised to be reported."""
        gone = self.deletable.intersection(self.rows)
        if gone:
            self.rows.remove(self.random.choice(sorted(gone)))


class Host:
    """What is durable: the events and the state of each commit. A poll's work is lost if the process dies before its commit."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.emitted = Counter[int]()

    def commit(self, state: str, ids: list[int]) -> None:
        self.state = state
        self.emitted.update(ids)


class LedgerPoller:
    """Polls as the trigger does; each rule that a test may break is a method of its own."""

    def __init__(self, table: Table, *, start: str) -> None:
        self.table = table
        self.already_there: set[int] = set()
        ledger = Ledger(highest=0)
        if start == "now":
            rows = table.snapshot()
            self.already_there = set(rows)
            ledger = Ledger(highest=max(rows, default=0), holes=tuple(holes_between(0, rows)))
            self.others_work()
            ledger = ledger.locked(self.holders())
        self.host = Host(json.dumps(ledger.to_state()))
        self.ledger = ledger

    def others_work(self) -> None:
        for _ in range(self.table.random.randint(0, 6)):
            self.table.step()

    gaps_read: int | None = None
    """How many gaps the next read includes; None: all."""

    def poll(self) -> None:
        random = self.table.random
        if not self.ledger.settled:
            self.ledger = self.ledger.locked(self.holders())
            self.others_work()
        fresh_limit, late_limit = self.ledger.fresh_limit(random.choice([0, 1, 4, 99])), random.choice([1, 2, 99])
        self.gaps_read = random.choice([None, 1, 2])
        ids = self.rows(fresh_limit, late_limit)
        self.ledger, _ = self.read(ids, fresh_limit, late_limit)
        self.others_work()
        self.finish([found for found in ids if found % 5])

    def finish(self, ids: list[int]) -> None:
        """Commit, write nothing if nothing was found, or crash first."""
        random = self.table.random
        if random.random() < 0.15:
            self.ledger = Ledger.from_state(json.loads(self.host.state))
        elif ids or random.random() < 0.5:
            self.host.commit(json.dumps(self.ledger.to_state()), ids)
            self.table.deletable = set(self.host.emitted)

    def holders(self) -> LockSet:
        return self.table.lock_holders()

    def read(self, ids: list[int], fresh_limit: int, late_limit: int) -> tuple[Ledger, bool]:
        return self.ledger.read(ids, fresh_limit=fresh_limit, late_limit=late_limit, gaps_read=self.gaps_read)

    def rows(self, fresh_limit: int, late_limit: int) -> list[int]:
        """Read the rows of one snapshot, ascending."""
        rows = self.table.snapshot()
        gaps = self.ledger.gaps[: self.gaps_read]
        ids = [found for gap in gaps for found in _between(rows, gap.low, gap.high)[:late_limit]]
        return ids + rows[bisect_left(rows, self.ledger.highest + 1) :][:fresh_limit]


class NaivePoller(LedgerPoller):
    """The poller that everybody writes first: `id > last`."""

    def poll(self) -> None:
        ids = [found for found in self.table.snapshot() if found > self.ledger.highest][:5]
        self.others_work()
        self.ledger = Ledger(highest=max(ids, default=self.ledger.highest))
        self.finish([found for found in ids if found % 5])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    lost: frozenset[int]
    repeated: frozenset[int]
    unwanted: frozenset[int]
    rows: int
    settled: bool


def simulate(random: Random, poller_class: type[LedgerPoller], *, polls: int = 40) -> Outcome:
    """Run writers and a poller with crashes of both, then a quiet end in which all transactions end and the poller catches up."""
    table = Table(random)
    for _ in range(random.randint(0, 30)):
        table.step()
    start = random.choice(["all", "now"])
    poller = poller_class(table, start=start)
    for _ in range(polls):
        poller.others_work()
        poller.poll()
    table.end_all()
    poller.others_work = lambda: None  # type: ignore[method-assign]  # quiet
    while not poller.ledger.settled or poller.rows(1, 1):
        poller.poll()
    poller.host.commit("", [])
    wanted = {found for found in table.ever_visible - poller.already_there if found % 5}
    emitted = poller.host.emitted
    return Outcome(
        lost=frozenset(wanted - emitted.keys()),
        repeated=frozenset(found for found, times in emitted.items() if times > 1),
        unwanted=frozenset(emitted.keys() - wanted),
        rows=len(wanted),
        settled=poller.ledger.settled,
    )


def _between(rows: list[int], low: int, high: int) -> list[int]:
    return rows[bisect_left(rows, low) : bisect_left(rows, high + 1)]
