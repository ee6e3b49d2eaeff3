"""`/execution/store/ti`: the task store of the task instance that the token identifies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path

from store.keys import TryRef
from store.state.entries import TaskEntry
from store.state.task_entries import task_references
from store.values import to_json
from watcher.serving.api.context import Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.execution.identity import Call, Identity, Writing, fenced, reading_as
from watcher.serving.api.expiry import ExpiresAt, expiry
from watcher.serving.api.parameters import Body, Key, example
from watcher.serving.api.shapes.entries import Keys, References, StoredValue
from watcher.serving.try_tokens import TryIdentity

router = APIRouter(prefix="/execution/store/ti/{task_instance_id}", tags=["Execution: task store"])


async def _own(task_instance_id: Annotated[str, Path()], identity: Identity) -> TryIdentity:
    _check_own(task_instance_id, identity)
    return identity


async def _own_write(task_instance_id: Annotated[str, Path()], call: Writing) -> Call:
    _check_own(task_instance_id, call.ref)
    return call


Own = Annotated[TryIdentity, Depends(_own)]
OwnWrite = Annotated[Call, Depends(_own_write)]


def _check_own(task_instance_id: str, speaker: TryRef) -> None:
    if task_instance_id != speaker.task_instance_id:
        raise HTTPException(403, "Token subject does not match task instance ID")


class PutTaskValue(Body):
    """A value to store. `is_ref`: the value is a reference that a worker-side backend created."""

    model_config = example(value={"done": 7}, expires_at="2099-01-31T12:00:00Z")

    value: Any
    expires_at: ExpiresAt = "default"
    is_ref: bool = False


@router.get("", response_model=Keys | References, responses=MAY_CONFLICT)
async def list_entries(
    context: Context, own: Own, what: Literal["keys", "references"] = "references"
) -> dict[str, Sequence[str] | Mapping[str, Any]]:
    """List all keys, or by key the references that a worker-side backend has to remove when the store is cleared."""
    async with reading_as(context, own) as (connection, task):
        if what == "keys":
            return {what: await context.entries.task_keys(connection, task)}
        stored = await task_references(connection, task)
    return {what: {key: json.loads(reference) for key, reference in stored.items()}}


@router.get("/{key:path}", response_model=StoredValue, response_model_exclude_unset=True)
async def get_value(context: Context, own: Own, key: Key) -> dict[str, Any]:
    """Return a value. `is_ref` is present only for a reference, because Airflow's client accepts no other member than `value`."""
    async with reading_as(context, own) as (connection, task):
        entry = await context.entries.task_entry(connection, task, key)
    value = {"value": json.loads(entry.value)}
    return {**value, "is_ref": True} if entry.is_ref else value


@router.put("/{key:path}", status_code=204)
async def set_value(own: OwnWrite, key: Key, body: PutTaskValue) -> None:
    """Write a value."""
    entry = TaskEntry(key=key, value=to_json(body.value), is_ref=body.is_ref)
    until = expiry(body.expires_at, own.context.limits.default_retention_days)
    async with own.context.database.transaction() as connection:
        own_try = await fenced(connection, own)
        await own.context.entries.set_task(connection, own_try.instance, entry, until)


@router.delete("/{key:path}", status_code=204)
async def delete_value(own: OwnWrite, key: Key) -> None:
    """Delete a value if it exists."""
    async with own.context.database.transaction() as connection:
        own_try = await fenced(connection, own)
        await own.context.entries.delete_task(connection, own_try.instance, key)


@router.delete("", status_code=204)
async def clear_values(own: OwnWrite) -> None:
    """Delete all values of the task store."""
    async with own.context.database.transaction() as connection:
        own_try = await fenced(connection, own)
        await own.context.entries.clear_task(connection, own_try.instance)
