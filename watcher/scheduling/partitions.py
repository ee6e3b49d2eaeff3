"""Which partitions of a job become runs now, with `batch: per_partition`: pure functions of what is queued, and the clock.

Events are grouped by their partition keys, and those without a key are a group of their own. Each group is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from store.keys import Batching
from store.partition_keys import QueuedKey, group_of
from store.references import is_awaited
from watcher.scheduling.planning import Waits, completing, remaining


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
    other run has taken them.
    """

    group: PartitionGroup
    to: int
    completed_by: int | None
    came_before: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class DuePartitions:
    """The groups to make runs of now, oldest first, and when the clock alone requires a check (None: never)."""

    due: Sequence[DueGroup]
    check_again_in: timedelta | None


def grouped(rows: Sequence[QueuedKey], batching: Batching) -> Sequence[PartitionGroup]:
    """Return the groups of what is queued, the one with the oldest event first."""
    by_key: defaultdict[str | None, list[QueuedKey]] = defaultdict(list)
    for row in rows:
        by_key[group_of(row.key, row.parts, batching.by)].append(row)
    groups = [PartitionGroup(key=key, rows=rows) for key, rows in by_key.items()]
    return sorted(groups, key=lambda group: group.first_event)


def due_partitions(
    groups: Sequence[PartitionGroup],
    waits: Waits,
    batching: Batching,
    *,
    unfinished: Collection[str | None],
    now: datetime,
) -> DuePartitions:
    """Decide which groups become runs now.

    A group waits while a run with its key is unfinished. Events of assets that the schedule does not wait for go with the
    next run of their group, or by themselves after `max_wait`.
    """
    due: list[DueGroup] = []
    pauses: list[timedelta] = []
    for group in groups:
        if group.key in unfinished:
            continue
        decided, pause = _decide(group, waits, batching, now)
        due += [] if decided is None else [decided]
        pauses += [] if pause is None else [pause]
    return DuePartitions(due=due, check_again_in=min(pauses, default=None))


def _decide(
    group: PartitionGroup, waits: Waits, batching: Batching, now: datetime
) -> tuple[DueGroup | None, timedelta | None]:
    """Return the group if it becomes runs, or else how long until the clock may make it due."""
    completed_by = completing(group.first_events, waits)
    pause: timedelta | None = None
    if completed_by is not None:
        pause = collecting_time(group, batching, now)
        if pause <= timedelta(0):
            return DueGroup(group=group, to=group.last_event, completed_by=completed_by), None
    unclaimed = [row for row in group.rows if not is_awaited(waits.condition, row.references, waits.aliases)]
    if not unclaimed:
        return None, pause
    longest = batching.max_wait - (now - min(row.oldest for row in unclaimed))
    if longest > timedelta(0):
        return None, longest if pause is None else min(pause, longest)
    alone = PartitionGroup(key=group.key, rows=unclaimed)
    return DueGroup(group=alone, to=alone.last_event, completed_by=None, came_before=now - batching.max_wait), None


def collecting_time(group: PartitionGroup, batching: Batching, now: datetime) -> timedelta:
    """How much longer a group whose condition is met collects events."""
    if batching.debounce <= timedelta(0):
        return timedelta(0)
    return remaining(min(row.oldest for row in group.rows), max(row.newest for row in group.rows), batching, now)
