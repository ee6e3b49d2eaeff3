"""`/api/v2/assets/events`: people and tools list and post asset events."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from store.database.asset_events import NewEvent
from store.database.paging import PageRequest
from store.detection import event_lists
from store.detection.event_lists import EVENT_ORDERS, EventFilter, StoredEvent
from store.detection.events import AppendedEvents
from store.errors import no_asset
from store.runs import consumption
from store.values import to_json
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_MISS
from watcher.serving.api.parameters import (
    BIGGEST,
    Body,
    EventId,
    Moment,
    PartitionKey,
    Pattern,
    TraceId,
    example,
    ordered_window,
)
from watcher.serving.api.shapes.assets import AssetEventCollectionResponse, AssetEventResponse, event_response
from watcher.serving.api.sign_in.auth import Actor, Operator, Viewer

router = APIRouter(prefix="/api/v2/assets/events", tags=["Asset event"])


class CreateAssetEventsBody(Body):
    """A new event. Teams do not exist here, so only null is accepted for `access_control`."""

    model_config = example(asset_id=1, extra={"rows": 42})

    asset_id: int
    extra: dict[str, Any] = Field(default_factory=dict)
    partition_key: PartitionKey | None = None
    access_control: None = None


@router.get("")
async def list_events(
    context: Context,
    _: Viewer,
    window: Annotated[
        PageRequest, Depends(ordered_window([name for name in EVENT_ORDERS if name != "id"], "timestamp"))
    ],
    asset_id: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None,
    source_dag_id: str | None = None,
    source_task_id: str | None = None,
    source_run_id: str | None = None,
    source_map_index: Annotated[int | None, Query(ge=-(2**31), lt=2**31)] = None,
    source_watcher: str | None = None,
    trace_id: TraceId = None,
    name_pattern: Pattern = None,
    name_prefix_pattern: Pattern = None,
    timestamp_gte: Moment | None = None,
    timestamp_gt: Moment | None = None,
    timestamp_lte: Moment | None = None,
    timestamp_lt: Moment | None = None,
) -> AssetEventCollectionResponse:
    """List asset events."""
    which = EventFilter(
        asset_id=asset_id,
        source_dag_id=source_dag_id,
        source_task_id=source_task_id,
        source_run_id=source_run_id,
        source_map_index=source_map_index,
        source_watcher=source_watcher,
        trace_id=trace_id,
        name_pattern=name_pattern,
        name_prefix=name_prefix_pattern,
        not_before=timestamp_gte,
        after=timestamp_gt,
        not_after=timestamp_lte,
        before=timestamp_lt,
    )
    async with context.database.reading() as connection:
        events_page = await event_lists.listed(connection, which, window)
        consumers = await consumption.runs_of_events(connection, [event.id for event in events_page.rows])
    shown = [event_response(event, consumers) for event in events_page.rows]
    return AssetEventCollectionResponse(asset_events=shown, total_entries=events_page.total)


@router.get("/{event_id}")
async def get_event(context: Context, _: Viewer, event_id: EventId) -> AssetEventResponse:
    """Return an asset event with everything in it, in the shape of the list's events."""
    async with context.database.reading() as connection:
        event = await event_lists.get(connection, event_id)
        consumers = await consumption.runs_of_events(connection, [event.id])
    return event_response(event, consumers)


@router.post("", responses=MAY_MISS)
async def create_event(context: Context, actor: Operator, body: CreateAssetEventsBody) -> AssetEventResponse:
    """Create an event of an active asset."""
    return event_response(await _create(context, actor, body), [])


async def _create(context: ApiContext, actor: Actor, body: CreateAssetEventsBody) -> StoredEvent:
    """Store an event of an active asset with its queue rows. Raises `NotFound`, `InvalidValue`.

    As in Airflow, the server marks an event that came through the API, but only if the client gave an `extra`.
    """
    extra = to_json({**body.extra, "from_rest_api": True} if "extra" in body.model_fields_set else {})
    if not 0 <= body.asset_id <= BIGGEST:
        raise no_asset(body.asset_id)
    new = NewEvent(
        asset_id=body.asset_id,
        extra=extra,
        trace_id=uuid.uuid4().hex,
        source_actor=actor.name,
        partition_key=body.partition_key,
    )
    return await context.event_posts.store(context.database, context.hooks, partial(_wake, context), new)


def _wake(context: ApiContext, appended: AppendedEvents) -> None:
    if appended.dag_ids:
        context.hint(Hint(what="queues", names=appended.dag_ids))
    for wake in appended.wakes:
        context.hint(Hint(what=wake))
