"""People and tools change a task instance's store; each change has its entry in the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import TaskScope
from store.errors import NotFound
from store.processes import audit
from store.runs import runs
from store.state import entries
from watcher.api.auth import Actor
from watcher.api.context import ApiContext
from watcher.api.retention import ExpiresAt, expiry
from watcher.api.writes import json_within_limit


async def set_entry(
    context: ApiContext, actor: Actor, scope: TaskScope, key: str, value: Any, expires_at: ExpiresAt
) -> None:
    """Write one entry. Raises `InvalidValue`, `NotFound` for the task instance."""
    text = json_within_limit(context, value)
    until = expiry(expires_at, context.default_retention_days)
    async with _write(context, actor, scope, "set", key=key) as connection:
        await entries.set_task(context.backend, scope, key, text, expires_at=until, connection=connection)


async def change_entry(context: ApiContext, actor: Actor, scope: TaskScope, key: str, value: Any) -> None:
    """Give an entry another value; it expires when it did before. Raises `InvalidValue`, `NotFound`, `Conflict`."""
    text = json_within_limit(context, value)
    async with _write(context, actor, scope, "change", key=key) as connection:
        if not await entries.change_task(context.backend, scope, key, text, connection=connection):
            raise NotFound(f"the task store has no key {key!r}")


async def delete_entry(context: ApiContext, actor: Actor, scope: TaskScope, key: str) -> None:
    """Remove one entry if it is there. Raises `NotFound` for the task instance."""
    async with _write(context, actor, scope, "delete", key=key) as connection:
        await entries.delete_task(context.backend, scope, key, connection=connection)


async def clear_entries(context: ApiContext, actor: Actor, scope: TaskScope, *, all_map_indices: bool) -> None:
    """Remove all entries, also those of mapped siblings if asked. Raises `NotFound` for the task instance."""
    async with _write(context, actor, scope, "clear", all_map_indices=all_map_indices) as connection:
        await entries.clear_task(context.backend, scope, all_map_indices=all_map_indices, connection=connection)


@asynccontextmanager
async def _write(
    context: ApiContext, actor: Actor, scope: TaskScope, action: str, **detail: Any
) -> AsyncIterator[AsyncConnection]:
    async with context.database.transaction() as connection:
        siblings = detail.get("all_map_indices", False)
        await runs.check_task_instance(connection, scope, any_map_index=siblings)
        yield connection
        target = f"{scope.dag_id}/{scope.run_id}/{scope.task_id}/{scope.map_index}"
        await audit.record(connection, actor=actor.name, action=f"task_store.{action}", target=target, detail=detail)
