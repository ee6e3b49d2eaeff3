"""A model of a server's log and of a slot that hands it out, for mode `log`: transactions, crashes, restores of copies."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from triggers.changes.log_position import ChangeStream, LoggedChange, LogPosition, OtherHistory
from triggers.changes.messages import decode

TABLE, NEIGHBOUR = 16384, 16390
FIRST_LSN = 0x16B3740


@dataclass(frozen=True)
class ModelTransaction:
    """A committed transaction. Each change is a number, which no other change has, and the table it belongs to."""

    xid: int
    time: int
    commit: int
    end: int
    changes: Sequence[tuple[int, int]]

    @property
    def numbers(self) -> list[int]:
        return [number for number, table in self.changes if table == TABLE]

    def messages(self) -> Iterator[tuple[int, bytes]]:
        yield self.commit - 900, b"B" + struct.pack("!QqI", self.commit, self.time, self.xid)
        for table in sorted({table for _, table in self.changes}):
            name = b"orders" if table == TABLE else b"others"
            yield (
                self.commit - 800,
                b"R%sshop\0%s\0d\0\x01\x01id\0%s"
                % (
                    struct.pack("!I", table),
                    name,
                    struct.pack("!Ii", 20, -1),
                ),
            )
        for number, table in self.changes:
            text = str(number).encode()
            row = struct.pack("!H", 1) + b"t" + struct.pack("!I", len(text)) + text
            yield self.commit - 500, b"I" + struct.pack("!I", table) + b"N" + row
        yield self.end, b"C\0" + struct.pack("!QQq", self.commit, self.end, self.time)


@dataclass
class ModelServer:
    """A server with one slot. `confirmed` is what the slot knows in memory, `saved` what survives a crash."""

    random: Random
    lsn: int = FIRST_LSN
    clock: int = 0
    xid: int = 700
    numbers: int = 0
    transactions: list[ModelTransaction] = field(default_factory=list)
    confirmed: int = FIRST_LSN
    saved: int = FIRST_LSN

    def work(self) -> None:
        """Commit some transactions: of this table, of another, of both, or of none."""
        for _ in range(self.random.randrange(4)):
            changes = []
            for _ in range(self.random.choice([0, 1, 1, 2, 3, 40])):
                self.numbers += 1
                changes.append((self.numbers, self.random.choice([TABLE, TABLE, NEIGHBOUR])))
            self.xid += 1
            self.clock += self.random.randrange(1, 1000)
            commit = self.lsn + 1000 * self.random.randrange(1, 3)
            self.lsn = commit + 48
            self.transactions.append(ModelTransaction(self.xid, self.clock, commit, self.lsn, changes))
        self.lsn += 16 * self.random.randrange(3)  # records of no transaction

    def peek(self, upto: int | None, count: int | None) -> Iterator[tuple[int, bytes]]:
        """Hand out whole transactions from the confirmed LSN on, as PostgreSQL does: it stops behind one that reaches a limit."""
        handed_out = 0
        for transaction in self.transactions:
            if transaction.commit < self.confirmed:
                continue
            if upto is not None and transaction.end - 48 >= upto:
                return
            for message in transaction.messages():
                handed_out += 1
                yield message
            if count is not None and handed_out >= count:
                return

    def advance(self, lsn: int) -> None:
        self.confirmed = max(self.confirmed, min(lsn, self.lsn))
        self.saved = self.random.choice([self.saved, self.confirmed])

    def crash(self) -> None:
        self.confirmed = self.saved

    def snapshot(self) -> ModelServer:
        return copy.deepcopy(self)

    @property
    def changes(self) -> list[int]:
        return [number for transaction in self.transactions for number in transaction.numbers]


@dataclass
class LogPoller:
    """Reads the slot as the reader of mode `log` does. `committed` is what survives a crash of the daemon."""

    server: ModelServer
    committed: str = json.dumps(LogPosition(end=FIRST_LSN).to_state())
    reported: list[int] = field(default_factory=list)

    def poll(self, *, crash_after: int | None = None) -> None:
        """Poll once. The daemon dies after `crash_after` batches, before the next commit. Raises `OtherHistory`."""
        position = self.position()
        upto, count = self.limits(position)
        stream = self.stream(position)
        batch: list[LoggedChange] = []
        batches = messages = 0
        for lsn, data in self.handed_out(upto, count):
            messages += 1
            change = stream.take(lsn, decode(data))
            if change is None:
                continue
            if len(batch) == 3:
                if batches == crash_after:
                    return
                self.commit(batch, batch[-1].position)
                batch, batches = [], batches + 1
            batch.append(change)
        if count is None or upto is not None:
            stream.end()
        if batches == crash_after:
            return
        is_part = count is None or messages >= count  # of what the slot has; the next poll must not read it again
        if batch or is_part:
            self.commit(batch, stream.position)
        if crash_after is None and stream.is_proven:
            self.server.advance(min(self.advances_to(), stream.position.end))

    def position(self) -> LogPosition:
        return LogPosition.from_state(json.loads(self.committed))

    def limits(self, position: LogPosition) -> tuple[int | None, int | None]:
        upto = position.reported_up_to
        return (upto, None) if self.server.confirmed < upto else (None, 7)

    def stream(self, position: LogPosition) -> ChangeStream:
        return ChangeStream(position, TABLE, self.server.confirmed)

    def handed_out(self, upto: int | None, count: int | None) -> Iterator[tuple[int, bytes]]:
        return self.server.peek(upto, count)

    def commit(self, batch: list[LoggedChange], position: LogPosition) -> None:
        self.committed = json.dumps(position.to_state())
        self.reported += [int(str(change.new[0])) for change in batch if change.new is not None]

    def advances_to(self) -> int:
        return self.position().end


@dataclass(frozen=True)
class LogOutcome:
    lost: set[int]
    repeated: set[int]
    in_order: bool
    is_blocked: bool
    """Whether the poller found another history."""
    taken_back: set[int]
    """Changes that were reported and that the server does not have any more."""


def simulate(random: Random, poller_class: type[LogPoller], *, polls: int, restores: bool = False) -> LogOutcome:
    """Poll beside writers, crashes of both sides and, with `restores`, copies of the server that take its place."""
    poller = poller_class(ModelServer(random))
    copies: list[ModelServer] = []
    try:
        for _ in range(polls):
            poller.server.work()
            _disturb(poller, random, copies if restores else None)
            poller.poll(crash_after=random.choice([None, None, None, 0, 1]))
        for _ in range(len(poller.server.transactions) + 2):  # the first may only recognize what was reported
            poller.poll()
    except OtherHistory:
        return _outcome(poller, is_blocked=True)
    return _outcome(poller, is_blocked=False)


def _disturb(poller: LogPoller, random: Random, copies: list[ModelServer] | None) -> None:
    """Let the server crash, take a copy of it, or let a copy take its place."""
    match random.randrange(8):
        case 0:
            poller.server.crash()
        case 1 if copies is not None:
            copies.append(poller.server.snapshot())
        case 2 if copies and random.random() < 0.3:
            restored = random.choice(copies)
            copies.clear()
            restored.clock += random.randrange(1, 10**6)
            restored.numbers, restored.random = poller.server.numbers, random  # new changes have new numbers
            poller.server = restored
            while random.random() < 0.7:
                restored.work()


def _outcome(poller: LogPoller, *, is_blocked: bool) -> LogOutcome:
    there, reported = poller.server.changes, poller.reported
    return LogOutcome(
        lost=set() if is_blocked else set(there) - set(reported),
        repeated={number for number in reported if reported.count(number) > 1},
        in_order=[number for number in reported if number in set(there)] == there[: len(reported)] or is_blocked,
        is_blocked=is_blocked,
        taken_back=set(reported) - set(there),
    )
