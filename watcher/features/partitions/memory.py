"""What a scheduler remembers of partitions between two checks, so that a check judges only those that changed or are due.

What is queued is read again only as far as it is new, as long as the older part of the queue is the same. A group that waits is
judged again once its queued events differ, its time has come, or the schedule, what its aliases resolved to, or the batching does.
All that a verdict depends on is compared with what the database says, under the job's lock: whoever takes events off the queue or
reloads meanwhile, a remembered verdict is the one that a new scheduler would give. While another process may have led, nothing is
remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
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


@dataclass(frozen=True, kw_only=True)
class _JudgedKey:
    """A queued key, as it is stored and what it means, and the key of its group."""

    span: QueuedSpan
    queued: QueuedKey
    group: str | None


@dataclass(kw_only=True)
class JudgedPartitions:
    """The groups of a job's queue at the time `now`, and which of them are known to wait until when (None: for events only)."""

    waits: Waits
    batching: Batching
    assets: dict[int, StoredAsset]
    now: datetime
    mark: QueueMark
    members: dict[QueuedIdentity, _JudgedKey]
    groups: dict[str | None, PartitionGroup]
    waiting: dict[str | None, datetime | None]
    has_rests: bool = True
    """Whether a part of some group may be decided that has no runs yet."""

    def has_same(self, assets: Iterable[tuple[int, StoredAsset]]) -> bool:
        """Whether these assets, with their ids, are not known as others. A reload may name them or their parts anew."""
        return all(self.assets.setdefault(asset_id, stored) == stored for asset_id, stored in assets)

    def open_groups(self, rests: AbstractSet[str | None]) -> Sequence[PartitionGroup]:
        """Return the groups that have to be judged, the one with the oldest event first; those with `rests` are among them."""
        keys = (self.groups.keys() - self.waiting.keys()) | (self.groups.keys() & rests)
        return sorted((self.groups[key] for key in keys), key=attrgetter("first_event"))

    def note(self, waiting: Mapping[str | None, timedelta | None]) -> None:
        """Remember groups that were judged and wait."""
        for key, pause in waiting.items():
            self.waiting[key] = None if pause is None else self.now + pause

    @property
    def check_again_in(self) -> timedelta | None:
        """When the clock alone may make a group due; None: never."""
        due_at = min((at for at in self.waiting.values() if at is not None), default=None)
        return None if due_at is None else due_at - self.now

    def _replace(self, spans: Mapping[QueuedIdentity, QueuedSpan], *, anew: bool) -> None:
        """Take over what is queued under these identities, and with `anew` nothing else. Changed groups have to be judged."""
        changed: set[str | None] = set()
        if anew:
            for identity in self.members.keys() - spans.keys():
                changed.add(self.members.pop(identity).group)
        for identity, span in spans.items():
            before = self.members.get(identity)
            if before is None or before.span != span:
                queued = queued_key(identity, span)
                group = group_of(queued.key, queued.parts, self.batching.by)
                self.members[identity] = _JudgedKey(span=span, queued=queued, group=group)
                changed.add(group)
        self._group_again(changed)

    def _group_again(self, changed: Collection[str | None]) -> None:
        if not changed:
            return
        rows: dict[str | None, list[QueuedKey]] = {}
        for each in self.members.values():
            if each.group in changed:
                rows.setdefault(each.group, []).append(each.queued)
        for key in changed:
            self.waiting.pop(key, None)
            self.groups.pop(key, None)
        self.groups |= {key: PartitionGroup(key=key, rows=of_group) for key, of_group in rows.items()}

    def take_over(self, spans: Mapping[QueuedIdentity, QueuedSpan], mark: QueueMark) -> None:
        """Take over all that is queued."""
        self._replace(spans, anew=True)
        self.mark = mark

    def add(self, spans: Mapping[QueuedIdentity, QueuedSpan], mark: QueueMark) -> None:
        """Add what is queued behind the mark so far."""
        both = {
            identity: span if (before := self.members.get(identity)) is None else _joined(before.span, span)
            for identity, span in spans.items()
        }
        self._replace(both, anew=False)
        self.mark = mark

    def at(self, now: datetime, waits: Waits) -> None:
        """Forget the verdicts that hold no more: those whose time has come, and all if the schedule changed or the clock was set back."""
        if self.waits != waits or now < self.now:
            self.waiting.clear()
        for key in [key for key, at in self.waiting.items() if at is not None and at <= now]:
            del self.waiting[key]
        self.waits, self.now = waits, now


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
        mark=NO_MARK,
        members={},
        groups={},
        waiting={},
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
