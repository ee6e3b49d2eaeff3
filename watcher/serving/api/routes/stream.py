"""`/api/v2/events/stream`: changes as server-sent events, whose data have the shapes of the REST API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, HTTPException, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watchers as watcher_rows
from store.runs import consumption
from store.runs.actions.changes import ChangeSet
from store.state.history import HistoryEntry
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.parameters import BIGGEST, Text
from watcher.serving.api.routes.watchers import shown as shown_watchers
from watcher.serving.api.shapes.assets import AssetEventResponse, event_response
from watcher.serving.api.shapes.dag_runs import run_response
from watcher.serving.api.shapes.entries import store_change
from watcher.serving.api.shapes.task_instances import task_instance_response
from watcher.serving.api.sign_in.auth import Listener, Viewer
from watcher.serving.api.streams.live import TYPES, Change, ChangeFilter, ChangeType
from watcher.serving.api.streams.open_streams import COMMENT

router = APIRouter(prefix="/api/v2", tags=["Stream"])
_EVENT: Final = TypeAdapter(AssetEventResponse)
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": (
            "Server-Sent Events. `event` is asset_event, run, try, watcher or store, `data` is the resource in its REST shape, and"
            " `id` is a cursor for `Last-Event-ID`. The event `reset` means that the cursor has expired. A comment is sent every 15 s."
        ),
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/events/stream", responses=_STREAM, response_class=StreamingResponse)
async def stream(
    context: Context,
    _: Viewer,
    may_listen: Listener,
    types: Annotated[Text | None, Query(max_length=1000, description="Types of changes, separated by commas.")] = None,
    asset_id: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None,
    dag_id: Annotated[Text | None, Query(max_length=250)] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamingResponse:
    """Send changes from now on: all of them, or those of one asset or job."""
    selection = ChangeFilter(types=_types(types), asset_id=asset_id, dag_id=dag_id)
    context.live.streams.check()

    async def shown(connection: AsyncConnection, changed: ChangeSet) -> list[Change]:
        return await _shown(context, connection, changed)

    changes = context.live.changes.follow(context.database, shown, selection, last_event_id, context.live.stopping)
    begun = await anext(changes, "")  # so that every change after the answer's head is sent
    return StreamingResponse(
        context.live.streams.commented(_all(COMMENT + begun, changes), may_listen),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


def _types(text: str | None) -> Sequence[ChangeType]:
    names = TYPES if text is None else text.split(",")
    if unknown := [name for name in names if name not in TYPES]:
        raise HTTPException(422, f"there is no type {unknown[0]!r}; use one of {', '.join(TYPES)}")
    return [name for name in TYPES if name in names]


async def _all(first: str, others: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for text in others:
        yield text


async def _shown(context: ApiContext, connection: AsyncConnection, changed: ChangeSet) -> list[Change]:
    consuming = (
        await consumption.runs_of_events(connection, [event.id for event in changed.events]) if changed.events else []
    )
    changes = [
        Change(
            type="asset_event",
            data=_EVENT.dump_json(event_response(event, consuming)).decode(),
            asset_id=event.asset_id,
            dag_id=event.source_dag_id,
        )
        for event in changed.events
    ]
    changes += [Change(type="run", data=_json(run_response(run)), dag_id=run.dag_id) for run in changed.runs]
    changes += [
        Change(type="try", data=_json(task_instance_response(task)), dag_id=task.dag_id) for task in changed.tries
    ]
    changes += await _watchers(context, connection, changed.watchers)
    return changes + [_write(context, row) for row in changed.writes]


async def _watchers(context: ApiContext, connection: AsyncConnection, names: Sequence[str]) -> list[Change]:
    if not names:
        return []
    rows = {row.name: row for row in await watcher_rows.listed(connection)}
    known = [rows[name] for name in names if name in rows]
    shapes = zip(known, await shown_watchers(context, known), strict=True)
    return [Change(type="watcher", data=_json(shape), asset_id=row.asset_id) for row, shape in shapes]


def _write(context: ApiContext, row: HistoryEntry) -> Change:
    dag_id = None if row.writer is None else row.writer.dag_id
    data = _json(store_change(row, context.links.base_url))
    return Change(type="store", data=data, asset_id=row.asset_id, dag_id=dag_id)


def _json(shape: BaseModel) -> str:
    """Return the JSON on one line, as server-sent events require."""
    return shape.model_dump_json()
