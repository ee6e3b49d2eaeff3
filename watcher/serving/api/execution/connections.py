"""`/execution/connections`: the secrets of a job's connections, for a job whose sign-in was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter

from store.errors import NotFound
from store.runs.tries import tries
from watcher.serving.api.context import Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.execution.identity import Identity, OwnTry, forbidden

router = APIRouter(prefix="/execution", tags=["Execution: connections"], dependencies=[OwnTry])


_REFUSALS: Final = {**MAY_CONFLICT, 502: {"description": "The place of a changing password does not answer."}}


@router.get("/connections/{name}", responses=_REFUSALS)
async def get_connection(context: Context, identity: Identity, name: str) -> Mapping[str, Any]:
    """Return a connection that the job's `spark.connections` names, as in the job's context, with its password of now.

    Only the current try of the job gets it, and only while it has not ended.
    """
    async with context.database.transaction() as connection:
        key = await tries.fence(connection, identity)
    if context.jobs.connection is None:
        raise NotFound("no daemon answers, and only a daemon knows connections")
    revealed = await context.jobs.connection(key.instance.dag_id, name)
    if revealed is None:
        raise forbidden(
            f"the job {key.instance.dag_id} has no connection {name!r}; add it to its spark.connections and retry the run"
        )
    return revealed
