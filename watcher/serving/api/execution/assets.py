"""`/execution/assets` and `/execution/asset-events`: the assets of a job and their events."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.catalog.assets import AssetRow
from store.database.paging import PageRequest
from store.detection import event_lists
from store.detection.event_lists import EventAsset, EventFilter
from store.errors import NotFound
from store.runs.tries.try_lock import AssetSelector
from watcher.serving.api.context import Context
from watcher.serving.api.execution.identity import (
    EVENTS,
    SELECTORS,
    Identity,
    declared_asset,
    forbidden,
    reading_as,
    selected_asset,
)
from watcher.serving.api.parameters import BIGGEST, Moment
from watcher.serving.api.shapes.assets import AssetEvents

router = APIRouter(prefix="/execution", tags=["Execution: assets"])


async def _window(*, ascending: bool = True, limit: Annotated[int, Query(ge=0, le=BIGGEST)] = BIGGEST) -> PageRequest:
    return PageRequest(limit=limit, order_by=["timestamp"] if ascending else ["-timestamp", "-id"])


InOrder = Annotated[PageRequest, Depends(_window)]


def _add_asset_route(path: str, selector: Callable[..., Awaitable[AssetSelector]]) -> None:
    @router.get(f"/assets/{path}", name=f"asset_{path.replace('-', '_')}")
    async def get_asset(
        context: Context,
        identity: Identity,
        selected: AssetSelector = Depends(selector),  # noqa: B008, FAST002  an annotation could not see `selector`
    ) -> EventAsset:
        """Return an asset that the job declares."""
        async with reading_as(context, identity) as (connection, task):
            return _shown(await selected_asset(connection, identity, task.dag_id, EVENTS, selected))


for _path, _selector in SELECTORS.items():
    _add_asset_route(_path, _selector)


@router.get("/assets/by-alias")
async def assets_by_alias(context: Context, identity: Identity, alias_name: str) -> Sequence[EventAsset]:
    """List the assets that the alias has resolved to so far."""
    async with reading_as(context, identity) as (connection, task):
        alias_id = await _alias(connection, task.dag_id, alias_name)
        return [_shown(asset) for asset in await assets.of_alias(connection, alias_id)]


def _shown(asset: AssetRow) -> EventAsset:
    return EventAsset(name=asset.name, uri=asset.uri, group=asset.group, extra=json.loads(asset.extra))


async def _alias(connection: AsyncConnection, dag_id: str, name: str) -> int:
    declared = await aliases.of_job(connection, dag_id, EVENTS)
    if name not in declared:
        raise forbidden(f"the job {dag_id} does not declare the alias {name!r}; add it to its inlets")
    return declared[name]


@router.get("/asset-events/by-asset")
async def events_by_asset(
    context: Context,
    identity: Identity,
    name: str,
    uri: str,
    window: InOrder,
    after: Moment | None = None,
    before: Moment | None = None,
) -> AssetEvents:
    """List the events of an asset. `name` and `uri` are both required, and one may be empty, as in Airflow.

    `after` and `before` are inclusive.
    """
    if not name and not uri:
        raise HTTPException(400, {"reason": "Missing parameter", "message": "give the asset's name, its uri, or both"})
    async with reading_as(context, identity) as (connection, task):
        try:
            asset = await declared_asset(connection, identity, task.dag_id, EVENTS, name=name or None, uri=uri or None)
        except NotFound:
            return AssetEvents(asset_events=[])
        which = EventFilter(asset_id=asset.id, not_before=after, not_after=before)
        return AssetEvents(asset_events=(await event_lists.listed(connection, which, window)).rows)


@router.get("/asset-events/by-asset-alias")
async def events_by_alias(
    context: Context,
    identity: Identity,
    name: str,
    window: InOrder,
    after: Moment | None = None,
    before: Moment | None = None,
) -> AssetEvents:
    """List the events that came through the alias. `after` and `before` are inclusive."""
    async with reading_as(context, identity) as (connection, task):
        alias_id = await _alias(connection, task.dag_id, name)
        which = EventFilter(alias_id=alias_id, not_before=after, not_after=before)
        return AssetEvents(asset_events=(await event_lists.listed(connection, which, window)).rows)
