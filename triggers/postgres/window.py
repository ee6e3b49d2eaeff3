"""Mode `updated_at`, the pure core: which row versions are handled, told apart by the transaction that wrote them.

A version that a snapshot does not show was written by a (sub)transaction whose xid is not below the snapshot's xmin. So
`xmin` of the last snapshot and the xids at or above it that were *seen in the table* tell handled versions from new
ones; all versions of one xid become visible together. The floor only keeps the reads short: `now()` is the
transaction's start, so nothing new can lie below a moment once every transaction that was alive then has ended.

The order of one poll: `alive` with a list of the living, `read` with rows above the old floor, read after that list.

What waits may be more than one commit takes: then `read_part`, again and again, and `read` with the last part. Within a
transaction's rows the order is that of their places in the table, which a version keeps as long as it lives. The parts
come in this order: the rest of the transaction that the last part broke off in, then the others as they began. So
whatever was written before a part's transaction, and had ended by the snapshot, is told, and `xmin` may follow; the
floor may not, since it would hide what is still to come. The very first read takes those who ended before its first
snapshot as one transaction, the oldest: nothing is ever added to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from triggers.postgres.ledger import LockSet

if TYPE_CHECKING:
    from triggers.base import JsonObject, JsonValue

BEFORE_ALL_TIME: Final = "-infinity"
"""Moments are compared as text; this one sorts below all digits."""

XID_SPACE: Final = 2**32
FURTHEST_BACK: Final = 2**31 - 10**6
"""xids on a row have 32 bits: a last snapshot further back than this cannot be told from the future."""
OLD: Final = 2**27
"""Transactions after which a snapshot is written anew, whatever happened: far below `FURTHEST_BACK`."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A moment, and who of those alive then has not ended."""

    moment: str
    alive: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What the rows were read in: xids of 64 bits, all below `xmin` had ended, none at or above `xmax` had begun."""

    xmin: int
    xmax: int

    def widen(self, xid: int) -> int:
        """The 64 bits of a row's xid, of which the row holds 32."""
        return self.xmax - ((self.xmax - xid) % XID_SPACE)


BEFORE_THE_FIRST: Final = 0
"""The xid that stands for all who had ended by the very first snapshot."""


@dataclass(frozen=True, kw_only=True, order=True)
class RowPlace:
    """Where a row version is: its partition's oid, and its block and number there."""

    relation: int
    block: int
    number: int

    @property
    def ctid(self) -> str:
        return f"({self.block},{self.number})"


@dataclass(frozen=True, kw_only=True)
class Part:
    """The versions that `xid` wrote are told up to this place."""

    xid: int
    place: RowPlace


@dataclass(frozen=True, kw_only=True)
class Window:
    """`xmin` None: nothing was read whole yet. `next_floor` is what `floor` becomes with the next rows.

    `first` is the xmin of the very first snapshot, while only a part of what it shows is told.
    """

    xmin: int | None = None
    first: int | None = None
    part: Part | None = None
    handled: frozenset[int] = frozenset()
    floor: str = BEFORE_ALL_TIME
    next_floor: str = BEFORE_ALL_TIME
    checkpoints: tuple[Checkpoint, ...] = ()
    boot: str = ""

    def alive(self, living: LockSet) -> Window:
        """`living` are all transactions of the database but the watcher's own; whoever left the list has ended.

        `living.at` is a second before it was read, as text of fixed width: a session may take a while between noting its
        start and becoming visible. Several transactions of one text of statements have the time at which it came as now().
        """
        moment = living.at if living.since is None else min(living.at, living.since)
        checkpoints = [replace(one, alive=living.remaining(one.alive, self.boot)) for one in self.checkpoints]
        checkpoints.append(Checkpoint(moment=moment, alive=frozenset(living.holders)))
        past = [one.moment for one in checkpoints if not one.alive]
        return replace(
            self, next_floor=max([self.floor, *past]), checkpoints=tuple(_needed(checkpoints)), boot=living.boot
        )

    def set_back(self, moment: str) -> Window:
        """The server's clock may have shown this moment since the last list of the living: who began then may write below the floor."""
        return replace(
            self,
            floor=min(self.floor, moment),
            next_floor=min(self.next_floor, moment),
            checkpoints=tuple(one for one in self.checkpoints if one.moment <= moment),
        )

    def read(self, snapshot: Snapshot, xids: Iterable[int]) -> Window:
        """The window once rows with these xids were handled, all that the statement was asked for."""
        handled = self._with(map(snapshot.widen, xids))
        return replace(
            self,
            xmin=snapshot.xmin,
            first=None,
            part=None,
            handled=frozenset(xid for xid in handled if xid >= snapshot.xmin),
            floor=self.next_floor,
        )

    def read_part(self, snapshot: Snapshot, xids: Iterable[int], part: Part) -> Window:
        """The window once versions of these xids, of 64 bits, are told up to `part`, and more is waiting."""
        if part.xid == BEFORE_THE_FIRST:
            return replace(self, first=snapshot.xmin if self.first is None else self.first, part=part)
        handled, xmin = self._with(xids) - {part.xid}, self.xmin
        if xmin is None or self.part is None or self.part.xid != part.xid:
            xmin = min(part.xid, snapshot.xmin)
        return replace(self, xmin=xmin, first=None, part=part, handled=frozenset(xid for xid in handled if xid >= xmin))

    def accounts_for(self, xid: int, place: RowPlace) -> bool:
        """Whether a watcher that goes on from here will never tell the version that `xid`, of 64 bits, wrote at this place."""
        if self.xmin is None:
            return self.first is not None and xid < self.first and self.part is not None and place <= self.part.place
        if self.part is not None and xid == self.part.xid:
            return place <= self.part.place
        return xid < self.xmin or xid in self.handled

    def _with(self, xids: Iterable[int]) -> frozenset[int]:
        """Also whose last rows come with the next part."""
        broken_off = () if self.part is None else (self.part.xid,)
        return self.handled.union(xids, broken_off) - {BEFORE_THE_FIRST}

    def too_far_back(self, snapshot: Snapshot) -> bool:
        oldest = self.first if self.xmin is None else self.xmin
        return oldest is not None and snapshot.xmax - oldest >= FURTHEST_BACK

    def has_aged_since(self, written: Window) -> bool:
        return self.xmin is not None and written.xmin is not None and self.xmin - written.xmin >= OLD

    def to_state(self) -> JsonObject:
        """Small JSON, without `handled`: that may be large and is kept as rows."""
        drain: dict[str, JsonValue] = {} if self.first is None else {"first": self.first}
        if self.part is not None:
            place = self.part.place
            drain["part"] = [self.part.xid, place.relation, place.block, place.number]
        return {
            "xmin": self.xmin,
            "floor": self.floor,
            "checkpoints": [[one.moment, sorted(one.alive)] for one in self.checkpoints],
            "boot": self.boot,
            **drain,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], handled: Iterable[int]) -> Window:
        checkpoints = (Checkpoint(moment=moment, alive=frozenset(alive)) for moment, alive in state["checkpoints"])
        part = None
        if "part" in state:
            xid, relation, block, number = state["part"]
            part = Part(xid=xid, place=RowPlace(relation=relation, block=block, number=number))
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
    """Without those that cannot end before a later one does: so there are at most as many as transactions alive."""
    needed: list[Checkpoint] = []
    for one in reversed(checkpoints):
        if one.alive and not any(later.alive <= one.alive for later in needed):
            needed.append(one)
    return needed[::-1]
