"""The planner of jobs with `batch: per_partition`: each partition becomes runs by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate

from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest
from store.features.partitions import groups as partition_groups
from store.features.partitions.groups import GroupRest
from store.keys import Batching, JobDefinition
from store.partition_keys import group_of
from store.runs.queue import kept_events
from store.runs.queue.kept_events import KeptQueue
from store.runs.queue.queues import JobQueue, KeyedEvent
from watcher.features.partitions.groups import (
    LATE,
    DueGroup,
    DuePartitions,
    PartitionGroup,
    as_it_is,
    due_partitions,
    grouped,
    said_as_it_is,
)
from watcher.features.partitions.item_counts import ItemCounts
from watcher.features.partitions.memory import PartitionMemory
from watcher.features.partitions.waiting import groups_of_now, waiting_partitions
from watcher.scheduling.planning import plans
from watcher.scheduling.planning.base import Planner, WaitingPartitions
from watcher.scheduling.planning.plans import PlannedRun, RunPlan, Waits, most_at_once, runs_of, with_keys, with_ticks
from watcher.scheduling.planning.triggering import store, waits_of


class PartitionPlanner(Planner):
    """Plans the runs of each partition by itself, and remembers those that wait."""

    def __init__(self) -> None:
        self._memory = PartitionMemory()

    async def plan(self, connection: AsyncConnection, queue: JobQueue, ticks: Sequence[datetime]) -> RunPlan:
        """Plan the partitions that are due, and a run without events for each tick."""
        plan = RunPlan()
        if queue.first_events:
            plan = await plan_partitions(connection, queue, await waits_of(connection, queue), self._memory)
        return replace(plan, runs=with_ticks(plan.runs, ticks, queue.definition.batch))

    def forget(self, dag_id: str) -> None:
        """Forget what is remembered of a job's partitions."""
        self._memory.forget(dag_id)

    def begin_term(self, term: int | None) -> None:
        """Forget everything if another process may have led meanwhile."""
        self._memory.begin_term(term)

    async def run_kept(self, connection: AsyncConnection, queue: KeptQueue, *, to: int) -> int:
        """Make a run of each of the first kept events, as many as fit a transaction; return how many."""
        dag_id, batching = queue.dag_id, replace(queue.definition.batch, max_events=1)
        events = await kept_events.oldest(connection, dag_id, limit=most_at_once(batching), to=to)
        keys = {event.event_id: group_of(event.key, event.parts, batching.by) for event in events}
        closed = await partition_groups.closed(connection, dag_id, {*keys.values()})
        planned = [
            replace(run, of_feature=said_as_it_is(batching, is_closed=run.partition_key in closed))
            for run in with_keys(runs_of(list(keys), None, batching), keys)
        ]
        await partition_groups.keep(connection, dag_id, dict.fromkeys({*keys.values()} - closed))
        await _remember(connection, dag_id, batching, planned)
        await store(connection, queue, planned)
        return len(events)

    async def run_partition(self, connection: AsyncConnection, queue: KeptQueue, key: str | None) -> int:
        """Make one run of what is queued of the partition, whatever it lacks; return how many events it has."""
        return await run_partition(connection, queue, key)

    async def waiting(
        self, connection: AsyncConnection, jobs: Mapping[str, JobDefinition], window: PageRequest
    ) -> Mapping[str, WaitingPartitions]:
        """Return what is queued of the partitions of these jobs, and what they lack."""
        return await waiting_partitions(connection, jobs, window, self._memory.counts)


async def plan_partitions(
    connection: AsyncConnection, queue: JobQueue, waits: Waits, memory: PartitionMemory
) -> RunPlan:
    """Plan runs of the groups that are due, as many as fit a transaction.

    What does not fit of a group is recorded: it is decided, and survives a crash.
    """
    if not queue.definition.has_schedule:
        return RunPlan()
    dag_id, batching = queue.dag_id, queue.definition.batch
    judged = await memory.recall(connection, queue, waits)
    rests = await partition_groups.rests(connection, dag_id) if judged.has_rests else {}
    decided = await _decide(connection, queue, waits, judged.open_groups(rests.keys()), rests, memory.counts)
    judged.note(decided.waiting)
    fitting = _fitting(decided.due, batching)
    taken = await _take(connection, dag_id, fitting, batching)
    judged.has_rests = bool(rests) or any(each.rest is not None for each in taken)
    kept: dict[str | None, GroupRest | None] = dict.fromkeys(rests.keys() - {each.group.key for each in decided.due})
    kept |= {each.key: each.rest for each in taken}
    await partition_groups.keep(connection, dag_id, kept)
    runs = [run for each in taken for run in each.runs]
    await _remember(connection, dag_id, batching, runs)
    if runs:
        gone = await partition_groups.mark_of(connection, dag_id, [event for run in runs for event in run.event_ids])
        judged.note_taken({row.key for each in fitting for row in each.group.rows}, gone)
    return RunPlan(
        runs=runs,
        has_rest=len(fitting) < len(decided.due) or any(each.rest is not None for each in taken),
        is_partial=True,
        check_again_in=judged.check_again_in,
    )


