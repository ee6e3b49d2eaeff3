"""`/execution/assets` and `/execution/asset-events`: what a job may know of its assets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.database.paging import Window
from store.detection import events
from store.detection.events import EventFilter
from store.errors import NotFound
from store.runs import runs
from watcher.api.context import ApiContext, Context
from watcher.api.execution.identity import EVENTS, AssetName, Identity, forbidden, reachable, reading
from watcher.api.parameters import BIGGEST, Moment
from watcher.api.shapes.base import Shape
from watcher.api.shapes.events import ExecutionAsset, ExecutionEvent, execution_asset, execution_event
from watcher.try_tokens import TryIdentity

router = APIRouter(tags=["Execution: assets"])


class AssetEvents(Shape):
    asset_events: Sequence[ExecutionEvent]


@router.get("/assets/by-name")
async def asset_by_name(context: Context, identity: Identity, name: str) -> ExecutionAsset:
    return await _asset(context, identity, AssetName(name=name))


@router.get("/assets/by-uri")
async def asset_by_uri(context: Context, identity: Identity, uri: str) -> ExecutionAsset:
    return await _asset(context, identity, AssetName(uri=uri))


@router.get("/assets/by-alias")
async def assets_by_alias(context: Context, identity: Identity, alias_name: str) -> Sequence[ExecutionAsset]:
    """What the alias has resolved to so far."""
    async with reading(context, identity) as (connection, task):
        alias_id = await _alias(connection, task["dag_id"], alias_name)
        ids = await aliases.assets_of(connection, [alias_id])
        return [execution_asset(await assets.asset_by(connection, asset_id=asset_id)) for asset_id in ids]


async def _alias(connection: AsyncConnection, dag_id: str, name: str) -> int:
    declared = await aliases.of_job(connection, dag_id, EVENTS)
    if name not in declared:
        raise forbidden(f"the job {dag_id} does not declare the alias {name!r}; add it to its inlets")
    return declared[name]


async def _asset(context: ApiContext, identity: TryIdentity, wanted: AssetName) -> ExecutionAsset:
    async with reading(context, identity) as (connection, task):
        return execution_asset(await reachable(connection, task["dag_id"], wanted, EVENTS))


@router.get("/asset-events/by-asset")
async def events_by_asset(
    context: Context,
    identity: Identity,
    name: str,
    uri: str,
    after: Moment | None = None,
    before: Moment | None = None,
    ascending: bool = True,
    limit: Annotated[int, Query(ge=0, le=BIGGEST)] = BIGGEST,
) -> AssetEvents:
    """Both parameters must be there, and one of them may be empty, as in Airflow; `after` and `before` are inclusive."""
    if not name and not uri:
        raise HTTPException(400, {"reason": "Missing parameter", "message": "give the asset's name, its uri, or both"})
    async with reading(context, identity) as (connection, task):
        try:
            asset = await reachable(connection, task["dag_id"], AssetName(name=name or None, uri=uri or None), EVENTS)
        except NotFound:
            return AssetEvents(asset_events=[])
        which = EventFilter(asset_id=asset["id"], not_before=after, not_after=before)
        return await _events(connection, which, ascending=ascending, limit=limit)


@router.get("/asset-events/by-asset-alias")
async def events_by_alias(
    context: Context,
    identity: Identity,
    name: str,
    after: Moment | None = None,
    before: Moment | None = None,
    ascending: bool = True,
    limit: Annotated[int, Query(ge=0, le=BIGGEST)] = BIGGEST,
) -> AssetEvents:
    """The events that came through the alias."""
    async with reading(context, identity) as (connection, task):
        alias_id = await _alias(connection, task["dag_id"], name)
        which = EventFilter(alias_id=alias_id, not_before=after, not_after=before)
        return await _events(connection, which, ascending=ascending, limit=limit)


async def _events(connection: AsyncConnection, which: EventFilter, *, ascending: bool, limit: int) -> AssetEvents:
    order = ["timestamp"] if ascending else ["-timestamp", "-id"]
    found = await events.events(connection, which, Window(limit=limit, order_by=order))
    source_runs = await runs.source_runs(connection, [event["id"] for event in found.rows])
    return AssetEvents(asset_events=[execution_event(event, source_runs) for event in found.rows])
