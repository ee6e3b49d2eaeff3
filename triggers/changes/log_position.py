"""Where a watcher stands in the log, and what of a slot's transactions follows (pure).

A slot hands out transactions in the order of their commits, from its confirmed LSN on, and the same ones each time. A
position names the last transaction that was reported, and how many changes of the next one were. Both are recognized by LSN,
xid and time of their commit, and nothing is skipped that is not recognized. So a server whose history went back is found even
where its LSNs have passed the position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NoReturn, Self

from triggers.base import JsonObject
from triggers.changes.messages import (
    Begin,
    Commit,
    Message,
    PublishedRelation,
    RowChange,
    Truncate,
    Values,
)


class OtherHistory(Exception):
    """The slot does not hand out a transaction that was reported, so the server's history is another. The text says which."""


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return the number of an LSN."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionMark:
    """A transaction that was reported: whether one is the same is told by these three together."""

    lsn: int
    """The end of its commit record, or the commit record's own LSN if it was reported in part."""
    xid: int
    time: datetime

    def to_json(self) -> Sequence[str | int]:
        return [lsn_text(self.lsn), self.xid, self.time.isoformat()]

    @classmethod
    def from_json(cls, value: Sequence[Any] | None) -> Self | None:
        if value is None:
            return None
        return cls(lsn=lsn_of(value[0]), xid=value[1], time=datetime.fromisoformat(value[2]))

    def __str__(self) -> str:
        return f"the transaction {self.xid}, committed at {self.time.isoformat()} (LSN {lsn_text(self.lsn)}),"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPosition:
    """Everything up to `end` is handled, and the first `index` changes of the transaction `part`."""

    end: int
    """The slot may be advanced up to here, and never further."""
    last: TransactionMark | None = None
    """The last transaction that was reported as a whole."""
    part: TransactionMark | None = None
    index: int = 0

    def to_state(self) -> JsonObject:
        """Return the end of the last commit, the commit of the transaction that is divided, and the number of its changes; then both marks."""
        commit = None if self.part is None else lsn_text(self.part.lsn)
        return {
            "position": [lsn_text(self.end), commit, self.index],
            "last": None if self.last is None else self.last.to_json(),
            "part": None if self.part is None else self.part.to_json(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        end, _, index = state["position"]
        last, part = (TransactionMark.from_json(state[name]) for name in ("last", "part"))
        return cls(end=lsn_of(end), last=last, part=part, index=index)

    @property
    def up_to(self) -> str:
        """The LSN by which people know the position. It never decreases."""
        return lsn_text(self.end if self.part is None else self.part.lsn)

    @property
    def reported_up_to(self) -> int:
        """The LSN up to which a slot must hand out what was reported, so that it can be recognized; 0 if nothing was."""
        if self.part is not None:
            return self.part.lsn + 1
        return 0 if self.last is None else self.last.lsn


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedChange:
    """One change of the watched table. `relation` is None for a TRUNCATE. `position` is that behind it."""

    op: Literal["insert", "update", "delete", "truncate"]
    lsn: int
    xid: int
    time: datetime
    position: LogPosition
    relation: PublishedRelation | None = None
    new: Values | None = None
    old: Values | None = None


class ChangeStream:
    """Takes the messages that one statement reads from a slot, and returns the changes that were not reported yet."""

    def __init__(self, position: LogPosition, table_oid: int, confirmed: int) -> None:
        """`confirmed` is the slot's confirmed LSN: transactions that end there or earlier are not handed out.

        The position's end counts only as far as the slot handed everything out. Beyond that, another history may follow.
        """
        self.position = replace(position, end=min(position.end, confirmed))
        self._table = table_oid
        self._relation: PublishedRelation | None = None
        self._begin: Begin | None = None
        self._count = 0
        """The number of changes of the table in this transaction so far."""
        last = position.last
        self._expects_last = last is not None and confirmed < last.lsn
        self._expects_part = position.part is not None

    @property
    def is_proven(self) -> bool:
        """Whether everything that was reported was recognized, so that the slot may be advanced."""
        return not (self._expects_last or self._expects_part)

    def end(self) -> None:
        """Note that the slot has nothing more. Raises `OtherHistory` if something that was reported did not come."""
        if not self.is_proven:
            self._refuse(self._expected)

    def take(self, lsn: int, message: Message | None) -> LoggedChange | None:
        """Return the change, if the message is one of the table's that was not reported. Raises `OtherHistory`."""
        match message:
            case Begin():
                self._begin, self._count = message, 0
                self._compare(message)
            case PublishedRelation() if message.oid == self._table:
                self._relation = message
            case RowChange() if message.relation == self._table:
                return self._next(lsn, message)
            case Truncate() if self._table in message.relations:
                return self._next(lsn, None)
            case Commit():
                self._close(message)
        return None

    @property
    def _expected(self) -> TransactionMark | None:
        return self.position.last if self._expects_last else self.position.part

    def _compare(self, begin: Begin) -> None:
        """Refuse a transaction that comes instead of one that was reported."""
        expected = self._expected if not self.is_proven else None
        if expected is None:
            return
        if begin.commit >= expected.lsn and (self._expects_last or _mark(begin, begin.commit) != expected):
            self._refuse(expected)

    def _next(self, lsn: int, row: RowChange | None) -> LoggedChange | None:
        begin = self._opened
        self._count += 1
        if self._expects_last:
            return None
        part = _mark(begin, begin.commit)
        if self._expects_part:
            if part != self.position.part:  # it comes before the one that was reported in part, and was not reported
                self._refuse(self.position.part)
            self._expects_part = self._count < self.position.index
            return None
        self.position = replace(self.position, part=part, index=self._count)
        return LoggedChange(
            op="truncate" if row is None else row.op,
            lsn=lsn,
            xid=begin.xid,
            time=begin.time,
            position=self.position,
            relation=None if row is None else self._relation,
            new=None if row is None else row.new,
            old=None if row is None else row.old,
        )

    def _close(self, commit: Commit) -> None:
        last, mark = self.position.last, _mark(self._opened, commit.end)
        if self._expects_last:
            if last is None or commit.end > last.lsn or (commit.end == last.lsn and mark != last):
                self._refuse(last)
            self._expects_last = commit.end < last.lsn
            self.position = replace(self.position, end=commit.end)
        elif self._expects_part:
            if commit.commit >= (self._expected or mark).lsn:  # it has fewer changes than were reported
                self._refuse(self._expected)
        else:
            self.position = LogPosition(end=commit.end, last=mark if self._count else last)
        self._begin = None

    @property
    def _opened(self) -> Begin:
        if self._begin is None:
            raise ValueError("a change or a commit comes outside a transaction")
        return self._begin

    def _refuse(self, expected: TransactionMark | None) -> NoReturn:
        raise OtherHistory(f"{expected} was reported, and the server does not have it any more")


def _mark(begin: Begin, lsn: int) -> TransactionMark:
    return TransactionMark(lsn=lsn, xid=begin.xid, time=begin.time)
