"""`/execution/store/asset`: a job reads and writes the stores of its inlets and outlets, as writer kind `task`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import APIRouter
from sqlalchemy.ext.asyncio import AsyncSession

from store import abilities, listings
from store.base import AssetStoreWriterKind, Writer
from store.reach import reach
from store.tries import FencedTry
from store.values import to_json
from watcher.api import entries
from watcher.api.context import ApiContext, Context
from watcher.api.execution.identity import STORE, AssetName, Identity, reachable, reading, undeclared
from watcher.api.parameters import Body, QueryKey
from watcher.api.writes import EntryWrite, announced, new_write_id
from watcher.try_tokens import TryIdentity

router = APIRouter(prefix="/store/asset", tags=["Execution: asset store"])
log = structlog.get_logger()


class PutValue(Body):
    """`is_ref`: the value is a reference that a worker-side backend made."""

    value: Any
    is_ref: bool = False


@router.put("/by-name/value", status_code=204)
async def set_by_name(context: Context, identity: Identity, name: str, key: QueryKey, body: PutValue) -> None:
    await _set(context, identity, AssetName(name=name), key, body)


@router.put("/by-uri/value", status_code=204)
async def set_by_uri(context: Context, identity: Identity, uri: str, key: QueryKey, body: PutValue) -> None:
    await _set(context, identity, AssetName(uri=uri), key, body)


@router.get("/by-name/value")
async def get_by_name(context: Context, identity: Identity, name: str, key: QueryKey) -> dict[str, Any]:
    return await _get(context, identity, AssetName(name=name), key)


@router.get("/by-uri/value")
async def get_by_uri(context: Context, identity: Identity, uri: str, key: QueryKey) -> dict[str, Any]:
    return await _get(context, identity, AssetName(uri=uri), key)


@router.delete("/by-name/value", status_code=204)
async def delete_by_name(context: Context, identity: Identity, name: str, key: QueryKey) -> None:
    await _delete(context, identity, AssetName(name=name), key)


@router.delete("/by-uri/value", status_code=204)
async def delete_by_uri(context: Context, identity: Identity, uri: str, key: QueryKey) -> None:
    await _delete(context, identity, AssetName(uri=uri), key)


@router.delete("/by-name/clear", status_code=204)
async def clear_by_name(context: Context, identity: Identity, name: str) -> None:
    await _clear(context, identity, AssetName(name=name))


@router.delete("/by-uri/clear", status_code=204)
async def clear_by_uri(context: Context, identity: Identity, uri: str) -> None:
    await _clear(context, identity, AssetName(uri=uri))


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


async def _get(context: ApiContext, identity: TryIdentity, wanted: AssetName, key: str) -> dict[str, Any]:
    """Airflow's client accepts no other member than `value`, so a plain value carries no mark."""
    async with reading(context, identity) as (session, task):
        asset = await reachable(session, task["dag_id"], wanted, STORE)
        entry = await entries.asset_entry(context, session, asset, key)
    value = {"value": json.loads(entry["value"])}
    return {**value, "is_ref": True} if entry["is_ref"] else value


async def _keys(context: ApiContext, identity: TryIdentity, wanted: AssetName) -> dict[str, Sequence[str]]:
    async with reading(context, identity) as (session, task):
        asset = await reachable(session, task["dag_id"], wanted, STORE)
        return {"keys": await entries.asset_keys(context, session, asset)}


async def _references(context: ApiContext, identity: TryIdentity, wanted: AssetName) -> dict[str, Mapping[str, Any]]:
    """What a worker-side backend has to remove when the store is cleared."""
    async with reading(context, identity) as (session, task):
        asset = await reachable(session, task["dag_id"], wanted, STORE)
        found = await listings.references(session, asset["id"])
    return {"references": {key: json.loads(stored) for key, stored in found.items()}}


async def _set(context: ApiContext, identity: TryIdentity, asset: AssetName, key: str, body: PutValue) -> None:
    text = to_json(body.value)
    async with _task_write(context, identity, asset, action="set", key=key) as write:
        write.refuse_inactive()
        await write.refuse_watermark(key)
        if len(text) > context.max_value_storage_bytes:
            log.warning("store.large_value", key=key, bytes=len(text), limit=context.max_value_storage_bytes)
        await abilities.set_asset(
            context.backend,
            write.scope,
            key,
            text,
            writer=write.writer,
            is_ref=body.is_ref,
            session=write.session,
        )


async def _delete(context: ApiContext, identity: TryIdentity, asset: AssetName, key: str) -> None:
    async with _task_write(context, identity, asset, action="delete", key=key) as write:
        await write.refuse_watermark(key)
        await abilities.delete_asset(context.backend, write.scope, key, writer=write.writer, session=write.session)


async def _clear(context: ApiContext, identity: TryIdentity, asset: AssetName) -> None:
    async with _task_write(context, identity, asset, action="clear", key=None) as write:
        await write.clear(context)


@asynccontextmanager
async def _task_write(
    context: ApiContext, identity: TryIdentity, wanted: AssetName, *, action: str, key: str | None
) -> AsyncIterator[EntryWrite]:
    """The try is fenced and the asset's reach is checked inside the transaction that writes."""

    async def begin(session: AsyncSession) -> EntryWrite:
        found = await reach(
            session, identity.task_instance_id, identity.try_number, name=wanted.name, uri=wanted.uri, key=key
        )
        if not found.declared:
            raise undeclared(found.held.dag_id, found.asset["name"])
        writer = _writer(found.held)
        return EntryWrite(session=session, asset=found.asset, writer=writer, is_watermark=found.is_watermark)

    async with announced(context, begin, action=action, key=key) as write:
        yield write


def _writer(held: FencedTry) -> Writer:
    return Writer(
        kind=AssetStoreWriterKind.TASK,
        write_id=new_write_id(),
        dag_id=held.dag_id,
        run_id=held.run_id,
        task_id=held.task_id,
        map_index=held.map_index,
        try_number=held.try_number,
    )
