"""What the partitions of jobs with `batch: per_partition` hold and lack, for people who ask why nothing runs. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest
from store.fates import Move
from store.features.partitions import groups as partition_groups
from store.keys import Batching, JobDefinition
from store.runs.queue import waiting
from watcher.features.partitions.completeness import complete_references, missing_values
from watcher.features.partitions.deliveries import condition_steps, of_what_comes
from watcher.features.partitions.groups import GroupsOfNow, PartitionGroup, grouped
from watcher.features.partitions.item_counts import ItemCount, ItemCounts
from watcher.scheduling.planning.base import WaitingPartition, WaitingPartitions
from watcher.scheduling.planning.conditions import is_met, lacking
from watcher.scheduling.planning.plans import Waits

MOVES_OF_PARTITIONS: Final = (
    Move(None, "incomplete", "its first event is queued"),
    Move(None, "complete", "it needs no other"),
    Move("incomplete", "complete", "what it lacks comes"),
    Move("complete", "running", "debounce is over"),
    Move("incomplete", "running", "its deadline passes, or --run"),
    Move("running", "loaded", "its run succeeds"),
    Move("running", "failed", "its run fails for good"),
    Move("loaded", "running", "its run is cleared"),
    Move("failed", "running", "its run is cleared"),
    Move("loaded", "late", "a later event comes"),
    Move("late", "running", "it needs nothing else"),
    Move("loaded", "redelivery incomplete", "a later event comes, with again"),
    Move("redelivery incomplete", "running", "its set is complete again, or its deadline passes"),
)
"""The life of a partition at a job with `complete`: its first run, and those of what comes later."""


async def waiting_partitions(
    connection: AsyncConnection, jobs: Mapping[str, JobDefinition], window: PageRequest, counts: ItemCounts
) -> Mapping[str, WaitingPartitions]:
    """Return the partitions that are queued for these jobs, by job. What is in no window is only counted."""
    queued = await partition_groups.queued_keys(connection, jobs)
    resolved = await waiting.resolved(connection, jobs)
    unfinished = await partition_groups.unfinished(connection, jobs)
    listed: dict[str, WaitingPartitions] = {}
    for dag_id, definition in jobs.items():
        groups = grouped(queued.get(dag_id, []), definition.batch)
        waits = Waits(condition=definition.schedule, aliases=resolved.get(dag_id, {}))
        known = await groups_of_now(connection, dag_id, definition.batch, groups, waits, counts)
        lacking = {group.key for group in groups if _is_lacking(group, known, waits, definition.batch)}
        busy = {group.key for group in groups} & unfinished[dag_id]
        listed[dag_id] = WaitingPartitions(
            lacking=len(lacking),
            busy=len(busy - lacking),
            due=len(groups) - len(lacking | busy),
            shown=[
                WaitingPartition(
                    partition_key=group.key,
                    events=group.events,
                    oldest=min(row.oldest for row in group.rows),
                    lacks=_lacks(group, known, waits, definition.batch) if group.key in lacking else "",
                    has_run=group.key in busy,
                    is_redelivery=_comes_again(definition.batch) and group.key in known.closed,
                )
                for group in groups[window.offset : window.offset + window.limit]
            ],
        )
    return listed


async def groups_of_now(
    connection: AsyncConnection,
    dag_id: str,
    batching: Batching,
    groups: Sequence[PartitionGroup],
    waits: Waits,
    counts: ItemCounts,
) -> GroupsOfNow:
    """Return the groups with what is known of them, but for their unfinished runs."""
    closed: AbstractSet[str | None] = frozenset()
    counted: Mapping[str | None, ItemCount] = {}
    completed: Mapping[str | None, int | None] = {}
    complete = batching.complete
    if complete is not None:
        closed = await partition_groups.closed(connection, dag_id, {group.key for group in groups})
    if complete is not None and complete.needed_items:
        open_ = [each for each in groups if complete.again or each.key not in closed]
        counted = await counts.of(connection, dag_id, open_, waits, complete, closed)
        completed = {key: count.completed_by for key, count in counted.items()}
    elif complete is not None and complete.again:
        completed = {
            group.key: condition_steps(group.rows, waits, complete, is_redelivery=group.key in closed).first
            for group in groups
        }
    return GroupsOfNow(
        groups=groups,
        closed=closed,
        items={key: count.number for key, count in counted.items()},
        lacking={key: count.lacks for key, count in counted.items() if count.lacks},
        completed={key: event for key, event in completed.items() if event is not None},
    )


def _is_lacking(group: PartitionGroup, known: GroupsOfNow, waits: Waits, batching: Batching) -> bool:
    """Whether a group waits for more than its turn. One that has had its complete run does so for its next delivery only."""
    if waits.condition is None:
        return False
    if _comes_again(batching):
        return group.key not in known.completed
    if group.key in known.closed:
        return False
    come = complete_references(group.rows, batching.complete).keys()
    return not is_met(waits.condition, come, waits.aliases) or _missing_items(group, known, batching) > 0


def _comes_again(batching: Batching) -> bool:
    return batching.complete is not None and batching.complete.again


def _missing_items(group: PartitionGroup, known: GroupsOfNow, batching: Batching) -> int:
    return (0 if batching.complete is None else batching.complete.needed_items) - known.items.get(group.key, 0)


def _lacks(group: PartitionGroup, known: GroupsOfNow, waits: Waits, batching: Batching) -> str:
    """Return what a group that lacks something waits for."""
    complete, condition = batching.complete, waits.condition
    come = complete_references(group.rows, complete).keys()
    if group.key in known.closed and condition is not None:
        coming = {each for row in group.rows for each in row.references}
        condition = of_what_comes(condition, coming, waits.aliases) or condition
    if condition is not None and not is_met(condition, come, waits.aliases):
        return lacking(condition, come, waits.aliases, lambda key: missing_values(key, group.rows, complete))
    if (lacks := known.lacking.get(group.key)) is not None:
        return lacks
    missing = _missing_items(group, known, batching)
    if complete is None or not complete.needed_items:
        return f"values of {'its parts' if complete is None else complete.part}"
    glob = complete.marker or complete.manifest
    return f"{missing:,} more files or rows" if glob is None else f"a file that matches `{glob}`"
