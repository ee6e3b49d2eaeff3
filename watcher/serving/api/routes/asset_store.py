"""`/api/v2/assets/{asset_id}/store` and its history, and the same store under Airflow 3.3's path with exactly Airflow's fields."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from store.catalog import assets
from store.database.paging import PageRequest, ResultPage
from store.errors import Conflict
from store.state import history
from store.state.entries import Entry
from watcher.serving.api import writes
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import BIGGEST, AssetId, Body, Key, UnorderedWindow, Version, VersionNumber, example
from watcher.serving.api.shapes.entries import (
    AssetStateStoreCollectionResponse,
    AssetStateStoreResponse,
    EntryCollection,
    EntryResponse,
    History,
    entry_response,
    history_response,
)
from watcher.serving.api.sign_in.auth import Admin, Viewer
from watcher.serving.api.writes import api_write, json_within_limit


class _StoreRoute(APIRoute):
    """A route that reads a path which ends in `/undo` as an undo, and one which ends in `%2Fundo` as a key."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is Match.NONE or not self.path_format.endswith(("/store/{key}", "/store/{key}/undo")):
            return match, child
        raw: bytes = scope.get("raw_path") or scope["path"].encode(errors="surrogatepass")
        asks_undo = raw.partition(b"?")[0].endswith(b"/undo") and not scope["path"].endswith("/store/undo")
        return (match, child) if asks_undo is self.path_format.endswith("/undo") else (Match.NONE, {})


router = APIRouter(prefix="/api/v2/assets/{asset_id}", tags=["Asset store"], route_class=_StoreRoute)
IfVersion = Annotated[int | None, Query(ge=0, le=BIGGEST)]


_NOTHING_LEFT: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "That version is a delete, so the entry has been deleted."}
}


class SetEntry(Body):
    model_config = example(value={"rows": 42}, if_version=2)

    value: Any
    if_version: Version = None


class AssetStateStoreBody(Body):
    model_config = example(value={"rows": 42})

    value: Any


class UndoEntry(Body):
    """An undo. `if_version` is the entry's present version as the client knows it, or 0 if there is no entry."""

    model_config = example(to_version=2, if_version=3)

    to_version: VersionNumber
    if_version: VersionNumber


@router.get("/store")
async def list_entries(context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow) -> EntryCollection:
    """List the entries of an asset."""
    page = await _page(context, asset_id, window)
    shown = [entry_response(entry, context.links.base_url) for entry in page.rows]
    return EntryCollection(asset_store=shown, total_entries=page.total)


@router.get("/store/{key:path}")
async def get_entry(context: Context, _: Viewer, asset_id: AssetId, key: Key) -> EntryResponse:
    """Return an entry with its version and its writer."""
    return entry_response(await _entry(context, asset_id, key), context.links.base_url)


@router.put("/store/{key:path}", status_code=204, responses=MAY_CONFLICT)
async def set_entry(context: Context, actor: Admin, asset_id: AssetId, key: Key, body: SetEntry) -> None:
    """Write an entry.

    409 means that its version is not `if_version`, that only a watcher writes it, or that the asset is inactive.
    """
    text = json_within_limit(context, body.value)
    await writes.set_entry(context, actor, asset_id, key, text, expected_version=body.if_version)


@router.post("/store/{key:path}/undo", response_model=EntryResponse, responses={**MAY_CONFLICT, **_NOTHING_LEFT})
async def undo_entry(
    context: Context, actor: Admin, asset_id: AssetId, key: Key, body: UndoEntry
) -> Response | EntryResponse:
    """Write the value of an older version as a new version. 409 means that the entry has changed since `if_version`.

    If the older version is a delete, the entry is deleted and the answer is 204.
    """
    if not context.entries.keeps_history:
        raise Conflict("the configured store backend keeps no history; write the old value instead")
    async with api_write(context, actor, asset_id, action="undo", key=key) as write:
        old = await history.version(write.connection, write.asset, key, body.to_version)
        (newest,) = await history.latest(write.connection, write.asset, key, limit=1)
        if old.is_ref or newest.is_ref:
            raise Conflict("a worker-side backend keeps the value outside; write the value from a job")
        if old.value is None:
            await write.delete(expected_version=body.if_version)
        else:
            await write.set(old.value, expected_version=body.if_version)
    return Response(status_code=204) if old.value is None else await get_entry(context, actor, asset_id, key)


@router.delete("/store/{key:path}", status_code=204, responses=MAY_CONFLICT)
async def delete_entry(
    context: Context, actor: Admin, asset_id: AssetId, key: Key, if_version: IfVersion = None
) -> None:
    """Delete an entry if it exists. 409 means that its version is not `if_version`, or that only a watcher writes it."""
    async with api_write(context, actor, asset_id, action="delete", key=key) as write:
        await write.delete(expected_version=if_version)


@router.delete("/store", status_code=204)
@router.delete("/state-store", status_code=204)
async def clear_entries(context: Context, actor: Admin, asset_id: AssetId) -> None:
    """Delete all entries of an asset except the watermarks of configured watchers."""
    async with api_write(context, actor, asset_id, action="clear") as write:
        await write.clear()


@router.get("/store-history")
async def list_history(
    context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow, key: str | None = None
) -> History:
    """List the writes and deletes of an asset's entries, or of one key, newest first."""
    async with context.database.reading() as connection:
        asset = await assets.reference(connection, asset_id)
        page = await history.of_asset(connection, asset, key, window)
    return History(
        history=[history_response(row, context.links.base_url) for row in page.rows], total_entries=page.total
    )


@router.get("/state-store")
async def list_asset_state_store(
    context: Context, _: Viewer, asset_id: AssetId, window: UnorderedWindow
) -> AssetStateStoreCollectionResponse:
    """List the entries of an asset in Airflow's shape."""
    page = await _page(context, asset_id, window)
    shown = [AssetStateStoreResponse.of(entry) for entry in page.rows]
    return AssetStateStoreCollectionResponse(asset_state_store=shown, total_entries=page.total)


@router.get("/state-store/{key:path}")
async def get_asset_state_store(context: Context, _: Viewer, asset_id: AssetId, key: Key) -> AssetStateStoreResponse:
    """Return an entry in Airflow's shape."""
    return AssetStateStoreResponse.of(await _entry(context, asset_id, key))


@router.put("/state-store/{key:path}", status_code=204, responses=MAY_CONFLICT)
async def set_asset_state_store(
    context: Context, actor: Admin, asset_id: AssetId, key: Key, body: AssetStateStoreBody
) -> None:
    """Write an entry. 409 means that only a watcher writes it, or that the asset is inactive."""
    await set_entry(context, actor, asset_id, key, SetEntry(value=body.value))


@router.delete("/state-store/{key:path}", status_code=204, responses=MAY_CONFLICT)
async def delete_asset_state_store(context: Context, actor: Admin, asset_id: AssetId, key: Key) -> None:
    """Delete an entry if it exists. 409 means that only a watcher writes it."""
    await delete_entry(context, actor, asset_id, key)


async def _entry(context: ApiContext, asset_id: int, key: str) -> Entry:
    async with context.database.reading() as connection:
        return await context.entries.entry(connection, await assets.reference(connection, asset_id), key)


async def _page(context: ApiContext, asset_id: int, window: PageRequest) -> ResultPage[Entry]:
    async with context.database.reading() as connection:
        return await context.entries.page(connection, await assets.reference(connection, asset_id), window)
