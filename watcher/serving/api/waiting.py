"""Explains in sentences why no run has started although events are queued, from the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models.values import format_duration
from store.database.paging import PageRequest
from store.keys import Condition, JobDefinition
from store.references import decode, is_awaited, references
from store.runs.jobs import JobRow
from store.runs.queue import waiting
from store.runs.queue.waiting import QueueOfAsset
from watcher.scheduling.planning.base import NO_PARTITIONS, Planners, WaitingPartitions
from watcher.scheduling.planning.conditions import Resolved, asks, is_met, where_text
from watcher.serving.api.shapes.dags import schedule_text

_NONE: Final[Resolved] = {}
ONLY_COUNTED: Final = PageRequest(limit=0)
"""The window of those who show no partition by itself."""


@dataclass(frozen=True, kw_only=True)
class WaitingJob:
    """A job, its queued events, and the reason why they start no run yet."""

    job: JobRow
    schedule: str | None
    queues: Sequence[QueueOfAsset]
    reason: str
    partitions: WaitingPartitions
    """The partitions that have queued events, if the job takes them by themselves."""
    resolved: Resolved = field(default_factory=dict)

    def is_awaited(self, queue: QueueOfAsset) -> bool:
        """Whether the schedule waits for these events. If not, an earlier one did."""
        return not queue.queued or is_awaited(self.job.definition.schedule, queue.keys, self.resolved)

    def filters(self, queue: QueueOfAsset) -> Sequence[str]:
        """What the schedule asks of these events, as far as they satisfy it."""
        asked = references(self.job.definition.schedule)
        return [where_text(each.where) for each in asked if each.where and each.where_id in decode(queue.satisfies)]

    @property
    def oldest(self) -> datetime | None:
        return min((queue.oldest for queue in self.queues if queue.oldest is not None), default=None)


async def waiting_jobs(
    connection: AsyncConnection, jobs: Sequence[JobRow], planners: Planners, window: PageRequest = ONLY_COUNTED
) -> Sequence[WaitingJob]:
    """Return the explanation for each job, with three statements for all of them, and those of planners.

    Of each job's partitions those of the window are described, and the others are counted.
    """
    names = [job.dag_id for job in jobs]
    queues = await waiting.queues_of(connection, names)
    resolved = await waiting.resolved(connection, names)
    active = await waiting.active_runs(connection, names)
    partitions = await planners.waiting(connection, {job.dag_id: job.definition for job in jobs}, window)
    return [
        _waiting_job(
            job,
            queues,
            resolved.get(job.dag_id, _NONE),
            active.get(job.dag_id, 0),
            partitions.get(job.dag_id, NO_PARTITIONS),
        )
        for job in jobs
    ]


def _waiting_job(
    job: JobRow,
    queues: Sequence[QueueOfAsset],
    resolved: Resolved,
    active: int,
    partitions: WaitingPartitions,
) -> WaitingJob:
    own = [queue for queue in queues if queue.dag_id == job.dag_id]
    queued = {key for queue in own for key in queue.keys}
    return WaitingJob(
        job=job,
        schedule=schedule_text(job.definition.schedule),
        queues=own,
        reason=reason(job, queued, resolved, active, partitions),
        partitions=partitions,
        resolved=resolved,
    )


def reason(
    job: JobRow,
    queued: AbstractSet[str],
    resolved: Resolved,
    active: int,
    partitions: WaitingPartitions = NO_PARTITIONS,
) -> str:
    """Return the reason as one sentence. `queued` are the keys of the references that queued events satisfy."""
    definition = job.definition
    if not queued:
        return "nothing is queued"
    if not definition.has_schedule:
        return (
            "the job has no schedule, so nothing starts a run of what is queued; give it one, or run or drop the events"
        )
    if definition.batch.is_plain:
        lacks = "" if definition.batch.mode == "each" else _lacks(definition, queued, resolved, active)
        soon = "" if lacks else _soon(definition)
    else:
        lacks, soon = _of_partitions(definition, partitions)
    if not job.paused:
        return "; ".join(filter(None, (lacks, soon)))
    besides = "" if not lacks else f"; besides, it {lacks}" if definition.batch.is_plain else f"; besides, {lacks}"
    return f"the job is paused; resume it{besides}"


def _of_partitions(definition: JobDefinition, partitions: WaitingPartitions) -> tuple[str, str]:
    """Return what the partitions wait for, by number, and what happens to the others soon; '' for nothing."""
    collects = definition.schedule is None or definition.batch.debounce
    soon = ("collects events", "collect events") if collects else ("is about to have a run", "are about to have runs")
    waits = (
        _number(partitions.lacking, "waits for the rest of its condition", "wait for the rest of their conditions"),
        _number(partitions.busy, "waits until its run ends", "wait until their runs end"),
    )
    return "; ".join(filter(None, waits)), _number(partitions.due, *soon)


def _number(partitions: int, one: str, many: str) -> str:
    if not partitions:
        return ""
    return f"{partitions:,} partitions {many}" if partitions > 1 else f"1 partition {one}"


def _lacks(definition: JobDefinition, queued: AbstractSet[str], resolved: Resolved, active: int) -> str:
    """Return what one run of all queued events waits for; '' for nothing."""
    if definition.schedule is None:
        return "waits for the next tick"
    if not is_met(definition.schedule, queued, resolved):
        return f"waits for {missing(definition.schedule, queued, resolved)}"
    if definition.joint:
        return "waits for the next tick"
    if active >= definition.max_active_runs:
        return f"waits until a run ends: {active} of at most {definition.max_active_runs} are active"
    return ""


def _soon(definition: JobDefinition) -> str:
    if definition.batch.mode == "each" or not definition.batch.debounce:
        return "a run is about to start"
    pause, longest = format_duration(definition.batch.debounce), format_duration(definition.batch.max_wait)
    return f"a run starts after {pause} without another event, at the latest after {longest}"


def missing(condition: Condition, queued: AbstractSet[str], resolved: Resolved) -> str:
    """Return what is missing until the condition is met, such as `a and (b or c)`."""
    match condition:
        case {"all": parts}:
            unmet = [part for part in parts if not is_met(part, queued, resolved)]
            return " and ".join(_nested(part, queued, resolved, several=len(unmet) > 1) for part in unmet)
        case {"any": parts}:
            return " or ".join(_nested(part, queued, resolved, several=len(parts) > 1) for part in parts)
        case {"alias": str(name)}:
            return f"the alias {name}{asks(condition)}" + (
                "" if resolved.get(name) else ", which stands for no asset yet"
            )
        case {"asset": str(name)}:
            return f"{name}{asks(condition)}"
        case _:
            return str(condition)


def _nested(condition: Condition, queued: AbstractSet[str], resolved: Resolved, *, several: bool) -> str:
    text = missing(condition, queued, resolved)
    return (
        f"({text})"
        if several and isinstance(condition, Mapping) and not condition.keys() & {"alias", "asset"}
        else text
    )
