"""`/api/v2/dags/{dag_id}/dagRuns`: people and tools list, trigger, mark, clear and delete runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import anyio
from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from store.database.paging import PageRequest
from store.detection.event_lists import StoredEvent
from store.errors import NotFound
from store.runs import consumption, jobs, run_lists, runs
from store.runs.queue.queues import ACTIVE
from store.runs.run_lists import RUN_ORDERS
from store.runs.runs import RunRow
from store.runs.tries import task_instances
from store.runs.tries.task_instances import TaskInstance
from watcher.serving.api.bulk import BulkBody, BulkCreateAction, BulkDeleteAction, BulkResponse, apply_each
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import (
    LackingItems,
    Note,
    RunRequest,
    annotate,
    change,
    check_clear,
    clear,
    delete_run,
    resolve,
    trigger,
)
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.filters import DAGRunsBatchBody, RunQuery
from watcher.serving.api.parameters import Body, Moment, Text, cursor_window, example, window_of_body
from watcher.serving.api.routes.dags import ALL
from watcher.serving.api.shapes.assets import AssetEventCollectionResponse, event_response
from watcher.serving.api.shapes.dag_runs import DAGRunCollectionResponse, DAGRunResponse, run_collection, run_response
from watcher.serving.api.shapes.task_instances import TaskInstanceCollectionResponse, all_of
from watcher.serving.api.sign_in.auth import Listener, Operator, Viewer

router = APIRouter(prefix="/api/v2/dags/{dag_id}", tags=["DagRun"])
_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Lines of JSON, one for each check of the run.",
        "content": {"text/plain": {"schema": {"type": "string", "examples": ['{"state": "running"}\n']}}},
    }
}
_SHORTEST_INTERVAL: Final = 0.5
"""Seconds between two checks of a run that a client waits for, at least."""


class TriggerDAGRunPostBody(RunRequest):
    model_config = example(logical_date="2026-01-31T12:00:00Z", conf={"full": True})

    logical_date: Moment | None


class DAGRunPatchBody(Body):
    model_config = example(state="success", note="looked at it")

    state: Literal["queued", "success", "failed"] | None = None
    note: Note = None


class BulkDAGRunBody(DAGRunPatchBody):
    """A run to change. `dag_id` is required when the address has `~`."""

    model_config = example(dag_run_id="manual__1", note="looked at it")

    dag_run_id: Text
    dag_id: Text | None = None


class BulkDAGRunsBody(BulkBody[BulkDAGRunBody]):
    model_config = example(
        actions=[
            {"action": "update", "entities": [{"dag_run_id": "manual__1", "note": "looked at it"}]},
            {"action": "delete", "entities": ["manual__2"], "action_on_non_existence": "skip"},
        ]
    )


class DAGRunClearBody(LackingItems):
    """A request to clear runs, as in Airflow: without `dry_run: false` it only returns what would be cleared."""

    model_config = example(dry_run=False)

    dry_run: bool = True
    only_failed: bool = False
    only_new: Literal[False] = False
    run_on_latest_version: bool | None = None
    note: Note = None


class BulkDAGRunClearBody(DAGRunClearBody):
    """A request to clear several runs. Runs are named by their ids: only null is accepted for partitions."""

    model_config = example(dag_runs=[{"dag_run_id": "manual__1"}], dry_run=True)

    dag_runs: Annotated[list[BulkDAGRunBody], Field(min_length=1)]
    partition_key: None = None
    partition_date_start: None = None
    partition_date_end: None = None


@router.get("/dagRuns")
async def list_runs(
    context: Context,
    _: Viewer,
    dag_id: str,
    window: Annotated[PageRequest, Depends(cursor_window(RUN_ORDERS, "id"))],
    query: Annotated[RunQuery, Query()],
) -> DAGRunCollectionResponse:
    """List the runs of a job, or with `~` the runs of all jobs."""
    of_job = None if dag_id == ALL else dag_id
    async with context.database.reading() as connection:
        if of_job is not None:
            await jobs.get(connection, of_job)
        return run_collection(await run_lists.listed(connection, query.filter(of_job), window))


@router.post("/dagRuns/list")
async def list_runs_by_body(
    context: Context,
    _: Viewer,
    dag_id: str,
    body: DAGRunsBatchBody,
) -> DAGRunCollectionResponse:
    """List runs with the filters in a body. Airflow accepts only `~` as the `dag_id` here."""
    which = replace(body.filter, dag_id=None if dag_id == ALL else dag_id)
    window = window_of_body(body.page_offset, body.page_limit, body.order_by, RUN_ORDERS, "id")
    async with context.database.reading() as connection:
        return run_collection(await run_lists.listed(connection, which, window))


@router.post("/dagRuns", responses=MAY_CONFLICT)
async def trigger_run(context: Context, actor: Operator, dag_id: str, body: TriggerDAGRunPostBody) -> DAGRunResponse:
    """Create a queued run of the job. 409 means that its id has been used before."""
    run_id = await trigger(context, actor, dag_id, body)
    return await get_run(context, actor, dag_id, run_id)


@router.patch("/dagRuns")
async def change_runs(context: Context, actor: Operator, dag_id: str, body: BulkDAGRunsBody) -> BulkResponse:
    """Change or delete runs, each on its own. Runs cannot be created this way."""

    async def apply(action: Any, entity: BulkDAGRunBody | str) -> str:
        if isinstance(action, BulkCreateAction):
            raise HTTPException(405, "runs are triggered one by one; use POST …/dagRuns")
        named = entity if isinstance(entity, BulkDAGRunBody) else BulkDAGRunBody(dag_run_id=entity)
        job, run_id = _named(named, dag_id)
        if isinstance(action, BulkDeleteAction):
            await delete_run(context, actor, job, run_id)
        else:
            await _existing(context, job, run_id)
            await change(context, actor, job, run_id, _changes(named, action.update_mask))
        return f"{job}.{run_id}"

    return await apply_each(body, apply)


@router.get("/dagRuns/{run_id}")
async def get_run(context: Context, _: Viewer, dag_id: str, run_id: str) -> DAGRunResponse:
    """Return a run."""
    return run_response(await _existing(context, dag_id, run_id))


@router.patch("/dagRuns/{run_id}", responses=MAY_CONFLICT)
async def patch_run(
    context: Context,
    actor: Operator,
    dag_id: str,
    run_id: str,
    body: DAGRunPatchBody,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> DAGRunResponse:
    """Change the note and the state of a run.

    `failed` cancels a run that is not over and marks one that is. `success` marks the run. `queued` clears a run that is over.
    """
    await change(context, actor, dag_id, run_id, _changes(body, update_mask))
    return await get_run(context, actor, dag_id, run_id)


@router.delete("/dagRuns/{run_id}", status_code=204, responses=MAY_CONFLICT)
async def remove_run(context: Context, actor: Operator, dag_id: str, run_id: str) -> None:
    """Delete a run that is over and whose processes are gone. Its events stay consumed, and its id cannot be used again."""
    await delete_run(context, actor, dag_id, run_id)


@router.post("/dagRuns/{run_id}/clear", responses=MAY_CONFLICT)
async def clear_run(
    context: Context, actor: Operator, dag_id: str, run_id: str, body: DAGRunClearBody
) -> DAGRunResponse | TaskInstanceCollectionResponse:
    """Clear a run that is over: its next try runs with the same events."""
    cleared = await _to_clear(context, dag_id, run_id, body)
    if body.dry_run:
        return all_of(cleared)
    await _clear(context, actor, dag_id, run_id, body, cleared)
    return await get_run(context, actor, dag_id, run_id)


@router.post("/dagRuns/{run_id}/resolve")
async def resolve_run(context: Context, actor: Operator, dag_id: str, run_id: str) -> DAGRunResponse:
    """Resolve the bad records of a run: they are a problem no longer. Repeating it changes nothing."""
    await resolve(context, actor, dag_id, run_id)
    return await get_run(context, actor, dag_id, run_id)


@router.post("/clearDagRuns", responses=MAY_CONFLICT)
async def clear_runs(
    context: Context, actor: Operator, dag_id: str, body: BulkDAGRunClearBody
) -> DAGRunCollectionResponse | TaskInstanceCollectionResponse:
    """Clear several runs one after the other, up to the first that cannot be cleared. All are looked up before any is cleared."""
    named = [_named(run, dag_id) for run in body.dag_runs]
    cleared = {key: await _to_clear(context, *key, body) for key in dict.fromkeys(named)}
    if body.dry_run:
        return all_of([task for tasks in cleared.values() for task in tasks])
    for key, tasks in cleared.items():
        await _clear(context, actor, *key, body, tasks)
    shown = [run_response(await _existing(context, *key)) for key in cleared]
    return DAGRunCollectionResponse(dag_runs=shown, total_entries=len(shown))


@router.get("/dagRuns/{run_id}/upstreamAssetEvents")
async def list_upstream_events(context: Context, _: Viewer, dag_id: str, run_id: str) -> AssetEventCollectionResponse:
    """List the events that the run consumes, oldest first."""
    async with context.database.reading() as connection:
        await runs.get(connection, dag_id, run_id)
        events: Sequence[StoredEvent] = await consumption.events_of_run(connection, dag_id, run_id)
        consumers = await consumption.runs_of_events(connection, [event.id for event in events])
    shown = [event_response(event, consumers) for event in events]
    return AssetEventCollectionResponse(asset_events=shown, total_entries=len(shown))


@router.get("/dagRuns/{run_id}/wait", response_class=StreamingResponse, responses=_LINES)
async def wait_for_run(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    interval: Annotated[float, Query(gt=0, allow_inf_nan=False)],
    may_listen: Listener,
    result: Annotated[list[str] | None, Query()] = None,  # noqa: ARG001  jobs have no results here
) -> StreamingResponse:
    """Send a line of JSON with the run's `state` at once, and one after each `interval` (seconds) until the run is over."""
    await _existing(context, dag_id, run_id)
    context.live.streams.check()
    states = _states(context, dag_id, run_id, max(interval, _SHORTEST_INTERVAL))
    return StreamingResponse(context.live.streams.lines(states, may_listen), media_type="text/plain")


