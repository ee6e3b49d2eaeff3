"""`/api/v2/dags/{dag_id}/queue`: what a job's queue holds and waits for, and what people decide about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter
from pydantic import Field, model_validator

from store.errors import Conflict
from store.fates import Fate
from store.keys import LONGEST_PARTITION_KEY
from store.processes import audit
from store.runs import jobs
from store.runs.queue import kept_events
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import check_count
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import Body, Count, UnorderedWindow, example
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Actor, Operator, Viewer
from watcher.serving.api.waiting import waiting_jobs
from watcher.serving.api.writes import new_write_id

router = APIRouter(prefix="/api/v2/dags", tags=["DAG"])


class QueuedAssetResponse(Shape):
    """What a job's queue holds of an asset. More than 1,000 events are counted as 1,001.

    Events that satisfy different references are apart: `where` has what the schedule asks of these. `is_scheduled` false: an
    earlier schedule waited for them, and the present one does not.
    """

    asset_id: int
    asset: str
    queued: int
    oldest: datetime | None
    is_scheduled: bool
    where: Sequence[str]


class WaitingPartitionResponse(Shape):
    """A partition with queued events. `lacks` names what it waits for; null: nothing but its turn."""

    partition_key: str | None
    events: int
    oldest: datetime
    lacks: str | None


class PartitionCounts(Shape):
    """How many partitions lack something, wait until a run of theirs ends, and wait for nothing but their turn."""

    lacking: int
    busy: int
    due: int


class JobQueueResponse(Shape):
    """A job's queue. `reason` says what it waits for; `kept` counts the queued events that its schedule does not wait for.

    `cleaned` counts the files of queued events that `clean_source` has deleted, which its runs go without.

    `partitions` has what is queued by partition, the oldest first, if the job takes each partition by itself: those of the page
    that `limit` and `offset` ask for. `total_entries` is how many there are, and `partition_counts` what they wait for.
    """

    dag_id: str
    schedule: str | None
    reason: str
    oldest: datetime | None
    kept: int
    cleaned: int
    assets: Sequence[QueuedAssetResponse]
    partitions: Sequence[WaitingPartitionResponse]
    partition_counts: PartitionCounts
    total_entries: int


class QueueDecisionBody(Body):
    """What becomes of the queued events that the job's schedule does not wait for. Another number than `expected_count` is 409.

    With `partition`, `run` makes one run of what is queued of that partition, as it is; the empty text means the events
    without a key.
    """

    model_config = example(action="run", expected_count=3)

    action: Literal["run", "drop"]
    expected_count: Count | None = None
    partition: Annotated[str, Field(max_length=LONGEST_PARTITION_KEY)] | None = None

    @model_validator(mode="after")
    def _runs_a_partition(self) -> Self:
        if self.partition is not None and (self.action, self.expected_count) != ("run", None):
            raise ValueError("a partition is run as it is: give `action` run and no `expected_count`")
        return self


class QueueDecisionResponse(Shape):
    """How many events were made into runs, or taken off the queue."""

    dag_id: str
    action: str
    events: int


@router.get("/{dag_id}/queue")
async def get_queue(context: Context, _: Viewer, dag_id: str, window: UnorderedWindow) -> JobQueueResponse:
    """Return what the queue of a job holds and what it waits for, and a page of its partitions."""
    async with context.database.reading() as connection:
        (waiting,) = await waiting_jobs(connection, [await jobs.get(connection, dag_id)], context.planners, window)
        kept = await kept_events.count(connection, dag_id)
        changed = await context.item_hooks.count(connection, kept_events.all_of_job(dag_id))
    return JobQueueResponse(
        dag_id=dag_id,
        schedule=waiting.schedule,
        reason=waiting.reason,
        oldest=waiting.oldest,
        kept=kept,
        cleaned=changed.get(Fate.CLEANED, 0),
        assets=[
            QueuedAssetResponse.of(queue, is_scheduled=waiting.is_awaited(queue), where=waiting.filters(queue))
            for queue in waiting.queues
        ],
        partitions=[
            WaitingPartitionResponse.of(each, lacks=each.waits_for or None) for each in waiting.partitions.shown
        ],
        partition_counts=PartitionCounts.of(waiting.partitions),
        total_entries=waiting.partitions.total,
    )


@router.post("/{dag_id}/queue", responses=MAY_CONFLICT)
async def decide_on_queue(
    context: Context, actor: Operator, dag_id: str, body: QueueDecisionBody
) -> QueueDecisionResponse:
    """Run or drop the queued events that the job's schedule does not wait for, as after a change of the schedule.

    Events that the schedule waits for are left alone. 409 means that there are none, another count than `expected_count`,
    or a replay that goes on.
    """
    return await decide(context, actor, dag_id, body)


async def decide(context: ApiContext, actor: Actor, dag_id: str, body: QueueDecisionBody) -> QueueDecisionResponse:
    """Run or drop the kept events of a job's queue, or run a partition. Raises `NotFound`, `Conflict`."""
    if body.partition is not None:
        return await _run_partition(context, actor, dag_id, body.partition)
    async with context.database.transaction() as connection:
        queue = await kept_events.lock(connection, dag_id)
        if not queue.events:
            raise Conflict(
                f"the schedule of {dag_id} waits for everything in its queue, so there is nothing to {body.action}"
            )
        check_count(queue.events, body.expected_count, "events")
        if body.action == "drop":
            done = await kept_events.take_off(connection, dag_id, actor=actor.name)
        else:
            done = await context.planners.run_kept(connection, queue, to=queue.newest)
        detail = {"events": queue.events}
        await audit.record(connection, actor.name, f"job.queue.{body.action}", dag_id, detail, new_write_id())
    while done < queue.events:  # the number and newest event are those of the count, whatever has come since
        async with context.database.transaction() as connection:
            locked = await kept_events.lock(connection, dag_id)
            more = await context.planners.run_kept(connection, locked, to=queue.newest)
        if not more:
            break
        done += more
    context.hint(Hint(what="tries"))
    return QueueDecisionResponse(dag_id=dag_id, action=body.action, events=done)


async def _run_partition(context: ApiContext, actor: Actor, dag_id: str, partition: str) -> QueueDecisionResponse:
    async with context.database.transaction() as connection:
        queue = await kept_events.lock(connection, dag_id)
        events = await context.planners.run_partition(connection, queue, partition or None)
        if not events:
            raise Conflict(
                f"nothing is queued for {dag_id} of the partition {partition!r}, or it does not take each partition by itself"
            )
        detail = {"partition": partition, "events": events}
        await audit.record(connection, actor.name, "job.queue.run", dag_id, detail, new_write_id())
    context.hint(Hint(what="tries"))
    return QueueDecisionResponse(dag_id=dag_id, action="run", events=events)
