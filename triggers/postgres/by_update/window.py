"""Mode `updated_at`, the pure core: which row versions are handled, judged by the transactions that wrote them.

A version that a snapshot does not show was written by a (sub)transaction whose xid is not below the snapshot's xmin. So
`xmin` of the last snapshot, and the xids at or above it that were *seen in the table*, separate handled versions from new
ones; all versions of one xid become visible together. The floor only keeps the reads short: `now()` is the
transaction's start, so nothing new can lie below a moment once every transaction that was open then has ended. Where clients
set the timestamp by clocks that may be behind by up to `lateness`, the floor stays so far below that moment.

One poll calls `alive` with a list of open transactions, then `read` with rows above the old floor, read after that list.

More may be waiting than one commit takes. Then the poll calls `read_part` again and again, and `read` with the last part.
Within a transaction the rows are ordered by their places in the table, which a version keeps as long as it lives. The
parts come in this order: the rest of the transaction in which the last part ended, then the others as they began. So
everything written before a part's transaction, by transactions that had ended by the snapshot, is reported, and `xmin` may
follow. The floor may not follow, because it would hide the parts that are still to come. The very first read treats all
transactions that ended before its first snapshot as one transaction, the oldest: nothing is ever added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from triggers.base import JsonObject, JsonValue, RowChanges
from triggers.postgres.history.kept_rows import Milestone, widened
from triggers.postgres.server.locks import LockSet

BEFORE_ALL_TIME: Final = "-infinity"
"""The moment before all others. Moments are compared as text, and this one sorts below all digits."""

XID_SPACE: Final = 2**32
FURTHEST_BACK: Final = 2**31 - 10**6
"""How many transactions the last snapshot may lie back. Rows hold 32 bits of their xid, so an older one looks like the future."""
OLD: Final = 2**27
"""The number of transactions after which a snapshot is written again, whatever happened: far below `FURTHEST_BACK`."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A moment, and the transactions that were open then and have not ended."""

    moment: str
    alive: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class TransactionSnapshot:
    """The snapshot in which rows were read: all xids (64 bits) below `xmin` had ended, none at or above `xmax` had begun."""

    xmin: int
    xmax: int

    def widen(self, xid: int) -> int:
        """Return the 64 bits of a row's xid, of which the row holds 32."""
        return widened(xid, self.xmax)


BEFORE_THE_FIRST: Final = 0
"""The xid that stands for all transactions that had ended by the very first snapshot."""


class RowPlace(NamedTuple):
    """The place of a row version: its partition's oid, and its block and number there."""

    relation: int
    block: int
    number: int

    @property
    def ctid(self) -> str:
        return f"({self.block},{self.number})"


@dataclass(frozen=True, kw_only=True)
class DrainCursor:
    """Where the last part ended: the versions that `xid` wrote are reported up to this place."""

    xid: int
    place: RowPlace


