"""`/execution/store/asset`: a job reads and writes the stores of its inlets and outlets, with the writer kind `task`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Depends, Response
from pydantic import Field, StrictFloat, StrictInt
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.catalog.assets import AssetRow
from store.runs.tries.try_lock import AssetSelector, lock_asset
from store.state import attributed
from store.state.transactions import EntryTransaction, TransactionOutcome
from store.values import check_key, to_json
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.execution.identity import (
    SELECTORS,
    STORE,
    Call,
    Identity,
    Writing,
    reading_as,
    selected_asset,
    stored_answer,
    undeclared,
)
from watcher.serving.api.parameters import BIGGEST, Body, QueryKey, SmallNumber, Text, example
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.shapes.entries import Keys, References, StoredValue
from watcher.serving.api.writes import EntryWrite, new_write_id
from watcher.serving.try_tokens import TryIdentity

router = APIRouter(prefix="/execution/store/asset", tags=["Execution: asset store"])
log = structlog.get_logger()

_Version = Annotated[int, Field(ge=0, le=BIGGEST)]
_Number = StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)]


class PutValue(Body):
    """A value to store. `is_ref`: the value is a reference that a worker-side backend created."""

    model_config = example(value={"rows": 42})

    value: Any
    is_ref: bool = False


class Changes(Body):
    """The changes of one transaction. `asset`: the name or uri of the asset. `reads`: the versions that were read, 0 for no entry.

    `refs`: the keys of `set` whose values are references.
    """

    model_config = example(asset="orders", ordinal=0, set={"last": "2026-01-31"}, increment={"rows": 42})

    asset: Text
    ordinal: SmallNumber
    """The number of this transaction among those of the task instance on this asset. A later try that repeats it uses the same number."""
    reads: dict[str, _Version] = Field(default_factory=dict)
    sets: dict[str, Any] = Field(default_factory=dict, alias="set")
    increment: dict[str, _Number] = Field(default_factory=dict)
    delete: list[str] = Field(default_factory=list)
    refs: list[str] = Field(default_factory=list)


class Changed(Shape):
    """The new version of each changed key, 0 without an entry, and the new value of each incremented key, or null."""

    versions: dict[str, int]
    values: dict[str, Any]


def _add_routes(path: str, selector: Callable[[str], Awaitable[AssetSelector]]) -> None:
    """Add the routes for assets that are named by this path: by name or by uri."""
    selected: Final[Any] = Depends(selector)

    @router.put(f"/{path}/value", status_code=204)
    async def set_value(call: Writing, key: str, body: PutValue, asset: AssetSelector = selected) -> None:
        """Write a value."""
        text = to_json(body.value)
        async with _task_write(call, asset, action="set", key=check_key(key)) as write:
            _warn_of_large(write, key, text)
            await write.set(text, is_ref=body.is_ref)

    @router.get(f"/{path}/value", response_model=StoredValue, response_model_exclude_unset=True)
    async def get_value(
        context: Context, identity: Identity, key: QueryKey, response: Response, asset: AssetSelector = selected
    ) -> dict[str, Any]:
        """Return a value. `is_ref` is present only for a reference, and the version is in the `ETag` header.

        Airflow's client accepts no other member than `value`.
        """
        async with _reading(context, identity, asset) as (connection, declared):
            entry = await context.entries.entry(connection, declared.ref, key)
        if entry.version is not None:
            response.headers["ETag"] = f'"{entry.version}"'
        value = {"value": json.loads(entry.value)}
        return {**value, "is_ref": True} if entry.is_ref else value

    @router.delete(f"/{path}/value", status_code=204)
    async def delete_value(call: Writing, key: str, asset: AssetSelector = selected) -> None:
        """Delete a value if it exists."""
        async with _task_write(call, asset, action="delete", key=check_key(key)) as write:
            await write.delete()

    @router.delete(f"/{path}/clear", status_code=204)
    async def clear_values(call: Writing, asset: AssetSelector = selected) -> None:
        """Delete all values of the store except the watermarks of configured watchers."""
        async with _task_write(call, asset, action="clear") as write:
            await write.clear()

    @router.get(f"/{path}/keys", response_model=Keys, responses=MAY_CONFLICT)
    async def list_keys(
        context: Context, identity: Identity, asset: AssetSelector = selected
    ) -> dict[str, Sequence[str]]:
        """List the keys of the store."""
        async with _reading(context, identity, asset) as (connection, declared):
            return {"keys": await context.entries.keys(connection, declared.ref)}

    @router.get(f"/{path}/references", response_model=References)
    async def list_references(
        context: Context, identity: Identity, asset: AssetSelector = selected
    ) -> dict[str, Mapping[str, Any]]:
        """List the references that a worker-side backend has to remove when the store is cleared, by key."""
        async with _reading(context, identity, asset) as (connection, declared):
            stored = await attributed.references(connection, declared.id)
        return {"references": {key: json.loads(reference) for key, reference in stored.items()}}


for _path, _selector in SELECTORS.items():
    _add_routes(_path, _selector)


@router.post("/transaction", response_model=Changed)
async def change_together(call: Writing, body: Changes, response: Response) -> Response:
    """Apply all changes or none. 409 means that a version which was read has changed since.

    Increments are applied once per task instance, asset and ordinal, whatever the try. A repetition does not apply them again.
    """
    transaction = EntryTransaction(
        ordinal=body.ordinal,
        reads=body.reads,
        sets={key: to_json(value) for key, value in body.sets.items()},
        increments=body.increment,
        deletes=frozenset(body.delete),
        references=frozenset(body.refs),
    )
    selector = AssetSelector(by="either", text=body.asset)
    async with _task_write(call, selector, action="transaction", keys=transaction.changes) as write:
        for key in transaction.changes:
            await write.refuse_watermark(key)
        for key, text in transaction.sets.items():
            _warn_of_large(write, key, text)
        outcome = await call.context.entries.transact(
            write.connection, write.asset, transaction, task_instance_id=call.ref.task_instance_id, writer=write.writer
        )
        return await stored_answer(write.connection, call, response, _as_json(outcome))


@asynccontextmanager
async def _task_write(
    call: Call, selector: AssetSelector, *, action: str, key: str | None = None, keys: Sequence[str] | None = None
) -> AsyncIterator[EntryWrite]:
    """Change one entry (`key`, which is locked), several entries (`keys`), or all, after the fence and scope checks.

    Raises `TryFenced`, `NotFound`, `ReplayedResponse`, or 403.
    """
    async with call.context.database.transaction() as connection:
        locked = await lock_asset(
            connection,
            call.ref,
            selector,
            key=key,
            request=call.request,
            granted=call.granted,
        )
        if not locked.is_declared:
            raise undeclared(locked.key.dag_id, locked.asset.name)
        write = EntryWrite(
            context=call.context,
            connection=connection,
            asset=locked.asset,
            writer=Writer(
                kind=AssetStoreWriterKind.TASK,
                write_id=new_write_id(),
                dag_id=locked.key.dag_id,
                run_id=locked.key.run_id,
                task_id=locked.key.task_id,
                map_index=locked.key.map_index,
                try_number=locked.key.try_number,
            ),
            action=action,
            key=key,
            keys=keys,
            lock=locked.lock,
            trace_id=call.trace_id,
        )
        yield write
        write.announce()
    write.confirm()


@asynccontextmanager
async def _reading(
    context: ApiContext, identity: TryIdentity, selector: AssetSelector
) -> AsyncIterator[tuple[AsyncConnection, AssetRow]]:
    """Yield a reading connection and the asset. Raise `NotFound`, or 403 for an asset that the job does not declare."""
    async with reading_as(context, identity) as (connection, task):
        yield connection, await selected_asset(connection, identity, task.dag_id, STORE, selector)


def _warn_of_large(write: EntryWrite, key: str, text: str) -> None:
    """Log a warning for a large value. Values of jobs have no limit."""
    limit = write.context.limits.max_value_storage_bytes
    if len(text) > limit:
        log.warning("store.large_value", key=key, bytes=len(text), limit=limit, **write.who)


def _as_json(outcome: TransactionOutcome) -> str:
    """Return the JSON of `Changed` with the values as stored, because not every number survives parsing and writing."""
    values = (f"{json.dumps(key)}:{text or 'null'}" for key, text in outcome.values.items())
    return f'{{"versions":{json.dumps(outcome.versions)},"values":{{{",".join(values)}}}}}'
