"""`/execution/superseded`: a job that does not find a file asks for which of its files newer versions count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, HTTPException, Response
from pydantic import Field

from store.features.versions import superseded_items
from store.runs.tries import task_instances
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.execution.identity import OwnTry, Writing, fenced, stored_answer
from watcher.serving.api.parameters import Body, Text, example
from watcher.serving.api.shapes.base import Shape

MOST_PATHS: Final = 10_000
"""The most paths that one request may name."""
router = APIRouter(prefix="/execution", tags=["Execution: tries"], dependencies=[OwnTry])
ROUTERS: Final = (router,)
log = structlog.get_logger()


class AskedPaths(Body):
    """Files of the try, by their `key` or `path` in its events."""

    model_config = example(paths=["in/status.json"])

    paths: list[Annotated[Text, Field(max_length=4096)]]


class SupersededPaths(Shape):
    """Those of the files that are left out from now on."""

    superseded: Sequence[str]


@router.post("/superseded", response_model=SupersededPaths, responses=MAY_CONFLICT)
async def superseded(call: Writing, body: AskedPaths, response: Response) -> Response:
    """Return those of the files of which a newer version is queued, running or loaded at this job: the try leaves them out.

    A job asks after it did not find a file. 413: more than 10,000 paths. A run that has succeeded before leaves out nothing so.
    """
    if len(body.paths) > MOST_PATHS:
        raise HTTPException(413, f"{len(body.paths):,} paths are more than {MOST_PATHS:,}: ask for fewer at a time")
    async with call.context.database.reading() as connection:
        task = await task_instances.key_of(connection, call.ref.task_instance_id)
        missed = await superseded_items.missed(connection, task, {*body.paths})
    answer = SupersededPaths(superseded=sorted(missed))
    async with call.context.database.transaction() as connection:
        key = await fenced(connection, call)
        if missed:
            await superseded_items.leave_out(connection, key, [*chain(*missed.values())])
        stored = await stored_answer(connection, call, response, answer.model_dump_json())
    if missed:
        log.info("try.superseded", files=len(missed), **key.bindings)
    return stored