async def run_partition(connection: AsyncConnection, queue: KeptQueue, key: str | None) -> int:
    """Make one run of what is queued of the partition, as it is; return how many events it has. 0: nothing is queued of it.

    The queue is locked. Its condition and completeness do not matter.
    """
    dag_id, batching = queue.dag_id, queue.definition.batch
    queued = await partition_groups.queued_keys(connection, [dag_id])
    groups = [group for group in grouped(queued.get(dag_id, []), batching) if group.key == key]
    if not groups:
        return 0
    is_closed = bool(await partition_groups.closed(connection, dag_id, [key]))
    [taken] = await _take(connection, dag_id, [as_it_is(groups[0], batching, is_closed=is_closed)], batching)
    await partition_groups.keep(connection, dag_id, {key: None})
    await _remember(connection, dag_id, batching, taken.runs)
    await store(connection, queue, taken.runs)
    return groups[0].events


async def _remember(connection: AsyncConnection, dag_id: str, batching: Batching, runs: Sequence[PlannedRun]) -> None:
    """Remember what has come of partitions whose next manifest may name it."""
    if batching.complete is not None and batching.complete.again and batching.complete.manifest is not None:
        events = {event_id: run.partition_key for run in runs for event_id in run.event_ids}
        await partition_groups.remember(connection, dag_id, events)


async def _decide(
    connection: AsyncConnection,
    queue: JobQueue,
    waits: Waits,
    groups: Sequence[PartitionGroup],
    rests: Mapping[str | None, GroupRest],
    counts: ItemCounts,
) -> DuePartitions:
    """Decide on the groups, those first of which a part is decided already."""
    if not groups:
        return DuePartitions(due=())
    dag_id, batching = queue.dag_id, queue.definition.batch
    resting = {group.key for group in groups if group.key in rests and group.first_event <= rests[group.key].to}
    others = [group for group in groups if group.key not in resting]
    unfinished = (await partition_groups.unfinished(connection, [dag_id]))[dag_id]
    free = [group for group in others if group.key not in unfinished]
    known = await groups_of_now(connection, dag_id, batching, free, waits, counts)
    rest_of = [
        DueGroup(
            group=group,
            to=rests[group.key].to,
            completed_by=rests[group.key].completed_by,
            said={} if batching.complete is None else LATE,
        )
        for group in groups
        if group.key in resting
    ]
    decided = due_partitions(known, waits, batching, queue.now)
    return replace(decided, due=[*rest_of, *decided.due])


def _fitting(due: Sequence[DueGroup], batching: Batching) -> Sequence[DueGroup]:
    """Return the first groups that fit a transaction together, or the first one alone."""
    events = accumulate(each.group.events for each in due)
    runs = accumulate(-(-each.group.events // (1 if each.came_before else batching.max_events)) for each in due)
    fit = sum(
        number_of_events <= plans.MOST_EVENTS and number_of_runs <= plans.MOST_RUNS
        for number_of_events, number_of_runs in zip(events, runs, strict=True)
    )
    return due[: max(fit, 1)]


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """The runs of a group, and what is left of it."""

    key: str | None
    runs: Sequence[PlannedRun]
    rest: GroupRest | None


async def _take(
    connection: AsyncConnection, dag_id: str, due: Sequence[DueGroup], batching: Batching
) -> Sequence[_Taken]:
    if not due:
        return []
    place_of = {(row.references, row.key): place for place, each in enumerate(due) for row in each.group.rows}
    events: defaultdict[int, list[int]] = defaultdict(list)
    keys = {key for _, key in place_of}
    for event in await partition_groups.events_of(connection, dag_id, keys, to=max(each.to for each in due)):
        place = place_of.get((event.references, event.key))
        if place is not None and _is_taken(event, due[place]):
            events[place].append(event.event_id)
    return [_runs_of(each, events[place], batching) for place, each in enumerate(due)]


def _is_taken(event: KeyedEvent, due: DueGroup) -> bool:
    return event.event_id <= due.to and (due.came_before is None or event.came <= due.came_before)


def _runs_of(due: DueGroup, events: Sequence[int], batching: Batching) -> _Taken:
    is_alone = due.came_before is not None
    batching = replace(batching, max_events=1 if is_alone else len(events) if due.is_whole else batching.max_events)
    limit = most_at_once(batching)
    planned = runs_of(events[:limit], events[0] if is_alone else due.completed_by, batching)
    has_rest = len(events) > limit and not is_alone
    return _Taken(
        key=due.group.key,
        runs=[replace(run, partition_key=due.group.key, of_feature=due.said) for run in planned],
        rest=GroupRest(to=due.to, completed_by=due.completed_by) if has_rest else None,
    )
