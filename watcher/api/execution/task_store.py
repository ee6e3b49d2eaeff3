"""`/execution/store/ti`: the state of the task instance that the token speaks for, and of no other."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path
from sqlalchemy import RowMapping

from store.base import NEVER_EXPIRE, NeverExpire, TaskScope
from store.errors import NotFound
from store.values import to_json
from watcher.api.context import Context
from watcher.api.execution.identity import Identity, fenced, reading, task_scope
from watcher.api.parameters import Body, Key, Moment
from watcher.try_tokens import TryIdentity

router = APIRouter(prefix="/store/ti/{task_instance_id}", tags=["Execution: task store"])


def _own(task_instance_id: Annotated[str, Path()], identity: Identity) -> TryIdentity:
    if task_instance_id != identity.task_instance_id:
        raise HTTPException(403, "Token subject does not match task instance ID")
    return identity


Own = Annotated[TryIdentity, Depends(_own)]


class PutTaskValue(Body):
    """`expires_at`: a time; null is never; left out, or `default`, means the configured retention."""

    value: Any
    expires_at: Moment | Literal["default"] | None = "default"

    @property
    def expiry(self) -> datetime | NeverExpire | None:
        """As `BaseStoreBackend.set` takes it."""
        match self.expires_at:
            case "default":
                return None
            case None:
                return NEVER_EXPIRE
            case datetime() as moment:
                return moment


@router.get("/{key:path}")
async def get_value(context: Context, own: Own, key: Key) -> dict[str, Any]:
    async with reading(context, own) as (session, task):
        text = await context.backend.aget(_scope(task), key, session=session)
    if text is None:
        raise NotFound(f"the task store has no key {key!r}")
    return {"value": json.loads(text)}


@router.put("/{key:path}", status_code=204)
async def set_value(context: Context, own: Own, key: Key, body: PutTaskValue) -> None:
    text = to_json(body.value)
    async with context.database.transaction() as session:
        held = await fenced(session, own)
        await context.backend.aset(task_scope(held), key, text, expires_at=body.expiry, session=session)


@router.delete("/{key:path}", status_code=204)
async def delete_value(context: Context, own: Own, key: Key) -> None:
    async with context.database.transaction() as session:
        held = await fenced(session, own)
        await context.backend.adelete(task_scope(held), key, session=session)


@router.delete("", status_code=204)
async def clear_values(context: Context, own: Own) -> None:
    async with context.database.transaction() as session:
        held = await fenced(session, own)
        await context.backend.aclear(task_scope(held), session=session)


def _scope(task: RowMapping) -> TaskScope:
    return TaskScope(**{name: task[name] for name in ("dag_id", "run_id", "task_id", "map_index")})
