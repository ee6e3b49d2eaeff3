"""`/api/v2/execution-tokens`: tokens with which tasks of a neighbouring Airflow write stores here.

Such a task writes with the writer kind `task` and its own ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.errors import no_asset
from store.keys import TaskInstanceKey
from store.processes import audit
from store.runs.tries import foreign_tasks
from watcher.serving import try_tokens
from watcher.serving.api.context import Context
from watcher.serving.api.document.refusals import MAY_CONFLICT, MAY_MISS
from watcher.serving.api.parameters import Body, MapIndex, Text, example
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Admin

router = APIRouter(prefix="/api/v2/execution-tokens", tags=["Tokens"])
_LONGEST: Final = 30 * 86_400
_MOST_ASSETS: Final = 100
_Name = Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}$")]
_RunId = Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.~:+-]{0,249}$")]


class ForeignTask(Body):
    """A task of another scheduler. `assets`: names of the assets whose stores it may access. `expires_in`: seconds."""

    model_config = example(
        dag_id="their_dag", run_id="manual__1", task_id="extract", assets=["orders"], expires_in=3600
    )

    dag_id: _Name
    run_id: _RunId
    task_id: _Name
    map_index: MapIndex = -1
    assets: Annotated[Sequence[Text], Field(min_length=1, max_length=_MOST_ASSETS)]
    expires_in: Annotated[int, Field(ge=1, le=_LONGEST)] = 3600


class ExecutionToken(Shape):
    token: str
    task_instance_id: str
    expires_at: datetime


@router.post("", status_code=201, responses=MAY_MISS | MAY_CONFLICT)
async def create_execution_token(context: Context, actor: Admin, body: ForeignTask) -> ExecutionToken:
    """Create a token for a task of another scheduler. 409 means that the `dag_id` is a job of this one.

    The token cannot be renewed or revoked, so it should expire when the task ends.
    """
    key = TaskInstanceKey(dag_id=body.dag_id, run_id=body.run_id, task_id=body.task_id, map_index=body.map_index)
    async with context.database.transaction() as connection:
        granted = await _ids(connection, body.assets)
        ref = await foreign_tasks.register(connection, key, body.expires_in, context.database.dialect)
        detail = {**key.columns, "task_instance_id": ref.task_instance_id, "assets": list(body.assets)}
        await audit.record(connection, actor.name, "execution_token.create", body.dag_id, detail)
    token = try_tokens.issue(
        context.sign_in.secrets[0],
        ref,
        lifetime=timedelta(seconds=body.expires_in),
        assets=granted,
    )
    expires_at = try_tokens.verify(context.sign_in.secrets, token).expires_at
    return ExecutionToken(token=token, task_instance_id=ref.task_instance_id, expires_at=expires_at)


async def _ids(connection: AsyncConnection, names: Sequence[str]) -> set[int]:
    """Return the ids of the active assets with these names. Raises `NotFound`."""
    ids = await assets.ids_by_name(connection)
    for name in names:
        if name not in ids:
            raise no_asset(name)
    return {ids[name] for name in names}
