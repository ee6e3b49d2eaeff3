"""`/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store`: a task instance's store, as in Airflow 3.3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import TaskScope
from store.errors import NotFound
from store.processes import audit
from store.runs.tries import task_instances
from store.state.entries import TaskEntry
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.expiry import ExpiresAt, expiry
from watcher.serving.api.parameters import Body, Key, MapIndex, UnorderedWindow, example
from watcher.serving.api.shapes.base import JsonValue, Shape
from watcher.serving.api.sign_in.auth import Actor, Admin, Viewer
from watcher.serving.api.writes import json_within_limit

router = APIRouter(
    prefix="/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store", tags=["Task State Store"]
)

_NULL: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"application/json": {"schema": {"type": "null"}}}}}


class TaskStateStoreBody(Body):
    model_config = example(value={"done": 7}, expires_at="2099-01-31T12:00:00Z")

    value: Any
    expires_at: ExpiresAt = "default"


class TaskStateStorePatchBody(Body):
    model_config = example(value={"done": 8})

    value: Any


class TaskStateStoreResponse(Shape):
    """An entry of a task store. `updated_at` is null only if the configured store backend keeps no times.

    `is_ref` is present only for a reference.
    """

    key: str
    value: JsonValue
    updated_at: datetime | None
    expires_at: datetime | None
    is_ref: bool = False


class TaskStateStoreCollectionResponse(Shape):
    task_state_store: Sequence[TaskStateStoreResponse]
    total_entries: int


async def _scope(dag_id: str, run_id: str, task_id: str, map_index: MapIndex = -1) -> TaskScope:
    return TaskScope(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)


Scope = Annotated[TaskScope, Depends(_scope)]


@router.get("", response_model_exclude_defaults=True)
async def list_task_state_store(
    context: Context, _: Viewer, scope: Scope, window: UnorderedWindow
) -> TaskStateStoreCollectionResponse:
    """List the entries of a task instance.

    The list is empty for an unknown task instance, and for a backend that cannot list its entries.
    """
    async with context.database.reading() as connection:
        page = await context.entries.task_page(connection, scope, window)
    shown = [TaskStateStoreResponse.of(entry) for entry in page.rows]
    return TaskStateStoreCollectionResponse(task_state_store=shown, total_entries=page.total)


@router.get("/{key:path}", response_model_exclude_defaults=True)
async def get_task_state_store(context: Context, _: Viewer, scope: Scope, key: Key) -> TaskStateStoreResponse:
    """Return an entry of a task store."""
    async with context.database.reading() as connection:
        await task_instances.check(connection, scope)
        return TaskStateStoreResponse.of(await context.entries.task_entry(connection, scope, key))


@router.put("/{key:path}", status_code=204)
async def set_task_state_store(
    context: Context, actor: Admin, scope: Scope, key: Key, body: TaskStateStoreBody
) -> None:
    """Write an entry of a task store."""
    entry = TaskEntry(key=key, value=json_within_limit(context, body.value))
    until = expiry(body.expires_at, context.limits.default_retention_days)
    async with _audited(context, actor, scope, "set", key=key) as connection:
        await context.entries.set_task(connection, scope, entry, until)


@router.patch("/{key:path}", responses=_NULL | MAY_CONFLICT)
async def change_task_state_store(
    context: Context, actor: Admin, scope: Scope, key: Key, body: TaskStateStorePatchBody
) -> None:
    """Change the value of an existing entry and keep its expiry. The answer is null."""
    text = json_within_limit(context, body.value)
    async with _audited(context, actor, scope, "change", key=key) as connection:
        if not await context.entries.change_task(connection, scope, key, text):
            raise NotFound(f"the task store has no key {key!r}; create it with PUT")


@router.delete("/{key:path}", status_code=204)
async def delete_task_state_store(context: Context, actor: Admin, scope: Scope, key: Key) -> None:
    """Delete an entry of a task store if it exists."""
    async with _audited(context, actor, scope, "delete", key=key) as connection:
        await context.entries.delete_task(connection, scope, key)


@router.delete("", status_code=204)
async def clear_task_state_store(context: Context, actor: Admin, scope: Scope, all_map_indices: bool = False) -> None:
    """Delete all entries of a task store, or with `all_map_indices` those of all mapped task instances of the task."""
    async with _audited(context, actor, scope, "clear", all_map_indices=all_map_indices) as connection:
        await context.entries.clear_task(connection, scope, all_map_indices=all_map_indices)


@asynccontextmanager
async def _audited(
    context: ApiContext, actor: Actor, scope: TaskScope, action: str, **detail: Any
) -> AsyncIterator[AsyncConnection]:
    """Yield a transaction that changes a task instance's store, and add the audit entry. Raise `NotFound` for an unknown instance."""
    async with context.database.transaction() as connection:
        siblings = detail.get("all_map_indices", False)
        await task_instances.check(connection, scope, any_map_index=siblings)
        yield connection
        target = f"{scope.dag_id}/{scope.run_id}/{scope.task_id}/{scope.map_index}"
        await audit.record(connection, actor.name, f"task_store.{action}", target, detail)
