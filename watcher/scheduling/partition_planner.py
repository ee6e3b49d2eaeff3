"""Plans the runs of a job with `batch: per_partition` from its queue, under the job's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from sqlalchemy.ext.asyncio import AsyncConnection

from store.keys import Batching
from store.runs import partition_groups
from store.runs.partition_groups import GroupRest, KeyedEvent
from store.runs.queues import JobQueue
from watcher.scheduling import planning
from watcher.scheduling.partitions import DueGroup, DuePartitions, PartitionGroup, due_partitions, grouped
from watcher.scheduling.planning import PlannedRun, RunPlan, Waits, most_at_once, runs_of


async def plan_partitions(connection: AsyncConnection, queue: JobQueue, waits: Waits) -> RunPlan:
    """Plan runs of the groups that are due, as many as fit a transaction.

    What does not fit of a group is recorded: it is decided, and survives a crash.
    """
    if not queue.definition.has_schedule:
        return RunPlan()
    dag_id, batching = queue.dag_id, queue.definition.batch
    queued = await partition_groups.queued_keys(connection, [dag_id])
    groups = grouped(queued.get(dag_id, []), batching)
    rests = await partition_groups.rests(connection, dag_id)
    decided = await _decide(connection, queue, waits, groups, rests)
    fitting = _fitting(decided.due, batching)
    taken = await _take(connection, dag_id, fitting, batching)
    kept: dict[str | None, GroupRest | None] = dict.fromkeys(rests.keys() - {each.group.key for each in decided.due})
    kept |= {each.key: each.rest for each in taken if each.is_recorded}
    await partition_groups.keep(connection, dag_id, kept)
    return RunPlan(
        runs=[run for each in taken for run in each.runs],
        has_rest=len(fitting) < len(decided.due) or any(each.rest is not None for each in taken),
        is_partial=True,
        check_again_in=decided.check_again_in,
    )


async def _decide(
    connection: AsyncConnection,
    queue: JobQueue,
    waits: Waits,
    groups: Sequence[PartitionGroup],
    rests: Mapping[str | None, GroupRest],
) -> DuePartitions:
    """Decide on the groups, those first of which a part is decided already."""
    rest_of = {
        group.key: DueGroup(group=group, to=rest.to, completed_by=rest.completed_by)
        for group in groups
        if (rest := rests.get(group.key)) is not None and group.first_event <= rest.to
    }
    others = [group for group in groups if group.key not in rest_of]
    unfinished = (await partition_groups.unfinished(connection, [queue.dag_id]))[queue.dag_id]
    decided = due_partitions(others, waits, queue.definition.batch, unfinished=unfinished, now=queue.now)
    return replace(decided, due=[*rest_of.values(), *decided.due])


def _fitting(due: Sequence[DueGroup], batching: Batching) -> Sequence[DueGroup]:
    """Return the first groups that fit a transaction together, or the first one alone."""
    events = accumulate(each.group.events for each in due)
    runs = accumulate(-(-each.group.events // (1 if each.came_before else batching.max_events)) for each in due)
    fit = sum(
        number_of_events <= planning.MOST_EVENTS and number_of_runs <= planning.MOST_RUNS
        for number_of_events, number_of_runs in zip(events, runs, strict=True)
    )
    return due[: max(fit, 1)]


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """The runs of a group, and what is left of it. `is_recorded`: it counts as a group that has had a run."""

    key: str | None
    runs: Sequence[PlannedRun]
    rest: GroupRest | None
    is_recorded: bool


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
    batching = replace(batching, max_events=1) if is_alone else batching
    limit = most_at_once(batching)
    planned = runs_of(events[:limit], events[0] if is_alone else due.completed_by, batching)
    has_rest = len(events) > limit and not is_alone
    return _Taken(
        key=due.group.key,
        runs=[replace(run, partition_key=due.group.key) for run in planned],
        rest=GroupRest(to=due.to, completed_by=due.completed_by) if has_rest else None,
        is_recorded=not is_alone,
    )
