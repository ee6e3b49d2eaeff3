"""`/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store`: a task instance's store, as in Airflow 3.3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from store.base import TaskScope
from store.database.paging import Page
from store.runs import runs
from store.state import entries as stored
from store.state import task_entries
from watcher.api import entries, task_store
from watcher.api.auth import Admin, Viewer
from watcher.api.context import Context
from watcher.api.parameters import Body, Key, MapIndex, UnorderedWindow
from watcher.api.retention import ExpiresAt
from watcher.api.shapes.task_entries import TaskStateStoreCollectionResponse, TaskStateStoreResponse, task_entry

router = APIRouter(
    prefix="/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store", tags=["Task State Store"]
)


class TaskStateStoreBody(Body):
    value: Any
    expires_at: ExpiresAt = "default"


class TaskStateStorePatchBody(Body):
    value: Any


async def _scope(dag_id: str, run_id: str, task_id: str, map_index: MapIndex = -1) -> TaskScope:
    return TaskScope(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)


Scope = Annotated[TaskScope, Depends(_scope)]


@router.get("", response_model_exclude_defaults=True)
async def list_task_state_store(
    context: Context, _: Viewer, scope: Scope, window: UnorderedWindow
) -> TaskStateStoreCollectionResponse:
    """An unknown task instance has none; nor has one whose entries are in a backend that cannot be listed."""
    found = Page(rows=[], total=0)
    if stored.knows_writers(context.backend):
        async with context.database.reading() as connection:
            found = await task_entries.entries(connection, scope, window)
    shown = [task_entry(row) for row in found.rows]
    return TaskStateStoreCollectionResponse(task_state_store=shown, total_entries=found.total)


@router.get("/{key:path}", response_model_exclude_defaults=True)
async def get_task_state_store(context: Context, _: Viewer, scope: Scope, key: Key) -> TaskStateStoreResponse:
    async with context.database.reading() as connection:
        await runs.check_task_instance(connection, scope)
        return task_entry(await entries.task_entry(context, connection, scope, key))


@router.put("/{key:path}", status_code=204)
async def set_task_state_store(
    context: Context, actor: Admin, scope: Scope, key: Key, body: TaskStateStoreBody
) -> None:
    await task_store.set_entry(context, actor, scope, key, body.value, body.expires_at)


@router.patch("/{key:path}")
async def change_task_state_store(
    context: Context, actor: Admin, scope: Scope, key: Key, body: TaskStateStorePatchBody
) -> None:
    """Answers null; the entry expires when it did before."""
    await task_store.change_entry(context, actor, scope, key, body.value)


@router.delete("/{key:path}", status_code=204)
async def delete_task_state_store(context: Context, actor: Admin, scope: Scope, key: Key) -> None:
    await task_store.delete_entry(context, actor, scope, key)


@router.delete("", status_code=204)
async def clear_task_state_store(context: Context, actor: Admin, scope: Scope, all_map_indices: bool = False) -> None:
    await task_store.clear_entries(context, actor, scope, all_map_indices=all_map_indices)