@dataclass(frozen=True, kw_only=True)
class VersionWindow:
    """The row versions that are handled.

    `xmin` is None until one read was completed. `floor` becomes `next_floor` with the next rows. `first` is the xmin of the very
    first snapshot, as long as only a part of what it shows is reported.
    """

    xmin: int | None = None
    first: int | None = None
    part: DrainCursor | None = None
    handled: frozenset[int] = frozenset()
    floor: str = BEFORE_ALL_TIME
    next_floor: str = BEFORE_ALL_TIME
    checkpoints: tuple[Checkpoint, ...] = ()
    boot: str = ""

    def alive(self, living: LockSet, lateness: timedelta) -> VersionWindow:
        """Return the window after a list of all transactions of the database but the watcher's own; the others have ended.

        `living.at` is a second before the list was read, as text of fixed width, because a session may take a while between
        noting its start and becoming visible. Transactions within one multi-statement text share one now(): the time at which
        the server received the text. A floor that is higher than the clocks of clients allow, as the place of a start may be, goes
        back after the next rows.
        """
        moment = living.at if living.since is None else min(living.at, living.since)
        checkpoints = [
            replace(checkpoint, alive=living.remaining(checkpoint.alive, self.boot)) for checkpoint in self.checkpoints
        ]
        checkpoints.append(Checkpoint(moment=moment, alive=frozenset(living.holders)))
        past = [earlier(checkpoint.moment, lateness) for checkpoint in checkpoints if not checkpoint.alive]
        is_reached = bool(lateness) and self.floor <= living.at
        floor = min(self.floor, earlier(living.at, lateness)) if is_reached else self.floor
        return replace(self, next_floor=max([floor, *past]), checkpoints=tuple(_needed(checkpoints)), boot=living.boot)

    def set_back(self, moment: str, lateness: timedelta) -> VersionWindow:
        """Return the window after the server's clock may have shown this moment again: a transaction begun then may write below the floor."""
        floor = earlier(moment, lateness)
        return replace(
            self,
            floor=min(self.floor, floor),
            next_floor=min(self.next_floor, floor),
            checkpoints=tuple(checkpoint for checkpoint in self.checkpoints if checkpoint.moment <= moment),
        )

    @property
    def highest(self) -> int:
        """The highest xid that is handled; all those below `xmin` have ended."""
        below = self.first if self.xmin is None else self.xmin
        return max(self.handled, default=0) if below is None else max(below - 1, *self.handled, 0)

    @property
    def below(self) -> int:
        """The xid below which all versions were handled before the next read; 0 if that is unknown, as between two parts."""
        return 0 if self.part is not None or self.xmin is None else self.xmin

    def healed(self, highest: int) -> VersionWindow:
        """Return the window for a server that has nothing above the xid `highest` of what was handled: it hands those xids out again.

        0 stands for a server that has nothing of it.
        """
        is_new = self.xmin is None or not highest
        return replace(
            self,
            xmin=None if is_new else min(self.xmin or 0, highest + 1),
            part=None if self.part is None or self.part.xid > highest else self.part,
            handled=frozenset(xid for xid in self.handled if xid <= highest),
        )

    def read(self, snapshot: TransactionSnapshot, xids: Iterable[int]) -> VersionWindow:
        """Return the window after all rows that the statement asked for, with these xids, were handled."""
        handled = self._with(map(snapshot.widen, xids))
        return replace(
            self,
            xmin=snapshot.xmin,
            first=None,
            part=None,
            handled=frozenset(xid for xid in handled if xid >= snapshot.xmin),
            floor=self.next_floor,
        )

    def read_part(self, snapshot: TransactionSnapshot, xids: Iterable[int], part: DrainCursor) -> VersionWindow:
        """Return the window after versions of these xids (64 bits) were reported up to `part`, with more waiting."""
        if part.xid == BEFORE_THE_FIRST:
            return replace(self, first=snapshot.xmin if self.first is None else self.first, part=part)
        handled, xmin = self._with(xids) - {part.xid}, self.xmin
        if xmin is None or self.part is None or self.part.xid != part.xid:
            xmin = min(part.xid, snapshot.xmin)
        return replace(self, xmin=xmin, first=None, part=part, handled=frozenset(xid for xid in handled if xid >= xmin))

    def accounts_for(self, xid: int, place: RowPlace) -> bool:
        """Return whether a watcher that continues from here will never report the version that `xid` (64 bits) wrote at this place."""
        if self.xmin is None:
            return self.first is not None and xid < self.first and self.part is not None and place <= self.part.place
        if self.part is not None and xid == self.part.xid:
            return place <= self.part.place
        return xid < self.xmin or xid in self.handled

    def _with(self, xids: Iterable[int]) -> frozenset[int]:
        """Return the handled xids with `xids`, and with the one in which the last part ended: its last rows come with the next part."""
        broken_off = () if self.part is None else (self.part.xid,)
        return self.handled.union(xids, broken_off) - {BEFORE_THE_FIRST}

    def too_far_back(self, snapshot: TransactionSnapshot) -> bool:
        oldest = self.first if self.xmin is None else self.xmin
        return oldest is not None and snapshot.xmax - oldest >= FURTHEST_BACK

    def has_aged_since(self, written: VersionWindow) -> bool:
        return self.xmin is not None and written.xmin is not None and self.xmin - written.xmin >= OLD

    def to_state(self) -> JsonObject:
        """Return small JSON without `handled`, which may be large and is stored as rows."""
        drain: dict[str, JsonValue] = {} if self.first is None else {"first": self.first}
        if self.part is not None:
            place = self.part.place
            drain["part"] = [self.part.xid, place.relation, place.block, place.number]
        return {
            "xmin": self.xmin,
            "floor": self.floor,
            "checkpoints": [[checkpoint.moment, sorted(checkpoint.alive)] for checkpoint in self.checkpoints],
            "boot": self.boot,
            **drain,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], handled: Iterable[int]) -> VersionWindow:
        checkpoints = (Checkpoint(moment=moment, alive=frozenset(alive)) for moment, alive in state["checkpoints"])
        part = None
        if "part" in state:
            xid, relation, block, number = state["part"]
            part = DrainCursor(xid=xid, place=RowPlace(relation=relation, block=block, number=number))
        return cls(
            xmin=state["xmin"],
            first=state.get("first"),
            part=part,
            handled=frozenset(handled),
            floor=state["floor"],
            next_floor=state["floor"],
            checkpoints=tuple(checkpoints),
            boot=state["boot"],
        )


