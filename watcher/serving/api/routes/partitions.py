"""What is queued for a job by partition, and what each partition lacks. Airflow has no such route."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fastapi import APIRouter

from store.runs import jobs
from watcher.scheduling.waiting_partitions import waiting_partitions
from watcher.serving.api.context import Context
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Viewer

router = APIRouter(prefix="/api/v2", tags=["DAG"])


class WaitingPartitionResponse(Shape):
    """A partition with queued events. `lacks` names what it waits for; null: nothing but its turn."""

    partition_key: str | None
    events: int
    oldest: datetime
    lacks: str | None


class WaitingPartitionCollectionResponse(Shape):
    partitions: Sequence[WaitingPartitionResponse]
    total_entries: int


@router.get("/dags/{dag_id}/partitions")
async def waiting_of_job(context: Context, _: Viewer, dag_id: str) -> WaitingPartitionCollectionResponse:
    """List what is queued for a job with `batch: per_partition`, the partition with the oldest event first."""
    async with context.database.reading() as connection:
        definition = (await jobs.get(connection, dag_id)).definition
        waiting = await waiting_partitions(connection, {dag_id: definition})
    shown = [
        WaitingPartitionResponse(
            partition_key=each.partition_key, events=each.events, oldest=each.oldest, lacks=each.lacks or None
        )
        for each in waiting.get(dag_id, [])
    ]
    return WaitingPartitionCollectionResponse(partitions=shown, total_entries=len(shown))
