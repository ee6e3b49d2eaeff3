"""`/api/v2/assets/{asset_id}/store`, its history, and the same store under Airflow 3.3's path, with exactly its fields."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from store.catalog import assets
from store.state import history
from watcher.api import asset_store, entries
from watcher.api.auth import Admin, Viewer
from watcher.api.context import Context
from watcher.api.parameters import BIGGEST, AssetId, Body, Key, UnorderedWindow, Version
from watcher.api.shapes.entries import (
    AssetStateStoreCollectionResponse,
    AssetStateStoreResponse,
    Entry,
    EntryCollection,
    History,
    airflow_entry,
    entry,
    history_entry,
)

router = APIRouter(prefix="/assets/{asset_id}", tags=["Asset store"])


class SetEntry(Body):
    value: Any
    if_version: Version = None


class AssetStateStoreBody(Body):
    value: Any


@router.get("/store")
async def list_entries(context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow) -> EntryCollection:
    async with context.database.reading() as connection:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        found = await entries.asset_entries(context, connection, asset, window)
    shown = [entry(row, context.base_url) for row in found.rows]
    return EntryCollection(asset_store=shown, total_entries=found.total)


@router.get("/store/{key:path}")
async def get_entry(context: Context, _: Viewer, asset_id: AssetId, key: Key) -> Entry:
    async with context.database.reading() as connection:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        return entry(await entries.asset_entry(context, connection, asset, key), context.base_url)


@router.put("/store/{key:path}", status_code=204)
async def set_entry(context: Context, actor: Admin, asset_id: AssetId, key: Key, body: SetEntry) -> None:
    await asset_store.set_entry(context, actor, asset_id, key, body.value, body.if_version)


@router.delete("/store/{key:path}", status_code=204)
async def delete_entry(
    context: Context,
    actor: Admin,
    asset_id: AssetId,
    key: Key,
    if_version: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None,
) -> None:
    await asset_store.delete_entry(context, actor, asset_id, key, if_version)


@router.delete("/store", status_code=204)
@router.delete("/state-store", status_code=204)
async def clear_entries(context: Context, actor: Admin, asset_id: AssetId) -> None:
    await asset_store.clear_entries(context, actor, asset_id)


@router.get("/store-history")
async def list_history(
    context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow, key: str | None = None
) -> History:
    async with context.database.reading() as connection:
        await assets.asset_by(connection, asset_id=asset_id)
        found = await history.history(connection, asset_id, key, window)
    return History(history=[history_entry(row, context.base_url) for row in found.rows], total_entries=found.total)


@router.get("/state-store")
async def list_asset_state_store(
    context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow
) -> AssetStateStoreCollectionResponse:
    async with context.database.reading() as connection:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        found = await entries.asset_entries(context, connection, asset, window)
    shown = [airflow_entry(row) for row in found.rows]
    return AssetStateStoreCollectionResponse(asset_state_store=shown, total_entries=found.total)


@router.get("/state-store/{key:path}")
async def get_asset_state_store(context: Context, _: Viewer, asset_id: AssetId, key: Key) -> AssetStateStoreResponse:
    async with context.database.reading() as connection:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        return airflow_entry(await entries.asset_entry(context, connection, asset, key))


@router.put("/state-store/{key:path}", status_code=204)
async def set_asset_state_store(
    context: Context, actor: Admin, asset_id: AssetId, key: Key, body: AssetStateStoreBody
) -> None:
    await asset_store.set_entry(context, actor, asset_id, key, body.value, None)


@router.delete("/state-store/{key:path}", status_code=204)
async def delete_asset_state_store(context: Context, actor: Admin, asset_id: AssetId, key: Key) -> None:
    await asset_store.delete_entry(context, actor, asset_id, key, None)
