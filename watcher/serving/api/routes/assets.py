"""`/api/v2/assets`: assets and asset aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.catalog.aliases import ALIAS_ORDERS
from store.catalog.assets import ASSET_ORDERS, AssetRow
from store.database.paging import PageRequest
from store.errors import no_alias
from store.runs import consumption, runs
from watcher.serving.api.context import Context
from watcher.serving.api.decisions import RunRequest, materialize
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import BIGGEST, AssetId, Pattern, example, ordered_window
from watcher.serving.api.shapes.assets import (
    AssetAliasCollectionResponse,
    AssetAliasResponse,
    AssetCollectionResponse,
    AssetResponse,
    asset_response,
)
from watcher.serving.api.shapes.dag_runs import DAGRunResponse, run_response
from watcher.serving.api.sign_in.auth import Operator, Viewer

router = APIRouter(prefix="/api/v2/assets", tags=["Asset"])


@router.get("")
async def list_assets(
    context: Context,
    _: Viewer,
    window: Annotated[PageRequest, Depends(ordered_window(ASSET_ORDERS, "id"))],
    name_pattern: Pattern = None,
    name_prefix_pattern: Pattern = None,
    uri_pattern: Pattern = None,
    uri_prefix_pattern: Pattern = None,
    dag_ids: Annotated[list[str] | None, Query()] = None,
    only_active: bool = True,
) -> AssetCollectionResponse:
    """List assets."""
    async with context.database.reading() as connection:
        listed = await assets.listed(
            connection,
            window,
            name_pattern=name_pattern,
            name_prefix=name_prefix_pattern,
            uri_pattern=uri_pattern,
            uri_prefix=uri_prefix_pattern,
            dag_ids=dag_ids,
            only_active=only_active,
        )
        return AssetCollectionResponse(assets=await _responses(connection, listed.rows), total_entries=listed.total)


@router.get("/aliases")
async def list_aliases(
    context: Context,
    _: Viewer,
    window: Annotated[PageRequest, Depends(ordered_window(ALIAS_ORDERS, "id"))],
    name_pattern: Pattern = None,
    name_prefix_pattern: Pattern = None,
) -> AssetAliasCollectionResponse:
    """List asset aliases."""
    async with context.database.reading() as connection:
        listed = await aliases.listed(connection, name_pattern, name_prefix_pattern, window)
    shown = [AssetAliasResponse.of(alias) for alias in listed.rows]
    return AssetAliasCollectionResponse(asset_aliases=shown, total_entries=listed.total)


@router.get("/aliases/{asset_alias_id}")
async def get_alias(context: Context, _: Viewer, asset_alias_id: int) -> AssetAliasResponse:
    """Return an asset alias."""
    if not 0 <= asset_alias_id <= BIGGEST:
        raise no_alias(asset_alias_id)
    async with context.database.reading() as connection:
        return AssetAliasResponse.of(await aliases.get(connection, asset_alias_id))


@router.get("/{asset_id}")
async def get_asset(context: Context, _: Viewer, asset_id: AssetId) -> AssetResponse:
    """Return an asset with its jobs, aliases and watchers."""
    async with context.database.reading() as connection:
        asset = await assets.get(connection, asset_id)
        return (await _responses(connection, [asset]))[0]


class MaterializeAssetBody(RunRequest):
    model_config = example(conf={"full": True})


@router.post("/{asset_id}/materialize", responses=MAY_CONFLICT)
async def materialize_asset(
    context: Context, actor: Operator, asset_id: AssetId, body: MaterializeAssetBody | None = None
) -> DAGRunResponse:
    """Trigger the one job that has the asset as an outlet. 409 means that there are several such jobs."""
    dag_id, run_id = await materialize(context, actor, asset_id, body or MaterializeAssetBody())
    async with context.database.reading() as connection:
        return run_response(await runs.get(connection, dag_id, run_id))


async def _responses(connection: AsyncConnection, rows: Sequence[AssetRow]) -> list[AssetResponse]:
    ids = [row.id for row in rows]
    jobs_around = await assets.jobs_around(connection, ids)
    attached = await assets.attached(connection, ids)
    unprocessed = await consumption.unprocessed_of_assets(connection, ids)
    return [asset_response(row, jobs_around, attached, unprocessed) for row in rows]
