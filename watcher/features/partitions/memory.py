"""What a scheduler remembers of partitions between two checks, so that a check costs what changed or is due, however many wait.

What is queued is read again only as far as it is new, or of a partition of which the last check has taken events, as long as the
rest of the queue is the same. A group that waits is judged again once its queued events differ, its time has come, or the schedule,
what its aliases resolved to, or the batching does. All that a verdict depends on is compared with what the database says, under the
job's lock: whoever takes events off the queue or reloads meanwhile, a remembered verdict is the one that a new scheduler would
give. While another process may have led, nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.features.partitions import groups as partition_groups
from store.features.partitions.groups import NO_MARK, QueuedIdentity, QueuedSpan, QueueMark, queued_key
from store.keys import Batching
from store.partition_keys import QueuedKey, group_of
from store.runs.queue.queues import JobQueue, StoredAsset
from watcher.features.partitions.groups import PartitionGroup
from watcher.features.partitions.item_counts import ItemCounts
from watcher.scheduling.planning.plans import Waits

MOST_REMEMBERED: Final = 100_000
"""The most queued keys that are remembered of all jobs together."""
MOST_OLD_TIMES: Final = 100
"""How many more than twice the times that hold are kept of a job."""


@dataclass(frozen=True, kw_only=True)
class _JudgedKey:
    """A queued key, as it is stored and what it means, and the key of its group."""

    span: QueuedSpan
    queued: QueuedKey
    group: str | None


@dataclass(kw_only=True)
class JudgedPartitions:
    """The groups of a job's queue at the time `now`, and which of them have to be judged: the others wait."""

    waits: Waits
    batching: Batching
    assets: dict[int, StoredAsset]
    now: datetime
    mark: QueueMark = NO_MARK
    members: dict[QueuedIdentity, _JudgedKey] = field(default_factory=dict)
    groups: dict[str | None, PartitionGroup] = field(default_factory=dict)
    open: set[str | None] = field(default_factory=set)
    """The keys of the groups to judge."""
    due_at: dict[str | None, datetime] = field(default_factory=dict)
    """When the clock makes groups due that wait; those without a time wait for events only."""
    has_rests: bool = True
    """Whether a part of some group may be decided that has no runs yet."""
    _taken: set[str | None] = field(default_factory=set)
    """The partition keys of which the last check has taken events. What is left of them has to be read again."""
    _by_group: dict[str | None, dict[QueuedIdentity, None]] = field(default_factory=dict)
    _by_key: dict[str | None, dict[QueuedIdentity, None]] = field(default_factory=dict)
    """What is queued of each group and of each partition key, as ordered sets."""
    _times: list[tuple[datetime, str]] = field(default_factory=list)
    """A heap of `due_at`, among times that hold no more."""

    def has_same(self, assets: Iterable[tuple[int, StoredAsset]]) -> bool:
        """Whether these assets, with their ids, are not known as others. A reload may name them or their parts anew."""
        return all(self.assets.setdefault(asset_id, stored) == stored for asset_id, stored in assets)

    def open_groups(self, rests: AbstractSet[str | None]) -> Sequence[PartitionGroup]:
        """Return the groups that have to be judged, the one with the oldest event first; those with `rests` are among them."""
        keys = self.open | (self.groups.keys() & rests)
        return sorted((self.groups[key] for key in keys), key=attrgetter("first_event"))

    def note(self, waiting: Mapping[str | None, timedelta | None]) -> None:
        """Remember groups that were judged and wait."""
        self.open -= waiting.keys()
        for key, pause in waiting.items():
            if pause is not None:
                self.due_at[key] = self.now + pause
                heappush(self._times, (self.due_at[key], _text(key)))
        if len(self._times) > 2 * len(self.due_at) + MOST_OLD_TIMES:
            self._times = [(at, _text(key)) for key, at in self.due_at.items()]
            heapify(self._times)

    def note_taken(self, keys: AbstractSet[str | None], taken: QueueMark) -> None:
        """Remember that events with these partition keys are taken off the queue, if the transaction is committed."""
        self._taken |= keys
        self.mark = self.mark.without(taken)

    @property
    def check_again_in(self) -> timedelta | None:
        """When the clock alone may make a group due; None: never."""
        self._forget_old_times()
        return self._times[0][0] - self.now if self._times else None

    def _forget_old_times(self) -> None:
        while self._times and self.due_at.get(_key(self._times[0][1])) != self._times[0][0]:
            heappop(self._times)

    def _replace(self, spans: Mapping[QueuedIdentity, QueuedSpan], *, gone: Iterable[QueuedIdentity]) -> None:
        """Take over what is queued under these identities, and forget others that are gone. Changed groups have to be judged."""
        changed: set[str | None] = set()
        for identity in gone:
            group = self.members.pop(identity).group
            del self._by_group[group][identity], self._by_key[identity[-1]][identity]
            changed.add(group)
        for identity, span in spans.items():
            before = self.members.get(identity)
            if before is None or before.span != span:
                queued = queued_key(identity, span)
                group = group_of(queued.key, queued.parts, self.batching.by)
                self.members[identity] = _JudgedKey(span=span, queued=queued, group=group)
                self._by_group.setdefault(group, {})[identity] = None
                self._by_key.setdefault(identity[-1], {})[identity] = None
                changed.add(group)
        for group in changed:
            self._group_again(group)

    def _group_again(self, key: str | None) -> None:
        self.due_at.pop(key, None)
        if identities := self._by_group.get(key):
            self.groups[key] = PartitionGroup(key=key, rows=[self.members[each].queued for each in identities])
            self.open.add(key)
        else:
            self._by_group.pop(key, None)
            self.groups.pop(key, None)
            self.open.discard(key)

    def take_over(self, spans: Mapping[QueuedIdentity, QueuedSpan], mark: QueueMark) -> None:
        """Take over all that is queued."""
        self._taken.clear()
        self._replace(spans, gone=[*self.members.keys() - spans.keys()])
        self.mark = mark

    def add(self, spans: Mapping[QueuedIdentity, QueuedSpan], mark: QueueMark) -> None:
        """Add what is queued behind the mark so far."""
        both = {
            identity: span if (before := self.members.get(identity)) is None else _joined(before.span, span)
            for identity, span in spans.items()
        }
        self._replace(both, gone=())
        self.mark = mark

    @property
    def taken(self) -> AbstractSet[str | None]:
        """The partition keys that have to be read again."""
        return self._taken

    def take_over_taken(self, spans: Mapping[QueuedIdentity, QueuedSpan]) -> None:
        """Take over what is queued with the partition keys of which the last check has taken events."""
        known = {each for key in self._taken for each in self._by_key.get(key, ())}
        self._replace(spans, gone=known - spans.keys())
        for key in [key for key in self._taken if not self._by_key.get(key)]:
            self._by_key.pop(key, None)
        self._taken.clear()

    def at(self, now: datetime, waits: Waits) -> None:
        """Forget the verdicts that hold no more: those whose time has come, and all if the schedule changed or the clock was set back."""
        if self.waits != waits or now < self.now:
            self.open.update(self.groups)
            self.due_at.clear()
        while self._times and self._times[0][0] <= now:
            at, text = heappop(self._times)
            if self.due_at.get(_key(text)) == at:
                del self.due_at[_key(text)]
                self.open.add(_key(text))
        self.waits, self.now = waits, now


