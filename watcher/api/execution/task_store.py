"""`/execution/store/ti`: the state of the task instance that the token speaks for, and of no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path
from sqlalchemy import RowMapping

from store.base import TaskScope
from store.state import entries as stored
from store.state import task_entries
from store.values import to_json
from watcher.api import entries
from watcher.api.context import Context
from watcher.api.execution.identity import Call, Identity, Writing, fenced, reading, task_scope
from watcher.api.parameters import Body, Key
from watcher.api.retention import ExpiresAt, expiry
from watcher.try_tokens import TryIdentity

router = APIRouter(prefix="/store/ti/{task_instance_id}", tags=["Execution: task store"])


async def _own(task_instance_id: Annotated[str, Path()], identity: Identity) -> TryIdentity:
    _check_own(task_instance_id, identity)
    return identity


async def _own_write(task_instance_id: Annotated[str, Path()], call: Writing) -> Call:
    _check_own(task_instance_id, call)
    return call


Own = Annotated[TryIdentity, Depends(_own)]
OwnWrite = Annotated[Call, Depends(_own_write)]


def _check_own(task_instance_id: str, speaker: TryIdentity | Call) -> None:
    if task_instance_id != speaker.task_instance_id:
        raise HTTPException(403, "Token subject does not match task instance ID")


class PutTaskValue(Body):
    """`is_ref`: the value is a reference that a worker-side backend made."""

    value: Any
    expires_at: ExpiresAt = "default"
    is_ref: bool = False


@router.get("")
async def list_entries(
    context: Context, own: Own, what: Literal["keys", "references"] = "references"
) -> dict[str, Sequence[str] | Mapping[str, Any]]:
    """All keys; or by key the references that a worker-side backend has to remove when the store is cleared."""
    async with reading(context, own) as (connection, task):
        if what == "keys":
            return {what: await entries.task_keys(context, connection, _scope(task))}
        found = await task_entries.references(connection, _scope(task))
    return {what: {key: json.loads(stored) for key, stored in found.items()}}


@router.get("/{key:path}")
async def get_value(context: Context, own: Own, key: Key) -> dict[str, Any]:
    """Airflow's client accepts no other member than `value`, so a plain value carries no mark."""
    async with reading(context, own) as (connection, task):
        entry = await entries.task_entry(context, connection, _scope(task), key)
    value = {"value": json.loads(entry["value"])}
    return {**value, "is_ref": True} if entry["is_ref"] else value


@router.put("/{key:path}", status_code=204)
async def set_value(own: OwnWrite, key: Key, body: PutTaskValue) -> None:
    text = to_json(body.value)
    until = expiry(body.expires_at, own.context.default_retention_days)
    async with own.context.database.transaction() as connection:
        held = await fenced(connection, own)
        await stored.set_task(
            own.context.backend,
            task_scope(held),
            key,
            text,
            expires_at=until,
            is_ref=body.is_ref,
            connection=connection,
        )


@router.delete("/{key:path}", status_code=204)
async def delete_value(own: OwnWrite, key: Key) -> None:
    async with own.context.database.transaction() as connection:
        held = await fenced(connection, own)
        await stored.delete_task(own.context.backend, task_scope(held), key, connection=connection)


@router.delete("", status_code=204)
async def clear_values(own: OwnWrite) -> None:
    async with own.context.database.transaction() as connection:
        held = await fenced(connection, own)
        await stored.clear_task(own.context.backend, task_scope(held), connection=connection)


def _scope(task: RowMapping) -> TaskScope:
    return TaskScope(**{name: task[name] for name in ("dag_id", "run_id", "task_id", "map_index")})
