"""Which partitions of a job become runs now, with `batch: per_partition`: pure functions of what is queued, and the clock.

Events are grouped by their partition keys, and those without a key are a group of their own. Each group is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from store.keys import Batching
from store.partition_keys import QueuedKey, group_of
from watcher.features.partitions.completeness import complete_references
from watcher.scheduling.planning.plans import Waits, completing, remaining


@dataclass(frozen=True, kw_only=True)
class PartitionGroup:
    """The queued events of a job that belong together, by asset and partition key. `key` is that of its runs."""

    key: str | None
    rows: Sequence[QueuedKey]

    @property
    def events(self) -> int:
        """The number of its events."""
        return sum(row.events for row in self.rows)

    @property
    def first_event(self) -> int:
        return min(row.first_event for row in self.rows)

    @property
    def last_event(self) -> int:
        return max(row.last_event for row in self.rows)

    @property
    def first_events(self) -> Mapping[str, int]:
        """The first queued event that satisfies each reference, by the reference's key."""
        first: dict[str, int] = {}
        for row in self.rows:
            first |= {each: min(row.first_event, first.get(each, row.first_event)) for each in row.references}
        return first


@dataclass(frozen=True, kw_only=True)
class DueGroup:
    """A group that becomes runs: all its events up to `to`, which `completed_by` completed.

    With `came_before` only those that had come by then, each in a run of its own: the schedule does not wait for them, and no
    other run has taken them. `is_whole`: they are one run, however many they are.
    """

    group: PartitionGroup
    to: int
    completed_by: int | None
    came_before: datetime | None = None
    is_whole: bool = False
    partition_complete: bool | None = None
    """Whether the partition is complete; None: the job does not ask for it."""
    late: bool = False
    """Whether the events came after a run of the group."""

    @property
    def said(self) -> Mapping[str, bool]:
        """What jobs read of its runs."""
        complete = {} if self.partition_complete is None else {"partition_complete": self.partition_complete}
        return {**complete, "late": True} if self.late else complete


@dataclass(frozen=True, kw_only=True)
class GroupsOfNow:
    """The groups of a job that wait, and what is known of them by their keys.

    `unfinished` have a run that is queued or running, `closed` have had a run and stay complete, `items` are the numbers of
    different files or rows of the others that count, and `lacking` says what lacks where that is more than a number.
    """

    groups: Sequence[PartitionGroup]
    unfinished: AbstractSet[str | None] = frozenset()
    closed: AbstractSet[str | None] = frozenset()
    items: Mapping[str | None, int] = field(default_factory=dict)
    lacking: Mapping[str | None, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DuePartitions:
    """The groups to make runs of now, oldest first.

    `waiting`: those that wait for events, by their keys, each with how long until the clock may make it due (None: never).
    """

    due: Sequence[DueGroup]
    waiting: Mapping[str | None, timedelta | None] = field(default_factory=dict)

    @property
    def check_again_in(self) -> timedelta | None:
        """When the clock alone requires a check; None: never."""
        return min((pause for pause in self.waiting.values() if pause is not None), default=None)


def grouped(rows: Sequence[QueuedKey], batching: Batching) -> Sequence[PartitionGroup]:
    """Return the groups of what is queued, the one with the oldest event first."""
    by_key: defaultdict[str | None, list[QueuedKey]] = defaultdict(list)
    for row in rows:
        by_key[group_of(row.key, row.parts, batching.by)].append(row)
    groups = [PartitionGroup(key=key, rows=rows) for key, rows in by_key.items()]
    return sorted(groups, key=lambda group: group.first_event)


def due_partitions(known: GroupsOfNow, waits: Waits, batching: Batching, now: datetime) -> DuePartitions:
    """Decide which groups become runs now.

    A group waits while a run with its key is unfinished. Events of assets that the schedule does not wait for go with the
    next run of their group, or by themselves after `max_wait`.
    """
    due: list[DueGroup] = []
    waiting: dict[str | None, timedelta | None] = {}
    for group in known.groups:
        if group.key in known.unfinished:
            continue
        decided, pause = _decide(group, known, waits, batching, now)
        if decided is None:
            waiting[group.key] = pause
        else:
            due.append(decided)
    return DuePartitions(due=due, waiting=waiting)


def _decide(
    group: PartitionGroup, known: GroupsOfNow, waits: Waits, batching: Batching, now: datetime
) -> tuple[DueGroup | None, timedelta | None]:
    """Return the group if it becomes runs, or else how long until the clock may make it due."""
    due = _completed(group, known, waits, batching)
    pause: timedelta | None = None
    if due is not None:
        pause = collecting_time(group, batching, now)
        if pause <= timedelta(0):
            return due, None
    elif group.key not in known.closed:
        pause = _patience(group, waits, batching, now)
        if pause is not None and pause <= timedelta(0):
            return as_it_is(group, batching, is_closed=False), None
    unclaimed = [row for row in group.rows if not waits.wait_for(row.references)]
    if not unclaimed:
        return None, pause
    longest = batching.max_wait - (now - min(row.oldest for row in unclaimed))
    if longest > timedelta(0):
        return None, longest if pause is None else min(pause, longest)
    alone = PartitionGroup(key=group.key, rows=unclaimed)
    return DueGroup(group=alone, to=alone.last_event, completed_by=None, came_before=now - batching.max_wait), None


def _completed(group: PartitionGroup, known: GroupsOfNow, waits: Waits, batching: Batching) -> DueGroup | None:
    """Return the group if its events are what it waits for. A closed one waits for any event of the schedule's assets."""
    complete = batching.complete
    if complete is None:
        by = completing(group.first_events, waits)
        return None if by is None else DueGroup(group=group, to=group.last_event, completed_by=by)
    if group.key in known.closed:
        late = [row.first_event for row in group.rows if waits.wait_for(row.references)]
        if not late:
            return None
        by = min(late)
        return DueGroup(group=group, to=group.last_event, completed_by=by, partition_complete=True, late=True)
    by = completing(complete_references(group.rows, complete), waits)
    if by is None or known.items.get(group.key, 0) < complete.needed_items:
        return None
    return DueGroup(group=group, to=group.last_event, completed_by=by, is_whole=True, partition_complete=True)


def _patience(group: PartitionGroup, waits: Waits, batching: Batching, now: datetime) -> timedelta | None:
    """How much longer an incomplete group waits for the rest; None: for ever."""
    oldest = min((row.oldest for row in group.rows if waits.wait_for(row.references)), default=None)
    return None if batching.run_after is None or oldest is None else batching.run_after - (now - oldest)


def as_it_is(group: PartitionGroup, batching: Batching, *, is_closed: bool) -> DueGroup:
    """Return the group as one run of all its events, whatever it lacks. `is_closed`: it has had a run."""
    asks = batching.complete is not None
    return DueGroup(
        group=group,
        to=group.last_event,
        completed_by=None,
        is_whole=True,
        partition_complete=is_closed if asks else None,
        late=asks and is_closed,
    )


def collecting_time(group: PartitionGroup, batching: Batching, now: datetime) -> timedelta:
    """How much longer a group whose condition is met collects events."""
    if batching.debounce <= timedelta(0):
        return timedelta(0)
    return remaining(min(row.oldest for row in group.rows), max(row.newest for row in group.rows), batching, now)
