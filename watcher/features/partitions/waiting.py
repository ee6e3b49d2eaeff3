"""What the partitions of jobs with `batch: per_partition` hold and lack, for people who ask why nothing runs. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.fates import Move
from store.features.partitions import groups as partition_groups
from store.keys import Batching, JobDefinition
from store.runs.queue import waiting
from watcher.features.partitions.completeness import complete_references, missing_values
from watcher.features.partitions.groups import GroupsOfNow, PartitionGroup, grouped
from watcher.features.partitions.item_counts import ItemCount, ItemCounts
from watcher.scheduling.planning.base import WaitingPartition
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
)
"""The life of a partition at a job with `complete`: its first run, and those of what comes later."""


async def waiting_partitions(
    connection: AsyncConnection, jobs: Mapping[str, JobDefinition]
) -> Mapping[str, Sequence[WaitingPartition]]:
    """Return the partitions that are queued for these jobs, by job, the one with the oldest event first."""
    queued = await partition_groups.queued_keys(connection, jobs)
    resolved = await waiting.resolved(connection, jobs)
    unfinished = await partition_groups.unfinished(connection, jobs)
    listed: dict[str, Sequence[WaitingPartition]] = {}
    for dag_id, definition in jobs.items():
        groups = grouped(queued.get(dag_id, []), definition.batch)
        waits = Waits(condition=definition.schedule, aliases=resolved.get(dag_id, {}))
        known = await groups_of_now(connection, dag_id, definition.batch, groups, waits, ItemCounts())
        listed[dag_id] = [
            WaitingPartition(
                partition_key=group.key,
                events=group.events,
                oldest=min(row.oldest for row in group.rows),
                lacks=_lacks(group, known, waits, definition.batch),
                has_run=group.key in unfinished[dag_id],
            )
            for group in groups
        ]
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
    if batching.complete is not None:
        closed = await partition_groups.closed(connection, dag_id, {group.key for group in groups})
    if batching.complete is not None and batching.complete.needed_items:
        open_ = [each for each in groups if each.key not in closed]
        counted = await counts.of(connection, dag_id, open_, waits, batching.complete)
    return GroupsOfNow(
        groups=groups,
        closed=closed,
        items={key: count.number for key, count in counted.items()},
        lacking={key: count.lacks for key, count in counted.items() if count.lacks},
    )


def _lacks(group: PartitionGroup, known: GroupsOfNow, waits: Waits, batching: Batching) -> str:
    """Return what a group lacks; '' for one whose condition is met, or that has had its complete run."""
    complete = batching.complete
    if waits.condition is None or group.key in known.closed:
        return ""
    come = complete_references(group.rows, complete).keys()
    if not is_met(waits.condition, come, waits.aliases):
        return lacking(waits.condition, come, waits.aliases, lambda key: missing_values(key, group.rows, complete))
    missing = (0 if complete is None else complete.needed_items) - known.items.get(group.key, 0)
    if complete is None or missing <= 0:
        return ""
    if (lacks := known.lacking.get(group.key)) is not None:
        return lacks
    glob = complete.marker or complete.manifest
    return f"{missing:,} more files or rows" if glob is None else f"a file that matches `{glob}`"