def _text(key: str | None) -> str:
    """Return a group's key as a heap can order it: no key is blank."""
    return "" if key is None else key


def _key(text: str) -> str | None:
    return text or None


class PartitionMemory:
    """Remembers the judged partitions of jobs, and the numbers of their items."""

    def __init__(self) -> None:
        self._term: int | None = None
        self._judged: dict[str, JudgedPartitions] = {}
        self.counts = ItemCounts()

    def begin_term(self, term: int | None) -> None:
        """Forget everything if this is another term of leadership than the last one."""
        if term != self._term:
            self._term = term
            self._judged.clear()

    def forget(self, dag_id: str) -> None:
        """Forget a job, because events that were stored long ago are queued for it."""
        self._judged.pop(dag_id, None)

    async def recall(self, connection: AsyncConnection, queue: JobQueue, waits: Waits) -> JudgedPartitions:
        """Return the groups of what is queued now, with what is still known of them.

        If the transaction fails, what was read remains true: the queue is compared with the database the next time.
        """
        judged = self._judged.pop(queue.dag_id, None) or _nothing(queue, waits)
        if judged.batching != queue.definition.batch or not judged.has_same(queue.assets.items()):
            judged = _nothing(queue, waits)
        mark, is_same = await partition_groups.mark(connection, queue.dag_id, judged.mark)
        if is_same and mark.newest > judged.mark.newest:
            new = await _spans(connection, queue.dag_id, after=judged.mark.newest, to=mark.newest)
            is_same = judged.has_same(identity[:2] for identity in new)
            if is_same:
                judged.add(new, mark)
        if is_same and judged.taken:
            left = await partition_groups.queued_spans_of(connection, queue.dag_id, judged.taken, to=mark.newest)
            is_same = judged.has_same(identity[:2] for identity in left)
            if is_same:
                judged.take_over_taken(left)
        if not is_same:
            judged.take_over(await _spans(connection, queue.dag_id, after=0, to=mark.newest), mark)
        judged.at(queue.now, waits)
        if sum(len(each.members) for each in self._judged.values()) + len(judged.members) > MOST_REMEMBERED:
            self._judged.clear()
        self._judged[queue.dag_id] = judged
        return judged


def _nothing(queue: JobQueue, waits: Waits) -> JudgedPartitions:
    batching = queue.definition.batch
    return JudgedPartitions(
        waits=waits,
        batching=batching,
        assets={},
        now=queue.now,
    )


async def _spans(
    connection: AsyncConnection, dag_id: str, *, after: int, to: int
) -> Mapping[QueuedIdentity, QueuedSpan]:
    return (await partition_groups.queued_spans(connection, [dag_id], after=after, to=to)).get(dag_id, {})


def _joined(before: QueuedSpan, new: QueuedSpan) -> QueuedSpan:
    (first, last, events, oldest, newest), (first_new, last_new, more, oldest_new, newest_new) = before, new
    return (
        min(first, first_new),
        max(last, last_new),
        events + more,
        min(oldest, oldest_new),
        max(newest, newest_new),
    )