def _needed(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Drop checkpoints that cannot end before a later one does, so that there are at most as many as open transactions."""
    needed: list[Checkpoint] = []
    for checkpoint in reversed(checkpoints):
        if checkpoint.alive and not any(later.alive <= checkpoint.alive for later in needed):
            needed.append(checkpoint)
    return needed[::-1]


def earlier(moment: str, by: timedelta) -> str:
    """Return the moment so much earlier."""
    return moment if moment == BEFORE_ALL_TIME else moment_text(datetime.fromisoformat(moment) - by)


def moment_text(moment: datetime) -> str:
    """Return a time in UTC as text of fixed width, which sorts as the times do."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class VersionMemory:
    """What a reader of mode `updated_at` remembers.

    `files` is one number for the files of all relations, by which older releases notice a rewritten table; None before the first
    read. Everything committed before `until` is accounted for. `left_out` counts the rows that failed `where` since this process
    reads.
    """

    window: VersionWindow
    files: int | None = None
    until: str = BEFORE_ALL_TIME
    left_out: int = 0
    again: tuple[str, ...] = ()
    """The keys of rows that are reported once more, because the server has an older version than the reported one."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any], handled: Iterable[int]) -> VersionMemory:
        window = VersionWindow.from_state(state, handled)
        return cls(window=window, files=state["files"], until=state["until"], again=tuple(state.get("again", ())))

    def to_state(self) -> JsonObject:
        again: JsonObject = {"again": self.again} if self.again else {}
        return {**self.window.to_state(), "files": self.files, "until": self.until, **again}

    def watermark(self) -> dict[str, JsonValue]:
        """Return the watermark; its `oldest` is filled in by an alarm only, because other transactions end without being written."""
        return {"up_to": self.until, "floor": self.window.floor, "seen": len(self.window.handled), "oldest": None}

    def has_moved_since(self, written: VersionMemory) -> bool:
        """Return whether `where` left rows out; without a row, floor and snapshot only follow the clock."""
        return (self.left_out, self.again) != (written.left_out, written.again)

    def has_aged_since(self, written: VersionMemory) -> bool:
        return self.window.has_aged_since(written.window)

    def milestone(self) -> Milestone:
        return Milestone(highest=self.window.highest, until=self.until)

    def changes_since(self, written: VersionMemory) -> RowChanges:
        new, old = self.window.handled - written.window.handled, written.window.handled - self.window.handled
        above = [xid for xid in old if xid > self.window.highest]
        return RowChanges(delete_below=self.window.xmin, delete=above, insert={xid: xid for xid in new})
