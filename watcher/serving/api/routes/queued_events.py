"""Queued events, which wait for the rest of a job's schedule: by asset, by job, and by both, as in Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from store.database.schema import in_utc
from store.errors import NotFound
from store.processes import audit
from store.runs.queue import queues
from store.runs.queue.queues import QueueFilter
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.parameters import AssetId
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Actor, Operator, Viewer
from watcher.serving.api.writes import new_write_id

router = APIRouter(prefix="/api/v2", tags=["Asset"])
Before = Annotated[str | None, Query()]


class QueuedEventResponse(Shape):
    """The events of one asset that wait for the rest of one job's schedule. `created_at` is that of the oldest one."""

    dag_id: str
    asset_id: int
    created_at: datetime
    dag_display_name: str


class QueuedEventCollectionResponse(Shape):
    queued_events: Sequence[QueuedEventResponse]
    total_entries: int


@router.get("/assets/{asset_id}/queuedEvents")
async def of_asset(
    context: Context, _: Viewer, asset_id: AssetId, before: Before = None
) -> QueuedEventCollectionResponse:
    """List the queued events of an asset, one entry for each job."""
    return await _listed(context, QueueFilter(asset_id=asset_id, before=_moment(before)))


@router.delete("/assets/{asset_id}/queuedEvents", status_code=204)
async def delete_of_asset(context: Context, actor: Operator, asset_id: AssetId, before: Before = None) -> None:
    """Delete the queued events of an asset."""
    await _remove(context, actor, QueueFilter(asset_id=asset_id, before=_moment(before)))


@router.get("/dags/{dag_id}/assets/queuedEvents")
async def of_job(context: Context, _: Viewer, dag_id: str, before: Before = None) -> QueuedEventCollectionResponse:
    """List the queued events of a job, one entry for each asset."""
    return await _listed(context, QueueFilter(dag_id=dag_id, before=_moment(before)))


@router.delete("/dags/{dag_id}/assets/queuedEvents", status_code=204)
async def delete_of_job(context: Context, actor: Operator, dag_id: str, before: Before = None) -> None:
    """Delete the queued events of a job."""
    await _remove(context, actor, QueueFilter(dag_id=dag_id, before=_moment(before)))


@router.get("/dags/{dag_id}/assets/{asset_id}/queuedEvents")
async def of_both(
    context: Context, _: Viewer, dag_id: str, asset_id: AssetId, before: Before = None
) -> QueuedEventResponse:
    """Return the queued events of a job that come from one asset."""
    which = QueueFilter(dag_id=dag_id, asset_id=asset_id, before=_moment(before))
    waiting = await _listed(context, which)
    if not waiting.queued_events:
        raise NotFound(f"the job {dag_id!r} has no queued events of the asset {asset_id}")
    return waiting.queued_events[0]


@router.delete("/dags/{dag_id}/assets/{asset_id}/queuedEvents", status_code=204)
async def delete_of_both(
    context: Context, actor: Operator, dag_id: str, asset_id: AssetId, before: Before = None
) -> None:
    """Delete the queued events of a job that come from one asset."""
    await _remove(context, actor, QueueFilter(dag_id=dag_id, asset_id=asset_id, before=_moment(before)))


def _moment(before: str | None) -> datetime | None:
    """Parse `before`. An invalid one is 400, as in Airflow, and so is one without a time zone."""
    if before is None:
        return None
    try:
        moment = datetime.fromisoformat(before)
        if moment.tzinfo is not None:
            return in_utc(moment)
    except ValueError:
        pass
    raise HTTPException(
        400, f"`before` is not an ISO timestamp with a time zone: {before!r}; write it like 2026-01-31T12:00:00Z"
    )


async def _listed(context: ApiContext, which: QueueFilter) -> QueuedEventCollectionResponse:
    async with context.database.reading() as connection:
        waiting = await queues.listed(connection, which)
    shown = [QueuedEventResponse.of(queued, dag_display_name=queued.dag_id) for queued in waiting]
    return QueuedEventCollectionResponse(queued_events=shown, total_entries=len(shown))


async def _remove(context: ApiContext, actor: Actor, which: QueueFilter) -> None:
    async with context.database.transaction() as connection:
        removed = await queues.remove(connection, which, actor=actor.name)
        if not removed:
            raise NotFound("no queued event matches; list the queued events to see which exist")
        target = which.dag_id if which.dag_id is not None else f"asset {which.asset_id}"
        detail = {"asset_id": which.asset_id, "events": removed}
        await audit.record(connection, actor.name, "queued_events.delete", target, detail, new_write_id())
