"""`/api/v2/dags`, their runs and task instances."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from store.database.paging import Window
from store.keys import TaskInstanceKey
from store.runs import decisions, runs, task_instances
from store.runs import jobs as stored_jobs
from store.runs.jobs import JOB_ORDERS
from store.runs.runs import RUN_ORDERS
from watcher.api import jobs
from watcher.api.auth import Operator, Viewer
from watcher.api.context import Context
from watcher.api.jobs import RunRequest
from watcher.api.parameters import Body, MapIndex, Moment, Pattern, Text, ordered_window
from watcher.api.shapes.dags import DAGCollectionResponse, DAGResponse, dag_response
from watcher.api.shapes.runs import (
    DAGRunCollectionResponse,
    DAGRunResponse,
    TaskInstanceCollectionResponse,
    TaskInstanceResponse,
    run_response,
    task_instance_response,
)

router = APIRouter(prefix="/dags", tags=["DAG"])
_ALL = "~"


class DAGPatchBody(Body):
    is_paused: bool


class TriggerDAGRunPostBody(RunRequest):
    logical_date: Moment | None


class DAGRunPatchBody(Body):
    state: Literal["queued", "success", "failed"] | None = None
    note: Text | None = Field(default=None, max_length=1000)


class DAGRunClearBody(Body):
    """As Airflow's: without `dry_run: false` it only tells what would be cleared."""

    dry_run: bool = True
    only_failed: bool = False
    only_new: Literal[False] = False
    run_on_latest_version: bool = False


@router.get("")
async def list_dags(
    context: Context,
    _: Viewer,
    window: Annotated[Window, Depends(ordered_window(JOB_ORDERS, "dag_id"))],
    dag_id_pattern: Pattern = None,
    dag_id_prefix_pattern: Pattern = None,
    paused: bool | None = None,
    exclude_stale: bool = True,
) -> DAGCollectionResponse:
    names = {"id_pattern": dag_id_pattern, "id_prefix": dag_id_prefix_pattern}
    async with context.database.reading() as connection:
        configured = await stored_jobs.listed(connection, window, **names, paused=paused, only_active=exclude_stale)
        unprocessed = await decisions.unprocessed_of_jobs(connection, [job.dag_id for job in configured.rows])
    return DAGCollectionResponse(
        dags=[dag_response(job, unprocessed) for job in configured.rows], total_entries=configured.total
    )


@router.get("/{dag_id}")
async def get_dag(context: Context, _: Viewer, dag_id: str) -> DAGResponse:
    async with context.database.reading() as connection:
        job = await stored_jobs.get(connection, dag_id)
        return dag_response(job, await decisions.unprocessed_of_jobs(connection, [dag_id]))


@router.patch("/{dag_id}")
async def patch_dag(context: Context, actor: Operator, dag_id: str, body: DAGPatchBody) -> DAGResponse:
    await jobs.pause(context, actor, dag_id, paused=body.is_paused)
    return await get_dag(context, actor, dag_id)


@router.get("/{dag_id}/dagRuns")
async def list_runs(
    context: Context,
    _: Viewer,
    dag_id: str,
    window: Annotated[Window, Depends(ordered_window(RUN_ORDERS, "id"))],
    state: Annotated[list[str] | None, Query()] = None,
    run_type: Annotated[list[str] | None, Query()] = None,
    run_id_pattern: Pattern = None,
    run_id_prefix_pattern: Pattern = None,
) -> DAGRunCollectionResponse:
    names = {"id_pattern": run_id_pattern, "id_prefix": run_id_prefix_pattern}
    one_job = None if dag_id == _ALL else dag_id
    async with context.database.reading() as connection:
        if one_job is not None:
            await stored_jobs.get(connection, one_job)
        listed = await runs.listed(connection, window, dag_id=one_job, states=state, types=run_type, **names)
    return DAGRunCollectionResponse(dag_runs=[run_response(run) for run in listed.rows], total_entries=listed.total)


@router.post("/{dag_id}/dagRuns")
async def trigger_run(context: Context, actor: Operator, dag_id: str, body: TriggerDAGRunPostBody) -> DAGRunResponse:
    run_id = await jobs.trigger(context, actor, dag_id, body)
    return await get_run(context, actor, dag_id, run_id)


@router.get("/{dag_id}/dagRuns/{run_id}")
async def get_run(context: Context, _: Viewer, dag_id: str, run_id: str) -> DAGRunResponse:
    async with context.database.reading() as connection:
        return run_response(await runs.get(connection, dag_id, run_id))


@router.patch("/{dag_id}/dagRuns/{run_id}")
async def patch_run(
    context: Context,
    actor: Operator,
    dag_id: str,
    run_id: str,
    body: DAGRunPatchBody,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> DAGRunResponse:
    """`failed` cancels a run that is not over, `queued` clears one that is; `success` and `failed` mark else."""
    changes = body.model_dump(include=set(update_mask) if update_mask else None, exclude_unset=True)
    if "note" in changes:
        await jobs.annotate(context, actor, dag_id, run_id, changes["note"])
    if changes.get("state") == "queued":
        await jobs.clear(context, actor, dag_id, run_id)
    elif changes.get("state") is not None:
        await jobs.settle(context, actor, dag_id, run_id, changes["state"])
    return await get_run(context, actor, dag_id, run_id)


@router.post("/{dag_id}/dagRuns/{run_id}/clear")
async def clear_run(
    context: Context, actor: Operator, dag_id: str, run_id: str, body: DAGRunClearBody
) -> DAGRunResponse | TaskInstanceCollectionResponse:
    """The same run with the same events, by its next try."""
    async with context.database.reading() as connection:
        await runs.get(connection, dag_id, run_id)
        tasks = await task_instances.of_run(connection, dag_id, run_id)
    cleared = [task_instance_response(task) for task in tasks if not body.only_failed or task.state == "failed"]
    if body.dry_run:
        return TaskInstanceCollectionResponse(task_instances=cleared, total_entries=len(cleared))
    if cleared:
        await jobs.clear(context, actor, dag_id, run_id)
    return await get_run(context, actor, dag_id, run_id)


@router.get("/{dag_id}/dagRuns/{run_id}/taskInstances")
async def list_task_instances(context: Context, _: Viewer, dag_id: str, run_id: str) -> TaskInstanceCollectionResponse:
    async with context.database.reading() as connection:
        await runs.get(connection, dag_id, run_id)
        tasks = await task_instances.of_run(connection, dag_id, run_id)
    shown = [task_instance_response(task) for task in tasks]
    return TaskInstanceCollectionResponse(task_instances=shown, total_entries=len(shown))


@router.get("/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
async def get_task_instance(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: MapIndex = -1
) -> TaskInstanceResponse:
    key = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    async with context.database.reading() as connection:
        return task_instance_response(await task_instances.get(connection, key))
