"""`/api/v2/dags`, their runs and task instances: people and tools look at them, pause jobs and trigger runs."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from store.catalog import assets
from store.database.paging import Window
from store.errors import Conflict, NotFound
from store.keys import TaskInstanceKey
from store.processes import audit
from store.runs import decisions, jobs, runs, task_instances
from store.runs.jobs import JOB_ORDERS
from store.runs.runs import RUN_ORDERS
from store.values import to_json
from watcher.api.auth import Actor, Operator, Viewer
from watcher.api.context import ApiContext, Context
from watcher.api.document import MAY_CONFLICT
from watcher.api.parameters import Body, MapIndex, Moment, Pattern, Text, TraceId, example, ordered_window
from watcher.api.shapes.dags import (
    DAGCollectionResponse,
    DAGResponse,
    DAGRunCollectionResponse,
    DAGRunResponse,
    TaskInstanceCollectionResponse,
    TaskInstanceResponse,
    dag_response,
    run_response,
    task_instance_response,
)
from watcher.api.writes import new_write_id
from watcher.loops import Hint

router = APIRouter(prefix="/dags", tags=["DAG"])
_ALL = "~"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~:+-]{0,249}")
_COLUMNS: Final = {"note", "logical_date", "data_interval_start", "data_interval_end"}
_RESERVED: Final = ("scheduled__", "asset_triggered__", "asset_materialization__", "backfill__")


class RunRequest(Body):
    """A run as somebody asks for it. `run_after` and partitions do not exist here: only null is accepted."""

    dag_run_id: Text | None = Field(default=None, max_length=250)
    data_interval_start: Moment | None = None
    data_interval_end: Moment | None = None
    logical_date: Moment | None = None
    run_after: None = None
    conf: dict[str, Any] | None = None
    note: Text | None = Field(default=None, max_length=1000)
    partition_key: None = None


class DAGPatchBody(Body):
    model_config = example(is_paused=True)

    is_paused: bool


class TriggerDAGRunPostBody(RunRequest):
    model_config = example(logical_date="2026-01-31T12:00:00Z", conf={"full": True})

    logical_date: Moment | None


class DAGRunPatchBody(Body):
    model_config = example(state="success", note="looked at it")

    state: Literal["queued", "success", "failed"] | None = None
    note: Text | None = Field(default=None, max_length=1000)


class DAGRunClearBody(Body):
    """As Airflow's: without `dry_run: false` it only tells what would be cleared."""

    model_config = example(dry_run=False)

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
        configured = await jobs.listed(connection, window, **names, paused=paused, only_active=exclude_stale)
        unprocessed = await decisions.unprocessed_of_jobs(connection, [job.dag_id for job in configured.rows])
    return DAGCollectionResponse(
        dags=[dag_response(job, unprocessed) for job in configured.rows], total_entries=configured.total
    )


@router.get("/{dag_id}")
async def get_dag(context: Context, _: Viewer, dag_id: str) -> DAGResponse:
    async with context.database.reading() as connection:
        job = await jobs.get(connection, dag_id)
        return dag_response(job, await decisions.unprocessed_of_jobs(connection, [dag_id]))


@router.patch("/{dag_id}")
async def patch_dag(context: Context, actor: Operator, dag_id: str, body: DAGPatchBody) -> DAGResponse:
    await pause(context, actor, dag_id, paused=body.is_paused)
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
    trace_id: TraceId = None,
) -> DAGRunCollectionResponse:
    names = {"id_pattern": run_id_pattern, "id_prefix": run_id_prefix_pattern, "trace_id": trace_id}
    one_job = None if dag_id == _ALL else dag_id
    async with context.database.reading() as connection:
        if one_job is not None:
            await jobs.get(connection, one_job)
        listed = await runs.listed(connection, window, dag_id=one_job, states=state, types=run_type, **names)
    return DAGRunCollectionResponse(dag_runs=[run_response(run) for run in listed.rows], total_entries=listed.total)


@router.post("/{dag_id}/dagRuns", responses=MAY_CONFLICT)
async def trigger_run(context: Context, actor: Operator, dag_id: str, body: TriggerDAGRunPostBody) -> DAGRunResponse:
    run_id = await trigger(context, actor, dag_id, body)
    return await get_run(context, actor, dag_id, run_id)


@router.get("/{dag_id}/dagRuns/{run_id}")
async def get_run(context: Context, _: Viewer, dag_id: str, run_id: str) -> DAGRunResponse:
    async with context.database.reading() as connection:
        return run_response(await runs.get(connection, dag_id, run_id))


