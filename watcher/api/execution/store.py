"""`/execution/store/asset`: a job reads and writes the stores of its inlets and outlets, as writer kind `task`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Response

from store.runs.try_lock import Wanted
from store.state import entries as stored
from store.state import listings
from store.values import check_key, to_json
from watcher.api import entries
from watcher.api.context import ApiContext, Context
from watcher.api.execution.identity import STORE, AssetName, Call, Identity, Writing, reachable, reading
from watcher.api.execution.writing import task_write, warn_of_large
from watcher.api.parameters import Body, QueryKey
from watcher.try_tokens import TryIdentity

router = APIRouter(prefix="/store/asset", tags=["Execution: asset store"])


class PutValue(Body):
    """`is_ref`: the value is a reference that a worker-side backend made."""

    value: Any
    is_ref: bool = False


@router.put("/by-name/value", status_code=204)
async def set_by_name(call: Writing, name: str, key: str, body: PutValue) -> None:
    await _set(call, Wanted(by="name", text=name), key, body)


@router.put("/by-uri/value", status_code=204)
async def set_by_uri(call: Writing, uri: str, key: str, body: PutValue) -> None:
    await _set(call, Wanted(by="uri", text=uri), key, body)


@router.get("/by-name/value")
async def get_by_name(
    context: Context, identity: Identity, name: str, key: QueryKey, response: Response
) -> dict[str, Any]:
    return await _get(context, identity, AssetName(name=name), key, response)


@router.get("/by-uri/value")
async def get_by_uri(
    context: Context, identity: Identity, uri: str, key: QueryKey, response: Response
) -> dict[str, Any]:
    return await _get(context, identity, AssetName(uri=uri), key, response)


@router.delete("/by-name/value", status_code=204)
async def delete_by_name(call: Writing, name: str, key: str) -> None:
    await _delete(call, Wanted(by="name", text=name), key)


@router.delete("/by-uri/value", status_code=204)
async def delete_by_uri(call: Writing, uri: str, key: str) -> None:
    await _delete(call, Wanted(by="uri", text=uri), key)


@router.delete("/by-name/clear", status_code=204)
async def clear_by_name(call: Writing, name: str) -> None:
    await _clear(call, Wanted(by="name", text=name))


@router.delete("/by-uri/clear", status_code=204)
async def clear_by_uri(call: Writing, uri: str) -> None:
    await _clear(call, Wanted(by="uri", text=uri))


@router.get("/by-name/keys")
async def keys_by_name(context: Context, identity: Identity, name: str) -> dict[str, Sequence[str]]:
    return await _keys(context, identity, AssetName(name=name))


@router.get("/by-uri/keys")
async def keys_by_uri(context: Context, identity: Identity, uri: str) -> dict[str, Sequence[str]]:
    return await _keys(context, identity, AssetName(uri=uri))


@router.get("/by-name/references")
async def references_by_name(context: Context, identity: Identity, name: str) -> dict[str, Mapping[str, Any]]:
    return await _references(context, identity, AssetName(name=name))


@router.get("/by-uri/references")
async def references_by_uri(context: Context, identity: Identity, uri: str) -> dict[str, Mapping[str, Any]]:
    return await _references(context, identity, AssetName(uri=uri))


async def _get(
    context: ApiContext, identity: TryIdentity, wanted: AssetName, key: str, response: Response
) -> dict[str, Any]:
    """Airflow's client accepts no other member than `value`: a plain value carries no mark, and the version is a header."""
    async with reading(context, identity) as (connection, task):
        asset = await reachable(connection, task["dag_id"], wanted, STORE)
        entry = await entries.asset_entry(context, connection, asset, key)
    if entry["version"] is not None:
        response.headers["ETag"] = f'"{entry["version"]}"'
    value = {"value": json.loads(entry["value"])}
    return {**value, "is_ref": True} if entry["is_ref"] else value


async def _keys(context: ApiContext, identity: TryIdentity, wanted: AssetName) -> dict[str, Sequence[str]]:
    async with reading(context, identity) as (connection, task):
        asset = await reachable(connection, task["dag_id"], wanted, STORE)
        return {"keys": await entries.asset_keys(context, connection, asset)}


async def _references(context: ApiContext, identity: TryIdentity, wanted: AssetName) -> dict[str, Mapping[str, Any]]:
    """What a worker-side backend has to remove when the store is cleared."""
    async with reading(context, identity) as (connection, task):
        asset = await reachable(connection, task["dag_id"], wanted, STORE)
        found = await listings.references(connection, asset["id"])
    return {"references": {key: json.loads(stored) for key, stored in found.items()}}


async def _set(call: Call, wanted: Wanted, key: str, body: PutValue) -> None:
    text = to_json(body.value)
    async with task_write(call, wanted, action="set", key=check_key(key)) as write:
        await write.refuse_watermark(key)
        warn_of_large(call, write, key, text)
        await stored.set_asset(
            call.context.backend,
            write.scope,
            key,
            text,
            writer=write.writer,
            is_ref=body.is_ref,
            holds_key=True,
            connection=write.connection,
        )


async def _delete(call: Call, wanted: Wanted, key: str) -> None:
    async with task_write(call, wanted, action="delete", key=check_key(key)) as write:
        await write.refuse_watermark(key)
        await stored.delete_asset(
            call.context.backend, write.scope, key, writer=write.writer, holds_key=True, connection=write.connection
        )


async def _clear(call: Call, wanted: Wanted) -> None:
    async with task_write(call, wanted, action="clear") as write:
        await write.clear(call.context)
