"""What the partitions of jobs with `batch: per_partition` hold and lack, for people who ask why nothing runs. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from store.keys import Condition, JobDefinition
from store.runs import partition_groups, waiting
from watcher.scheduling.conditions import Resolved, asks, is_met
from watcher.scheduling.partitions import PartitionGroup, grouped


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
    return {
        dag_id: [
            _waiting(group, definition, resolved.get(dag_id, {}), unfinished[dag_id])
            for group in grouped(queued[dag_id], definition.batch)
        ]
        for dag_id, definition in partitioned.items()
        if dag_id in queued
    }


def _waiting(
    group: PartitionGroup, definition: JobDefinition, resolved: Resolved, unfinished: Collection[str | None]
) -> WaitingPartition:
    condition, queued = definition.schedule, group.first_events.keys()
    return WaitingPartition(
        partition_key=group.key,
        events=group.events,
        oldest=min(row.oldest for row in group.rows),
        lacks="" if condition is None or is_met(condition, queued, resolved) else lacking(condition, queued, resolved),
        has_run=group.key in unfinished,
    )


def lacking(condition: Condition, queued: AbstractSet[str], resolved: Resolved) -> str:
    """Name the missing parts of a condition that is not met."""
    match condition:
        case str():
            return f"`{condition}`"
        case {"alias": str(name)}:
            return f"the alias `{name}`{asks(condition)}"
        case {"asset": str(name)}:
            return f"`{name}`{asks(condition)}"
        case {"any": parts}:
            return " or ".join(lacking(part, queued, resolved) for part in parts)
        case {"all": parts}:
            missing = [part for part in parts if not is_met(part, queued, resolved)]
            return " and ".join(lacking(part, queued, resolved) for part in missing)
    raise ValueError(f"not a condition: {condition!r}")
