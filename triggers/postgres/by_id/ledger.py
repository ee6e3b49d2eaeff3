"""Mode `id`, the pure core: which ids are accounted for, and which transactions may still insert the missing ones.

An id that is missing from a snapshot was drawn by a transaction that took RowExclusiveLock on the table or its sequence
before it drew the id, and keeps that lock to its end (PostgreSQL manual, 13.3.1 and 9.17: nextval locks the sequence too).
So the transaction is in every list of lock holders read after that snapshot, or it ended before the list was read. COMMIT
makes rows visible before it releases locks. Hence a missing id is dead once it is still missing from a read that began
after all transactions of the first such list had ended. Only writers of this table hold a gap open.

One poll calls `locked` with a list of holders read after the last rows, then `read` with rows read after that list. While
nothing is missing (`settled`) the list is not needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, TypeAlias

from triggers.base import JsonObject, JsonValue, RowChanges
from triggers.postgres.history.kept_rows import Milestone
from triggers.postgres.server.locks import LockSet
from triggers.shared.postgres.values import LARGEST_ID

Range: TypeAlias = tuple[int, int]
"""Ids from low to high, both inclusive."""

MOST_GAPS: Final = 10_000
"""The number of open gaps at which no id above the highest is read, so that the state stays small JSON.

Nothing is lost: reading continues when the transactions that hold the gaps end. Two bulk loads that interleave their ids come
close to this number; little else does.
"""

MOST_LATE_ROWS: Final = 10_000
"""The most rows that one statement reads from all gaps together (one for each when there are more gaps than this)."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A transaction that keeps gaps open: its process (None when prepared), and when it was first listed."""

    pid: int | None
    since: str


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Ids from `low` to `high`, inclusive, that only the transactions `holders` may still insert."""

    low: int
    high: int
    holders: frozenset[str]

    def after(self, hits: Sequence[int], limit: int) -> Iterator[Gap]:
        """Yield what is left of the gap after a read of at most `limit` rows returned `hits`.

        When no holder is left, that is the part that a read cut off by its limit did not reach.
        """
        if self.holders:
            ranges = holes_between(self.low - 1, (*hits, self.high + 1))
        elif len(hits) >= limit and hits[-1] < self.high:
            ranges = iter([(hits[-1] + 1, self.high)])
        else:
            return
        for low, high in ranges:
            yield Gap(low=low, high=high, holders=self.holders)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Every id up to `highest` outside `gaps` and `holes` is accounted for: reported, filtered or dead.

    `holes` are the ids missing from the newest rows, for which no list of holders was read yet. `ahead` are ids above `highest`
    that were given by hand and are accounted for; the ids between them and `highest` are still to be drawn. All of these ascend.
    """

    highest: int
    gaps: tuple[Gap, ...] = ()
    holes: tuple[Range, ...] = ()
    boot: str = ""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    ahead: tuple[Range, ...] = ()

    @property
    def settled(self) -> bool:
        return not self.gaps and not self.holes

    @property
    def open_ids(self) -> int:
        """How many missing ids may still be inserted."""
        return sum(high - low + 1 for low, high in [*((gap.low, gap.high) for gap in self.gaps), *self.holes])

    @property
    def oldest(self) -> tuple[str, Holder] | None:
        """The virtual transaction that has held gaps open for the longest time."""
        return min(self.holders.items(), key=lambda item: item[1].since, default=None)

    def fresh_limit(self, batch_size: int) -> int:
        """Return how many rows above `highest` the next statement may read."""
        return batch_size if len(self.gaps) < MOST_GAPS else 0

    def late_limit(self) -> int:
        """Return how many rows of each gap the next statement may read."""
        return max(1, MOST_LATE_ROWS // max(1, len(self.gaps)))

    def locked(self, locks: LockSet) -> Ledger:
        """Release what transactions that are no longer listed held, and turn the holes into gaps of all that are listed."""
        now = {holders: locks.remaining(holders, self.boot) for holders in {gap.holders for gap in self.gaps}}
        everybody = frozenset(locks.holders)
        gaps = (
            *(replace(gap, holders=now[gap.holders]) for gap in self.gaps),
            *(Gap(low=low, high=high, holders=everybody) for low, high in self.holes),
        )
        named = frozenset[str]().union(*{gap.holders for gap in gaps})
        known = self.holders if locks.boot == self.boot else {}
        holders = {name: known.get(name) or Holder(pid=locks.holders[name], since=locks.at) for name in sorted(named)}
        return Ledger(highest=self.highest, gaps=gaps, boot=locks.boot, holders=holders, ahead=self.ahead)

    def read(
        self, ids: Sequence[int], *, fresh_limit: int, late_limit: int, gaps_read: int | None = None
    ) -> tuple[Ledger, bool]:
        """Return the ledger after one snapshot's ids, ascending, and whether a limit cut the read off, so that more is waiting.

        The read asked for the lowest `fresh_limit` ids above `highest`, and for the lowest `late_limit` of each of the first
        `gaps_read` gaps (None: of all gaps); the other gaps stay as they are.
        """
        if self.holes:
            raise ValueError("holes need a list of lock holders before the next rows are read")
        if not ids and not self.gaps:
            return self, False
        first_fresh = bisect_right(ids, self.highest)
        late, fresh = ids[:first_fresh], ids[first_fresh:]
        cut = 0 < fresh_limit <= len(fresh)
        gaps: list[Gap] = []
        unread = self.gaps[len(self.gaps) if gaps_read is None else gaps_read :]
        for gap in self.gaps[: len(self.gaps) - len(unread)]:
            hits = late[bisect_left(late, gap.low) : bisect_right(late, gap.high)]
            cut = cut or (len(hits) >= late_limit and hits[-1] < gap.high)
            gaps += gap.after(hits, late_limit)
        highest = fresh[-1] if fresh else self.highest
        after = replace(self, highest=highest, gaps=(*gaps, *unread), holes=(*holes_between(self.highest, fresh),))
        return after.with_ahead(()), cut or bool(unread)

    def with_ahead(self, ids: Sequence[int]) -> Ledger:
        """Add ids that were given by hand and are accounted for, and drop those at or below `highest`, which need no such mark."""
        if not self.ahead and not ids:
            return self
        ranges = [(max(low, self.highest + 1), high) for low, high in self.ahead if high > self.highest]
        return replace(self, ahead=tuple(_merged([*ranges, *ranges_of(sorted(ids))])))

    def is_ahead(self, number: int) -> bool:
        place = bisect_right(self.ahead, number, key=itemgetter(0))
        return place > 0 and number <= self.ahead[place - 1][1]

    def accounts_for(self, low: int, high: int) -> bool:
        """Return whether every id from `low` to `high` is accounted for."""
        if high > self.highest:
            return any(first <= low and high <= last for first, last in self.ahead)
        is_open = (*((gap.low, gap.high) for gap in self.gaps), *self.holes)
        return all(high < first or last < low for first, last in is_open)

    @property
    def free(self) -> list[Range]:
        """The ids above `highest` that are not accounted for."""
        limits = [(self.highest, self.highest), *self.ahead, (LARGEST_ID + 1, LARGEST_ID + 1)]
        pairs = [(below + 1, above - 1) for (_, below), (above, _) in pairwise(limits)]
        return [(low, high) for low, high in pairs if low <= high]

    def rewound(self, highest: int) -> Ledger:
        """Return a ledger that reads every id above `highest` again; what is open at or below it stays open."""
        gaps = tuple(replace(gap, high=min(gap.high, highest)) for gap in self.gaps if gap.low <= highest)
        holes = tuple((low, min(high, highest)) for low, high in self.holes if low <= highest)
        named = frozenset[str]().union(*(gap.holders for gap in gaps))
        holders = {name: holder for name, holder in self.holders.items() if name in named}
        return replace(self, highest=highest, gaps=gaps, holes=holes, holders=holders, ahead=())

    def healed(self, highest: int, *, lost: Collection[int], kept: Sequence[int]) -> Ledger:
        """Return a ledger for a server that has nothing above `highest` of what was accounted for, but ids given by hand.

        Those of the ids given by hand that are `lost` count as new when they come again; `kept` were given by hand, too.
        """
        gone = sorted(number for number in lost if self.is_ahead(number))
        ahead = (
            left
            for low, high in self.ahead
            for left in holes_between(low - 1, [*(number for number in gone if low <= number <= high), high + 1])
        )
        return replace(self.rewound(min(self.highest, highest)), ahead=tuple(ahead)).with_ahead(kept)

    def has_moved_since(self, written: Ledger) -> bool:
        """Return whether gaps opened or closed, or `where` left rows out."""
        return self != written

    def has_aged_since(self, written: Ledger) -> bool:  # noqa: ARG002  see `ReaderMemory`
        return False

    def milestone(self) -> Milestone:
        return Milestone(highest=self.highest)

    def changes_since(self, written: Ledger) -> RowChanges:  # noqa: ARG002  see `ReaderMemory`
        return RowChanges()

    def watermark(self) -> dict[str, JsonValue]:
        oldest = self.oldest
        holder = oldest and {"transaction": oldest[0], "pid": oldest[1].pid, "since": oldest[1].since}
        gaps = len(self.gaps) + len(self.holes)
        return {"up_to": self.highest, "gaps": gaps, "open_ids": self.open_ids, "oldest": holder}

    def to_state(self) -> JsonObject:
        """Return small JSON; gaps with the same holders share one group."""
        groups = {holders: number for number, holders in enumerate(dict.fromkeys(gap.holders for gap in self.gaps))}
        return {
            "m": self.highest,
            "gaps": [[gap.low, gap.high, groups[gap.holders]] for gap in self.gaps],
            "groups": {str(number): sorted(holders) for holders, number in groups.items()},
            "new": [list(hole) for hole in self.holes],
            "boot": self.boot,
            "holders": {name: [holder.pid, holder.since] for name, holder in self.holders.items()},
            **({"ahead": [list(limits) for limits in self.ahead]} if self.ahead else {}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ledger:
        groups = {int(number): frozenset(holders) for number, holders in state["groups"].items()}
        return cls(
            highest=state["m"],
            gaps=tuple(Gap(low=low, high=high, holders=groups[group]) for low, high, group in state["gaps"]),
            holes=tuple((low, high) for low, high in state["new"]),
            boot=state["boot"],
            holders={name: Holder(pid=pid, since=since) for name, (pid, since) in state["holders"].items()},
            ahead=tuple((low, high) for low, high in state.get("ahead", ())),
        )


def holes_between(after: int, ids: Sequence[int]) -> Iterator[Range]:
    """Yield the ranges of ids above `after` that the ascending `ids` leave out."""
    if ids and ids[-1] - after == len(ids):
        return  # none, as usual
    for number in ids:
        if number > after + 1:
            yield after + 1, number - 1
        after = number


def _merged(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield the ranges in ascending order, with overlapping and adjacent ones joined."""
    last: Range | None = None
    for low, high in sorted(ranges):
        if last is not None and low <= last[1] + 1:
            last = (last[0], max(last[1], high))
        else:
            if last is not None:
                yield last
            last = (low, high)
    if last is not None:
        yield last


def ranges_of(ids: Sequence[int]) -> list[Range]:
    """Return the fewest ranges that hold exactly these ascending ids."""
    if ids and ids[-1] - ids[0] == len(ids) - 1:
        return [(ids[0], ids[-1])]
    ranges: list[Range] = []
    for number in ids:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