async def _states(context: ApiContext, dag_id: str, run_id: str, interval: float) -> AsyncIterator[str]:
    while not context.live.stopping.is_set():
        try:
            state = (await _existing(context, dag_id, run_id)).state
        except NotFound:  # it was deleted
            return
        yield json.dumps({"state": state}) + "\n"
        if state not in ACTIVE:
            return
        with anyio.move_on_after(interval):
            await context.live.stopping.wait()


async def _existing(context: ApiContext, dag_id: str, run_id: str) -> RunRow:
    async with context.database.reading() as connection:
        return await runs.get(connection, dag_id, run_id)


def _changes(body: DAGRunPatchBody, mask: Sequence[str] | None) -> dict[str, Any]:
    """Return the changes: the members that were sent, reduced to those that the mask names, if there is one."""
    sent = body.model_dump(include={"state", "note"}, exclude_unset=True)
    return {name: value for name, value in sent.items() if not mask or name in mask}


def _named(run: BulkDAGRunBody, dag_id: str) -> tuple[str, str]:
    """Return the job and the run. Raise 400 if the address and the body do not name the same job."""
    job = run.dag_id or dag_id
    if ALL in {job, run.dag_run_id}:
        raise HTTPException(
            400, f"the job of the run {run.dag_run_id!r} is missing; give its `dag_id`, because the address has `~`"
        )
    if dag_id not in {ALL, job}:
        raise HTTPException(
            400,
            f"the run {run.dag_run_id!r} belongs to {job!r} and the address to {dag_id!r}; use the address with `~`",
        )
    return job, run.dag_run_id


async def _to_clear(context: ApiContext, dag_id: str, run_id: str, body: DAGRunClearBody) -> Sequence[TaskInstance]:
    async with context.database.reading() as connection:
        await runs.get(connection, dag_id, run_id)
        tasks = await task_instances.of_run(connection, dag_id, run_id)
        await check_clear(context, connection, dag_id, run_id, body.include)
    return [task for task in tasks if not body.only_failed or task.state == "failed"]


async def _clear(
    context: ApiContext, actor: Operator, dag_id: str, run_id: str, body: DAGRunClearBody, tasks: Sequence[TaskInstance]
) -> None:
    if tasks:
        await clear(context, actor, dag_id, run_id, body.include)
    if body.note is not None:
        await annotate(context, actor, dag_id, run_id, body.note)
