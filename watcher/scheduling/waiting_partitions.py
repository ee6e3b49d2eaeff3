"""What the partitions of jobs with `batch: per_partition` hold and lack, for people who ask why nothing runs. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from store.keys import Batching, Condition, JobDefinition
from store.references import key, where_id
from store.runs import partition_groups, waiting
from watcher.scheduling.completeness import complete_references, missing_values
from watcher.scheduling.conditions import Resolved, asks, is_met
from watcher.scheduling.item_counts import ItemCounts
from watcher.scheduling.partition_planner import groups_of_now
from watcher.scheduling.partitions import GroupsOfNow, PartitionGroup, grouped
from watcher.scheduling.planning import Waits


@dataclass(frozen=True, kw_only=True)
class WaitingPartition:
    """A partition of which events are queued. `lacks` names what its condition needs beside them; '' if it is met."""

    partition_key: str | None
    events: int
    oldest: datetime
    lacks: str
    has_run: bool
    """Whether it waits for the end of an unfinished run with this key."""


async def waiting_partitions(
    connection: AsyncConnection, jobs: Mapping[str, JobDefinition]
) -> Mapping[str, Sequence[WaitingPartition]]:
    """Return the partitions that are queued for these jobs, by job, the one with the oldest event first."""
    partitioned = {dag_id: definition for dag_id, definition in jobs.items() if definition.batch.is_partitioned}
    if not partitioned:
        return {}
    queued = await partition_groups.queued_keys(connection, partitioned)
    resolved = await waiting.resolved(connection, partitioned)
    unfinished = await partition_groups.unfinished(connection, partitioned)
    listed: dict[str, Sequence[WaitingPartition]] = {}
    for dag_id, definition in partitioned.items():
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


def lacking(
    condition: Condition, queued: AbstractSet[str], resolved: Resolved, details: Callable[[str], str] = lambda _: ""
) -> str:
    """Name the missing parts of a condition that is not met, each with `details` by the key of the reference."""
    match condition:
        case str():
            return f"`{condition}`{details(condition)}"
        case {"alias": str(name)}:
            return f"the alias `{name}`{asks(condition)}"
        case {"asset": str(name)}:
            return f"`{name}`{asks(condition)}{details(key(name, where_id(condition.get('where'))))}"
        case {"any": parts}:
            return " or ".join(lacking(part, queued, resolved, details) for part in parts)
        case {"all": parts}:
            missing = [part for part in parts if not is_met(part, queued, resolved)]
            return " and ".join(lacking(part, queued, resolved, details) for part in missing)
    raise ValueError(f"not a condition: {condition!r}")
