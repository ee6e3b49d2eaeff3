"""Mode `updated_at`, the pure core: which row versions are handled, told apart by the transaction that wrote them.

A version that a snapshot does not show was written by a (sub)transaction whose xid is not below the snapshot's xmin. So
`xmin` of the last snapshot and the xids at or above it that were *seen in the table* tell handled versions from new
ones; all versions of one xid become visible together. The floor only keeps the reads short: `now()` is the
transaction's start, so nothing new can lie below a moment once every transaction that was alive then has ended.

The order of one poll: `alive` with a list of the living, `read` with rows above the old floor, read after that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from triggers.postgres.ledger import LockSet

if TYPE_CHECKING:
    from triggers.base import JsonObject

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


@dataclass(frozen=True, kw_only=True)
class Window:
    """`xmin` None: nothing was read yet. `next_floor` is what `floor` becomes with the next rows."""

    xmin: int | None = None
    handled: frozenset[int] = frozenset()
    floor: str = BEFORE_ALL_TIME
    next_floor: str = BEFORE_ALL_TIME
    checkpoints: tuple[Checkpoint, ...] = ()
    boot: str = ""

    def alive(self, living: LockSet) -> Window:
        """`living` are all transactions of the database but the watcher's own; whoever left the list has ended.

        `living.at` is a second before it was read, as text of fixed width: a session may take a while between noting its
        start and becoming visible.
        """
        checkpoints = [replace(one, alive=living.remaining(one.alive, self.boot)) for one in self.checkpoints]
        checkpoints.append(Checkpoint(moment=living.at, alive=frozenset(living.holders)))
        past = [one.moment for one in checkpoints if not one.alive]
        return replace(
            self, next_floor=max([self.floor, *past]), checkpoints=tuple(_needed(checkpoints)), boot=living.boot
        )

    def read(self, snapshot: Snapshot, xids: Iterable[int]) -> Window:
        """The window once rows with these xids were handled, all that the statement was asked for."""
        handled = self.handled.union(map(snapshot.widen, xids))
        return replace(
            self,
            xmin=snapshot.xmin,
            handled=frozenset(xid for xid in handled if xid >= snapshot.xmin),
            floor=self.next_floor,
        )

    def too_far_back(self, snapshot: Snapshot) -> bool:
        return self.xmin is not None and snapshot.xmax - self.xmin >= FURTHEST_BACK

    def has_aged_since(self, written: Window) -> bool:
        return self.xmin is not None and written.xmin is not None and self.xmin - written.xmin >= OLD

    def to_state(self) -> JsonObject:
        """Small JSON, without `handled`: that may be large and is kept as rows."""
        return {
            "xmin": self.xmin,
            "floor": self.floor,
            "checkpoints": [[one.moment, sorted(one.alive)] for one in self.checkpoints],
            "boot": self.boot,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], handled: Iterable[int]) -> Window:
        checkpoints = (Checkpoint(moment=moment, alive=frozenset(alive)) for moment, alive in state["checkpoints"])
        return cls(
            xmin=state["xmin"],
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
