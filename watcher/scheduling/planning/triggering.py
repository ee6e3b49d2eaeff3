"""Runs made of queued events: how the scheduler stores those that it planned, and those that a person asks for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases
from store.runs import runs
from store.runs.queue import kept_events, queues
from store.runs.queue.kept_events import KeptQueue
from store.runs.queue.queues import JobQueue, Rest
from store.runs.runs import TriggeredRun
from watcher.scheduling.planning.conditions import names_alias
from watcher.scheduling.planning.plans import PlannedRun, RunPlan, Waits, most_at_once, runs_of, with_keys


class LockedQueue(Protocol):
    """The queue of a job, read under the job's lock; `now` is the database's clock."""

    @property
    def dag_id(self) -> str: ...
    @property
    def task_id(self) -> str: ...
    @property
    def now(self) -> datetime: ...


def triggered(queue: LockedQueue, number: int, planned: PlannedRun) -> TriggeredRun:
    """Return the run to store: the one with this number of those that are made of the queue now."""
    stamp = queue.now.astimezone(UTC).isoformat(timespec="microseconds")
    return TriggeredRun(
        dag_id=queue.dag_id,
        task_id=queue.task_id,
        run_id=f"asset_triggered__{stamp}_{number}" if planned.tick is None else run_id_of_tick(planned.tick),
        event_ids=planned.event_ids,
        completed_by=planned.completed_by,
        tick=planned.tick,
        partition_key=planned.partition_key,
        of_feature=planned.of_feature,
    )


def run_id_of_tick(tick: datetime) -> str:
    return f"scheduled__{tick.astimezone(UTC).isoformat()}"


async def run_kept(connection: AsyncConnection, queue: KeptQueue, *, to: int) -> int:
    """Make runs of the first kept events up to the event `to`, as many as fit a transaction; return how many events they take."""
    batching = queue.definition.batch
    events = await kept_events.oldest(connection, queue.dag_id, limit=most_at_once(batching), to=to)
    keys = {event.event_id: event.key for event in events}
    await store(connection, queue, with_keys(runs_of(list(keys), None, batching), keys))
    return len(events)


async def store(connection: AsyncConnection, queue: LockedQueue, planned: Sequence[PlannedRun]) -> None:
    """Make these runs of a locked queue, as a person asks for them."""
    await runs.create_triggered_runs(connection, [triggered(queue, *each) for each in enumerate(planned)])


async def waits_of(connection: AsyncConnection, queue: JobQueue) -> Waits:
    """Return what a job waits for, with what its aliases have resolved to."""
    definition = queue.definition
    resolved = await aliases.resolved_names(connection, queue.dag_id) if names_alias(definition.schedule) else {}
    takes_each = definition.batch.mode == "each" and definition.has_schedule
    return Waits(condition=definition.schedule, aliases=resolved, takes_each=takes_each)


async def take(
    connection: AsyncConnection, queue: JobQueue, completed_by: int | None, to: int | None = None
) -> RunPlan:
    """Take runs from the queue, up to the event `to`, as many as fit a transaction. A rest is recorded: it survives a crash."""
    batching = queue.definition.batch
    limit = most_at_once(batching)
    keys = await queues.oldest(connection, queue.dag_id, limit + 1, to)
    rest = None
    if len(keys) > limit:
        rest = Rest(to=to or await queues.newest(connection, queue.dag_id), completed_by=completed_by)
    if rest != queue.rest:
        await queues.set_rest(connection, queue.dag_id, rest)
    planned = runs_of(list(keys)[:limit], completed_by, batching)
    return RunPlan(runs=with_keys(planned, keys), has_rest=rest is not None)
