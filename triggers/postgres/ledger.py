"""Mode `id`, the pure core: which ids are accounted for, and who may still bring those that were missing.

An id that is missing from a snapshot was drawn by a transaction that took RowExclusiveLock on the table or its sequence
before it drew, and keeps that lock to its end (PostgreSQL manual, 13.3.1 and 9.17: nextval locks the sequence too). So
the transaction is in every list of lock holders read after that snapshot, or it had ended before the list was read; and
COMMIT makes rows visible before it releases locks. Hence a missing id is dead once it is still missing from a read
that began after all transactions of the first such list had left it. Only writers of this table hold a gap open.

The order of one poll: `locked` with a list of holders read after the last rows, then `read` with rows read after that
list. While nothing is missing (`settled`) the list is not needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from triggers.base import JsonObject

Range: TypeAlias = tuple[int, int]
"""Ids from low to high, both inclusive."""

LARGEST_ID: Final = 2**63 - 1

MOST_GAPS: Final = 10_000
"""With so many gaps open no id above the highest is read: the state stays small JSON, nothing is lost, and it goes on
when the transactions that hold the gaps end. Two bulk loads that interleave their ids come close; little else does."""

MOST_LATE_ROWS: Final = 10_000
"""Rows one statement may bring out of all gaps together (one each when there are more gaps than that)."""


@dataclass(frozen=True, kw_only=True)
class LockSet:
    """Who held a certain lock at one moment: RowExclusiveLock on the table, its partitions or its sequences (mode `id`).

    In mode `updated_at` the lock on their own transaction, which all have that are alive. `holders` maps the virtual
    transaction to its process, None for a prepared transaction. `boot` tells one life of the server from the next, `at`
    is the server's clock as ISO 8601 text. Whoever begins later has a now() above `since`, if that is earlier than `at`.
    """

    boot: str
    at: str
    holders: Mapping[str, int | None]
    since: str | None = None

    def remaining(self, earlier: frozenset[str], boot: str) -> frozenset[str]:
        """Who of `earlier`, from a list of the server's life `boot`, may hold it still: whoever left the list does not.

        A prepared transaction may trade its virtual transaction for `-1/xid` (a restart does that), so one that is found
        under such a name may be anybody who left: it is always among them. A virtual transaction does not outlive the server.
        """
        prepared = frozenset(holder for holder in self.holders if holder.startswith("-1/"))
        return (earlier & frozenset(self.holders)) | prepared if boot == self.boot else prepared


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A transaction that keeps gaps open: its process (None when prepared), and when it was first found doing so."""

    pid: int | None
    since: str


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Ids from `low` to `high`, inclusive, that nobody but `holders` may still bring."""

    low: int
    high: int
    holders: frozenset[str]

    def after(self, hits: Sequence[int], limit: int) -> Iterator[Gap]:
        """What is left once a read of at most `limit` rows found `hits`.

        With nobody left to bring more, that is the part which a cut read did not reach.
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
    """Every id up to `highest` outside `gaps` and `holes` is accounted for: emitted, filtered or dead.

    `holes` are the ids missing from the newest rows, of which no list of holders is known yet. `ahead` are ids above `highest`
    that were given by hand, and are accounted for; between them and `highest` lie what others draw. All of these ascend.
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
        """How many ids may still come."""
        return sum(high - low + 1 for low, high in [*((gap.low, gap.high) for gap in self.gaps), *self.holes])

    @property
    def oldest(self) -> tuple[str, Holder] | None:
        """The virtual transaction that holds gaps open for longest."""
        return min(self.holders.items(), key=lambda item: item[1].since, default=None)

    def fresh_limit(self, batch_size: int) -> int:
        """How many rows above `highest` the next statement may read."""
        return batch_size if len(self.gaps) < MOST_GAPS else 0

    def late_limit(self) -> int:
        """How many rows of each gap the next statement may read."""
        return max(1, MOST_LATE_ROWS // max(1, len(self.gaps)))

    def locked(self, locks: LockSet) -> Ledger:
        """Whoever left the list holds nothing any more; the holes become gaps of all who are on it."""
        now = {holders: locks.remaining(holders, self.boot) for holders in {gap.holders for gap in self.gaps}}
        everybody = frozenset(locks.holders)
        gaps = (
            *(replace(gap, holders=now[gap.holders]) for gap in self.gaps),
            *(Gap(low=low, high=high, holders=everybody) for low, high in self.holes),
        )
        named = frozenset[str]().union(*{gap.holders for gap in gaps})
        seen = self.holders if locks.boot == self.boot else {}
        holders = {name: seen.get(name) or Holder(pid=locks.holders[name], since=locks.at) for name in sorted(named)}
        return Ledger(highest=self.highest, gaps=gaps, boot=locks.boot, holders=holders, ahead=self.ahead)

    def read(
        self, ids: Sequence[int], *, fresh_limit: int, late_limit: int, gaps_read: int | None = None
    ) -> tuple[Ledger, bool]:
        """The ledger after one snapshot's rows, ascending; and whether a limit cut the read, so that more is waiting.

        Of the ids above `highest` the lowest `fresh_limit` were asked for, and the lowest `late_limit` of each of the first
        `gaps_read` gaps (None: of all); the other gaps stay as they are.
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
        """These were given by hand and are accounted for; what lies at or below `highest` needs no such mark any more."""
        if not self.ahead and not ids:
            return self
        ranges = [(max(low, self.highest + 1), high) for low, high in self.ahead if high > self.highest]
        return replace(self, ahead=tuple(_merged([*ranges, *ranges_of(sorted(ids))])))

    def is_ahead(self, number: int) -> bool:
        place = bisect_right(self.ahead, number, key=itemgetter(0))
        return place > 0 and number <= self.ahead[place - 1][1]

    def accounts_for(self, low: int, high: int) -> bool:
        """Whether every id from `low` to `high` is accounted for."""
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
        """Every id above `highest` is to come, whether it was seen or not; what is open at or below it stays open."""
        gaps = tuple(replace(gap, high=min(gap.high, highest)) for gap in self.gaps if gap.low <= highest)
        holes = tuple((low, min(high, highest)) for low, high in self.holes if low <= highest)
        named = frozenset[str]().union(*(gap.holders for gap in gaps))
        holders = {name: holder for name, holder in self.holders.items() if name in named}
        return replace(self, highest=highest, gaps=gaps, holes=holes, holders=holders, ahead=())

    def to_state(self) -> JsonObject:
        """Small JSON; gaps with the same holders share one group."""
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
    """The ids that ascending `ids` leave out, above `after`."""
    if ids and ids[-1] - after == len(ids):
        return  # none, as usual
    for number in ids:
        if number > after + 1:
            yield after + 1, number - 1
        after = number


def _merged(ranges: Iterable[Range]) -> Iterator[Range]:
    """Ascending, none of them next to another."""
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
    """Ascending ids as the fewest ranges that hold exactly them."""
    if ids and ids[-1] - ids[0] == len(ids) - 1:
        return [(ids[0], ids[-1])]
    ranges: list[Range] = []
    for number in ids:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