@router.patch("/{dag_id}/dagRuns/{run_id}", responses=MAY_CONFLICT)
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
        await annotate(context, actor, dag_id, run_id, changes["note"])
    if changes.get("state") == "queued":
        await clear(context, actor, dag_id, run_id)
    elif changes.get("state") is not None:
        await settle(context, actor, dag_id, run_id, changes["state"])
    return await get_run(context, actor, dag_id, run_id)


@router.post("/{dag_id}/dagRuns/{run_id}/clear", responses=MAY_CONFLICT)
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
        await clear(context, actor, dag_id, run_id)
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


async def materialize(context: ApiContext, actor: Actor, asset_id: int, request: RunRequest) -> tuple[str, str]:
    """Make a run of the one job that has the asset as a direct outlet; returns its dag_id and run_id.

    Raises `NotFound` when there is none, `Conflict` when there are several, and what `trigger` raises.
    """
    async with context.database.reading() as connection:
        around = await assets.jobs_around(connection, [asset_id])
    producers = [job.dag_id for job in around if job.role == "outlet"]
    if not producers:
        raise NotFound(f"no job has the asset {asset_id} among its outlets; add it to one, or trigger a job by name")
    if len(producers) > 1:
        raise Conflict(f"several jobs update the asset {asset_id}: {', '.join(producers)}; trigger one of them by name")
    return producers[0], await trigger(context, actor, producers[0], request, run_type="asset_materialization")


async def clear(context: ApiContext, actor: Actor, dag_id: str, run_id: str) -> None:
    """Run it again with the same events. Raises `NotFound`, `Conflict`."""
    async with context.database.transaction() as connection:
        await decisions.clear(connection, dag_id, run_id)
        await audit.record(connection, actor.name, "run.clear", dag_id, {"run_id": run_id}, new_write_id())
    context.hint(Hint(what="tries"))


async def settle(context: ApiContext, actor: Actor, dag_id: str, run_id: str, state: str) -> None:
    """Cancel a run, or mark it as `success` or `failed`. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        reason, ended = await decisions.settle(connection, dag_id, run_id, state)
        action = "run.cancel" if reason == "cancelled" else "run.mark"
        await audit.record(connection, actor.name, action, dag_id, {"run_id": run_id, "state": state}, new_write_id())
    if ended is not None:
        context.metrics.count_end(ended)
    context.hint(Hint(what="tries"))
    context.hint(Hint(what="queues", names=frozenset({dag_id})))


async def annotate(context: ApiContext, actor: Actor, dag_id: str, run_id: str, note: str | None) -> None:
    """Write a note to a run, or take it away. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        await decisions.annotate(connection, dag_id, run_id, note)
        await audit.record(connection, actor.name, "run.annotate", dag_id, {"run_id": run_id}, new_write_id())


async def pause(context: ApiContext, actor: Actor, dag_id: str, *, paused: bool) -> None:
    """Pause a job or let it go on; what was queued meanwhile is looked at at once. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        await jobs.set_paused(connection, dag_id, paused=paused)
        await audit.record(connection, actor.name, "job.pause" if paused else "job.resume", dag_id, {}, new_write_id())
    if not paused:
        context.hint(Hint(what="tries"))
        context.hint(Hint(what="queues", names=frozenset({dag_id})))


async def trigger(context: ApiContext, actor: Actor, dag_id: str, request: RunRequest, run_type: str = "manual") -> str:
    """Make a queued run; returns its id. Raises `NotFound`, `Conflict`, `InvalidValue`, or 400 for a bad id."""
    run_id = _checked(request.dag_run_id) or f"{run_type}__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
    conf = to_json(request.conf or {})
    try:
        async with context.database.transaction() as connection:
            job = await jobs.get(connection, dag_id)
            if not job.active:
                raise NotFound(f"the job {dag_id!r} is not configured any more")
            kind = {"triggered_by": "rest_api", "run_type": run_type}
            columns = request.model_dump(include=_COLUMNS)
            await runs.create_run(connection, dag_id, run_id, job.task_id, **kind, conf=conf, **columns)
            await audit.record(connection, actor.name, "run.trigger", dag_id, {"run_id": run_id}, new_write_id())
    except IntegrityError:
        raise Conflict(f"the job {dag_id!r} has a run {run_id!r} already; give another dag_run_id, or none") from None
    context.hint(Hint(what="tries"))
    return run_id


def _checked(run_id: str | None) -> str | None:
    if run_id is None:
        return None
    if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} has other characters than A-Z a-z 0-9 _ . ~ : + -, or `..`"
        )
    if run_id.startswith(_RESERVED):
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} begins like those that the scheduler gives; choose another"
        )
    return run_id
