"""The logs of tries: Airflow's route, and around a write."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse

from store.keys import TaskInstanceKey
from store.runs import task_instances, tries
from watcher.api.auth import Viewer
from watcher.api.context import Context
from watcher.api.log_answers import LogQueryParameters, answer, in_form
from watcher.api.parameters import BIGGEST, MapIndex
from watcher.logs import try_log
from watcher.logs.reader import Fragment, fragment, fragment_of
from watcher.submit.base import Handle, Submitter

router = APIRouter(tags=["Logs"])
_FIRST_FRAGMENT = 1000
_FULL_CONTENT = 100_000
"""Lines in one answer; the continuation token leads to the rest."""
_PATIENCE: Final = 30.0
_MOST_BYTES: Final = 16_000_000
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
    instance = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    async with context.database.reading() as connection:
        await task_instances.check(connection, instance)
        stored = await tries.stored_handle(connection, instance, try_number)
    if query.around is not None or query.following:
        return await answer(context, lambda: [[path]], query, accept)
    lines = _FULL_CONTENT if full_content else _FIRST_FRAGMENT
    submitter = None if stored is None else context.submitters.get(stored[0])
    if stored is None or submitter is None or submitter.ends_with_home:
        part = await anyio.to_thread.run_sync(partial(fragment, path, token, lines))
    else:
        part = await _remote_fragment(submitter, json.loads(stored[1]), token, lines)
        if not token:  # of such a try the daemon's own records only are in the file
            own = await anyio.to_thread.run_sync(partial(fragment, path, 0, lines))
            part = replace(part, records=[*own.records, *part.records])
    following = None if part.next_offset is None else str(part.next_offset)
    if "ndjson" in accept or "text/" in accept:
        response = in_form(part.records, accept)
        response.headers["Airflow-Continuation-Token"] = following or ""
        return response
    return JSONResponse({"content": part.records, "continuation_token": following})


async def _remote_fragment(submitter: Submitter, handle: Handle, offset: int, lines: int) -> Fragment:
    """Of a driver's log that is kept where the driver runs; a submitter that cannot read it now is a line of it."""
    data = b""
    try:
        with anyio.fail_after(_PATIENCE):
            async for chunk in submitter.logs(handle, offset):
                data += chunk
                if data.count(b"\n") > lines or len(data) > _MOST_BYTES:
                    break
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        sentence = f"the submitter could not read the driver's log ({type(error).__name__}: {error}); ask again later"
        return Fragment(records=[{"event": "log.unreachable", "level": "error", "error": sentence}], next_offset=None)
    return fragment_of(data, offset, lines)
