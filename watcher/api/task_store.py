"""People and tools change a task instance's store; each change has its entry in the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from store import abilities, audit, run_listings
from store.base import TaskScope
from store.errors import NotFound
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
    async with _write(context, actor, scope, "set", key=key) as session:
        await abilities.set_task(context.backend, scope, key, text, expires_at=until, session=session)


async def change_entry(context: ApiContext, actor: Actor, scope: TaskScope, key: str, value: Any) -> None:
    """Give an entry another value; it expires when it did before. Raises `InvalidValue`, `NotFound`, `Conflict`."""
    text = json_within_limit(context, value)
    async with _write(context, actor, scope, "change", key=key) as session:
        if not await abilities.change_task(context.backend, scope, key, text, session=session):
            raise NotFound(f"the task store has no key {key!r}")


async def delete_entry(context: ApiContext, actor: Actor, scope: TaskScope, key: str) -> None:
    """Remove one entry if it is there. Raises `NotFound` for the task instance."""
    async with _write(context, actor, scope, "delete", key=key) as session:
        await abilities.delete_task(context.backend, scope, key, session=session)


async def clear_entries(context: ApiContext, actor: Actor, scope: TaskScope, *, all_map_indices: bool) -> None:
    """Remove all entries, also those of mapped siblings if asked. Raises `NotFound` for the task instance."""
    async with _write(context, actor, scope, "clear", all_map_indices=all_map_indices) as session:
        await abilities.clear_task(context.backend, scope, all_map_indices=all_map_indices, session=session)


@asynccontextmanager
async def _write(
    context: ApiContext, actor: Actor, scope: TaskScope, action: str, **detail: Any
) -> AsyncIterator[AsyncSession]:
    async with context.database.transaction() as session:
        siblings = detail.get("all_map_indices", False)
        await run_listings.check_task_instance(session, scope, any_map_index=siblings)
        yield session
        target = f"{scope.dag_id}/{scope.run_id}/{scope.task_id}/{scope.map_index}"
        await audit.record(session, actor=actor.name, action=f"task_store.{action}", target=target, detail=detail)
