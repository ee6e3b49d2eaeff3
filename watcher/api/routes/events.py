"""`/api/v2/assets/events`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from store.database.paging import Window
from store.detection import events as stored
from store.detection.events import EVENT_ORDERS, EventFilter
from store.runs import runs
from watcher.api import events
from watcher.api.auth import Operator, Viewer
from watcher.api.context import Context
from watcher.api.parameters import BIGGEST, Body, Moment, Pattern, ordered_window
from watcher.api.shapes.events import AssetEventCollectionResponse, AssetEventResponse, event_response

router = APIRouter(prefix="/assets/events", tags=["Asset event"])


class CreateAssetEventsBody(Body):
    """Partitions and teams do not exist here: only null is accepted."""

    asset_id: int
    extra: dict[str, Any] = Field(default_factory=dict)
    partition_key: None = None
    access_control: None = None


@router.get("")
async def list_events(
    context: Context,
    _: Viewer,
    window: Annotated[Window, Depends(ordered_window([name for name in EVENT_ORDERS if name != "id"], "timestamp"))],
    asset_id: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None,
    source_dag_id: str | None = None,
    source_task_id: str | None = None,
    source_run_id: str | None = None,
    source_map_index: Annotated[int | None, Query(ge=-(2**31), lt=2**31)] = None,
    source_watcher: str | None = None,
    name_pattern: Pattern = None,
    name_prefix_pattern: Pattern = None,
    timestamp_gte: Moment | None = None,
    timestamp_gt: Moment | None = None,
    timestamp_lte: Moment | None = None,
    timestamp_lt: Moment | None = None,
) -> AssetEventCollectionResponse:
    which = EventFilter(
        asset_id=asset_id,
        source_dag_id=source_dag_id,
        source_task_id=source_task_id,
        source_run_id=source_run_id,
        source_map_index=source_map_index,
        source_watcher=source_watcher,
        name_pattern=name_pattern,
        name_prefix=name_prefix_pattern,
        not_before=timestamp_gte,
        after=timestamp_gt,
        not_after=timestamp_lte,
        before=timestamp_lt,
    )
    async with context.database.reading() as connection:
        events_page = await stored.listed(connection, which, window)
        consumers = await runs.runs_of_events(connection, [event.id for event in events_page.rows])
    shown = [event_response(event, consumers) for event in events_page.rows]
    return AssetEventCollectionResponse(asset_events=shown, total_entries=events_page.total)


@router.post("")
async def create_event(context: Context, actor: Operator, body: CreateAssetEventsBody) -> AssetEventResponse:
    extra = body.extra if "extra" in body.model_fields_set else None
    return event_response(await events.create(context, actor, body.asset_id, extra), [])
