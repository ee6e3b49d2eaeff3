"""`/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances`: task instances and their tries. Each run has one task instance.

Some routes exist twice, as in Airflow: with and without the map index in the path, where -1 means not mapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import Field

from store.database.paging import PageRequest
from store.errors import NotFound
from store.keys import TaskInstanceKey
from store.runs import jobs, runs
from store.runs.tries import task_instances
from store.runs.tries.task_instances import TASK_ORDERS, TaskInstance
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.filters import TaskInstancesBatchBody, TaskQuery
from watcher.serving.api.parameters import BIGGEST_SMALL, AnyMapIndex, cursor_window, window_of_body
from watcher.serving.api.routes.dags import ALL
from watcher.serving.api.shapes.task_instances import (
    ExtraLinkCollectionResponse,
    TaskDependencyCollectionResponse,
    TaskDependencyResponse,
    TaskInstanceCollectionResponse,
    TaskInstanceHistoryCollectionResponse,
    TaskInstanceHistoryResponse,
    TaskInstanceResponse,
    history_link,
    task_collection,
    task_instance_response,
    try_response,
)
from watcher.serving.api.sign_in.auth import Viewer

router = APIRouter(prefix="/api/v2/dags/{dag_id}", tags=["Task Instance"])
_MOST_TRIES: Final = 1000
"""The newest tries, which a list shows at most."""
_TryNumber: TypeAlias = Annotated[int, Field(ge=0, le=BIGGEST_SMALL)]


@router.get("/dagRuns/{run_id}/taskInstances")
async def list_task_instances(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    window: Annotated[PageRequest, Depends(cursor_window(TASK_ORDERS, "map_index"))],
    query: Annotated[TaskQuery, Query()],
) -> TaskInstanceCollectionResponse:
    """List the task instances of a run. With `~` they are those of all runs, or of all jobs."""
    if dag_id == ALL and run_id != ALL:
        raise HTTPException(400, "a run is identified by its job and its id; give the dag_id as well, or `~` for both")
    of_job, of_run = (None if name == ALL else name for name in (dag_id, run_id))
    async with context.database.reading() as connection:
        if of_run is not None:
            await runs.get(connection, dag_id, of_run)
        elif of_job is not None:
            await jobs.get(connection, of_job)
        return task_collection(await task_instances.listed(connection, query.filter(of_job, of_run), window))


@router.post("/dagRuns/{run_id}/taskInstances/list")
async def list_task_instances_by_body(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    body: TaskInstancesBatchBody,
) -> TaskInstanceCollectionResponse:
    """List task instances with the filters in a body. Airflow accepts only `~` for both ids here."""
    of_job, of_run = ([] if name == ALL else [name] for name in (dag_id, run_id))
    which = body.filter
    which = replace(which, dag_ids=of_job or which.dag_ids, run_ids=of_run or which.run_ids)
    window = window_of_body(body.page_offset, body.page_limit, body.order_by, TASK_ORDERS, "map_index")
    async with context.database.reading() as connection:
        return task_collection(await task_instances.listed(connection, which, window))


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/tries")
@router.get(
    "/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}/tries", name="list_tries_of_mapped_task_instance"
)
async def list_tries(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: AnyMapIndex = -1
) -> TaskInstanceHistoryCollectionResponse:
    """List the tries, oldest first. There are none before the first one has begun."""
    tries = await _tries(context, key_of(dag_id, run_id, task_id, map_index))
    return TaskInstanceHistoryCollectionResponse(task_instances=tries, total_entries=len(tries))


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/tries/{try_number}")
@router.get(
    "/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}/tries/{try_number}", name="get_try_of_mapped"
)
async def get_try(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: _TryNumber,
    map_index: AnyMapIndex = -1,
) -> TaskInstanceHistoryResponse:
    """Return one try of a task instance."""
    for each in await _tries(context, key_of(dag_id, run_id, task_id, map_index)):
        if each.try_number == try_number:
            return each
    raise NotFound(f"the run {run_id!r} of {dag_id!r} has no try {try_number}")


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/dependencies")
@router.get(
    "/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}/dependencies", name="get_dependencies_of_mapped"
)
async def get_dependencies(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: AnyMapIndex = -1
) -> TaskDependencyCollectionResponse:
    """List the reasons why a queued task instance has not been started."""
    task = await existing(context, key_of(dag_id, run_id, task_id, map_index))
    waits = task.state == "queued" and task.detail is not None
    reasons = [TaskDependencyResponse(name="Admission", reason=str(task.detail))] if waits else []
    return TaskDependencyCollectionResponse(dependencies=reasons)


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/links")
async def get_links(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: Annotated[AnyMapIndex, Query()] = -1,
    try_number: Annotated[_TryNumber | None, Query()] = None,
) -> ExtraLinkCollectionResponse:
    """Return the links of the newest try, or of the try `try_number`."""
    key = key_of(dag_id, run_id, task_id, map_index)
    progress = (await existing(context, key)).progress
    if try_number is not None:
        async with context.database.reading() as connection:
            tries = await task_instances.tries_of_run(connection, dag_id, run_id, limit=_MOST_TRIES)
        progress = next((each.progress for each in tries if each.try_number == try_number), None)
    link = history_link(context.links.spark_history_url, progress)
    return ExtraLinkCollectionResponse(
        extra_links={"Spark history": link} if link else {}, total_entries=int(bool(link))
    )


# These come after the routes that have a word in place of the map index.
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}")
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}", name="get_mapped_task_instance")
async def get_task_instance(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: AnyMapIndex = -1
) -> TaskInstanceResponse:
    """Return a task instance."""
    return task_instance_response(await existing(context, key_of(dag_id, run_id, task_id, map_index)))


def key_of(dag_id: str, run_id: str, task_id: str, map_index: int) -> TaskInstanceKey:
    return TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)


async def existing(context: ApiContext, key: TaskInstanceKey) -> TaskInstance:
    async with context.database.reading() as connection:
        return await task_instances.get(connection, key)


async def _tries(context: ApiContext, key: TaskInstanceKey) -> Sequence[TaskInstanceHistoryResponse]:
    async with context.database.reading() as connection:
        task = await task_instances.get(connection, key)
        newest_first = await task_instances.tries_of_run(connection, key.dag_id, key.run_id, limit=_MOST_TRIES)
    return [try_response(task, of_run) for of_run in reversed(newest_first)]
