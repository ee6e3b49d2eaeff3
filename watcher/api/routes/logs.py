"""The logs of tries: Airflow's route, and around a write."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse

from store.runs import runs
from watcher.api.auth import Viewer
from watcher.api.context import Context
from watcher.api.log_answers import LogQueryParameters, answer, in_form
from watcher.api.parameters import BIGGEST, MapIndex
from watcher.logs import try_log
from watcher.logs.reading import fragment

router = APIRouter(tags=["Logs"])
_FIRST_FRAGMENT = 1000
_FULL_CONTENT = 100_000
"""Lines in one answer; the continuation token leads to the rest."""
Token = Annotated[int, Query(ge=0, le=BIGGEST, description="The continuation token of the fragment before.")]


@router.get("/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}")
async def get_log(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: Annotated[int, Path(ge=0, lt=2**31)],
    query: LogQueryParameters,
    map_index: MapIndex = -1,
    full_content: bool = False,
    token: Token = 0,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    path = try_log(context.logs_directory, dag_id, run_id, task_id, map_index, try_number)
    async with context.database.reading() as connection:
        await runs.task_instance_by(connection, dag_id, run_id, task_id, map_index)
    if query.around is not None or query.following:
        return await answer(context, lambda: [[path]], query, accept)
    lines = _FULL_CONTENT if full_content else _FIRST_FRAGMENT
    found = await anyio.to_thread.run_sync(partial(fragment, path, token, lines))
    following = None if found.next_offset is None else str(found.next_offset)
    if "ndjson" in accept or "text/" in accept:
        response = in_form(found.records, accept)
        response.headers["Airflow-Continuation-Token"] = following or ""
        return response
    return JSONResponse({"content": found.records, "continuation_token": following})
