"""`/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances`: each run has one, and what is decided of it is of the run.

Some routes are there twice, as in Airflow: with the map index in the path, where -1 stands for what is not mapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import Field, field_validator, model_validator

from store.database.paging import PageRequest, Range
from store.errors import Conflict, NotFound
from store.keys import TaskInstanceKey
from store.runs import jobs, runs, task_instances
from store.runs.queues import ACTIVE
from store.runs.task_instances import TASK_ORDERS, TaskFilter, TaskInstance
from watcher.serving.api.bulk import BulkBody, BulkResponse, BulkUpdateAction, answered
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import Note, annotate, clear, settle
from watcher.serving.api.document.openapi import MAY_CONFLICT
from watcher.serving.api.filters import TaskInstancesBatchBody, TaskQuery
from watcher.serving.api.parameters import BIGGEST_SMALL, Body, Moment, Text, cursor_window, example, window_of_body
from watcher.serving.api.routes.dags import ALL
from watcher.serving.api.shapes.task_instances import (
    ExtraLinkCollectionResponse,
    TaskDependencyCollectionResponse,
    TaskDependencyResponse,
    TaskInstanceCollectionResponse,
    TaskInstanceHistoryCollectionResponse,
    TaskInstanceHistoryResponse,
    TaskInstanceResponse,
    all_of,
    history_link,
    task_collection,
    task_instance_response,
    try_response,
)
from watcher.serving.api.sign_in.auth import Actor, Operator, Viewer

router = APIRouter(prefix="/api/v2/dags/{dag_id}", tags=["Task Instance"])
_MOST_RUNS: Final = 1000
"""That one request clears."""
_MOST_TRIES: Final = 1000
"""The newest ones, that a list shows."""
_AnyMapIndex: TypeAlias = Annotated[int, Field(ge=-1, le=BIGGEST_SMALL)]
_TryNumber: TypeAlias = Annotated[int, Field(ge=0, le=BIGGEST_SMALL)]


class PatchTaskInstanceBody(Body):
    """`new_state` is written to the run. A job has one task, so nothing is up or down the stream; other runs stay as they are."""

    model_config = example(new_state="success", note="looked at it")

    new_state: Literal["success", "failed", "skipped"] | None = None
    note: Note = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: Literal[False] = False
    include_past: Literal[False] = False

    @field_validator("new_state", mode="before")
    @classmethod
    def _given(cls, state: Any) -> Any:
        if state is None:
            raise ValueError("leave `new_state` out, or give success, failed or skipped")
        return state.lower() if isinstance(state, str) else state


class BulkTaskInstanceBody(PatchTaskInstanceBody):
    """`dag_id` and `dag_run_id`: of the address, where that is not `~`."""

    model_config = example(task_id="load", new_state="success")

    task_id: Text
    map_index: _AnyMapIndex | None = None
    dag_id: Text | None = None
    dag_run_id: Text | None = None


class BulkTaskInstancesBody(BulkBody[BulkTaskInstanceBody]):
    model_config = example(actions=[{"action": "update", "entities": [{"task_id": "load", "new_state": "success"}]}])


class ClearTaskInstancesBody(Body):
    """As Airflow's: without `dry_run: false` it only tells what would be cleared. Dates are of `logical_date`."""

    model_config = example(dry_run=True, dag_run_id="manual__1")

    dry_run: bool = True
    start_date: Moment | None = None
    end_date: Moment | None = None
    only_failed: bool = True
    only_running: bool = False
    reset_dag_runs: Literal[True] = True
    task_ids: (
        Annotated[list[Text | Annotated[tuple[Text, _AnyMapIndex], Field(strict=False)]], Field(min_length=1)] | None
    ) = None
    dag_run_id: Text | None = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: Literal[False] = False
    include_past: Literal[False] = False
    run_on_latest_version: bool | None = None
    prevent_running_task: bool = False
    note: Note = None

    @model_validator(mode="after")
    def _consistent(self) -> ClearTaskInstancesBody:
        if self.only_failed and self.only_running:
            raise ValueError("give one of only_failed and only_running")
        if self.dag_run_id is not None and (self.start_date is not None or self.end_date is not None):
            raise ValueError("give dag_run_id, or dates")
        if self.start_date is not None and self.end_date is not None and self.end_date < self.start_date:
            raise ValueError("end_date is sooner than start_date")
        return self

    def filter(self, dag_id: str) -> TaskFilter:
        """Without the map indexes: nothing here is mapped, so that any but -1 leaves its task out."""
        ids = [name if isinstance(name, str) else name[0] for name in self.task_ids or () if name[1:] != (0,)]
        states = {(True, False): ["failed"], (False, True): ["running"]}.get((self.only_failed, self.only_running))
        return TaskFilter(
            dag_ids=[dag_id],
            run_ids=None if self.dag_run_id is None else [self.dag_run_id],
            task_ids=None if self.task_ids is None else ids,
            states=states,
            ranges={"logical_date": Range(gte=self.start_date, lte=self.end_date)},
            is_impossible=self.task_ids is not None and not ids,
        )


@router.get("/dagRuns/{run_id}/taskInstances")
async def list_task_instances(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    window: Annotated[PageRequest, Depends(cursor_window(TASK_ORDERS, "map_index"))],
    query: Annotated[TaskQuery, Query()],
) -> TaskInstanceCollectionResponse:
    """Of one run, or with `~` of all, of one job or all."""
    if dag_id == ALL and run_id != ALL:
        raise HTTPException(400, "a run is named by its job and its id; give the dag_id too, or `~` for both")
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
    """The same with the filters in a body; Airflow has it for `~` and `~` only."""
    of_job, of_run = ([] if name == ALL else [name] for name in (dag_id, run_id))
    which = body.filter
    which = replace(which, dag_ids=of_job or which.dag_ids, run_ids=of_run or which.run_ids)
    window = window_of_body(body.page_offset, body.page_limit, body.order_by, TASK_ORDERS, "map_index")
    async with context.database.reading() as connection:
        return task_collection(await task_instances.listed(connection, which, window))


@router.patch("/dagRuns/{run_id}/taskInstances")
async def change_task_instances(
    context: Context, actor: Operator, dag_id: str, run_id: str, body: BulkTaskInstancesBody
) -> BulkResponse:
    """Each is changed by itself. None is made or deleted: runs are."""

    async def one(action: Any, entity: BulkTaskInstanceBody | str) -> str:
        if not isinstance(action, BulkUpdateAction) or isinstance(entity, str):
            raise HTTPException(
                405, f"a task instance cannot be {action.action}d without its run; {action.action} the run"
            )
        key = _named(entity, dag_id, run_id)
        await _change(context, actor, key, entity, action.update_mask)
        return f"{key.dag_id}.{key.run_id}.{key.task_id}[{key.map_index}]"

    return await answered(body, one)


@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}/dry_run")
@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/dry_run", name="preview_mapped_task_instance")
async def preview_task_instance(
    context: Context,
    _: Operator,
    dag_id: str,
    run_id: str,
    task_id: str,
    body: PatchTaskInstanceBody,
    map_index: _AnyMapIndex = -1,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> TaskInstanceCollectionResponse:
    """What a change of the state would change, as it is now."""
    task = await _existing(context, _key(dag_id, run_id, task_id, map_index))
    new_state = _changes(body, update_mask).get("new_state")
    return all_of([task] if new_state is None or new_state != task.state else [])


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/tries")
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/tries", name="list_tries_of_mapped_task_instance")
async def list_tries(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: _AnyMapIndex = -1
) -> TaskInstanceHistoryCollectionResponse:
    """The oldest first; none before the first has begun."""
    tries = await _tries(context, _key(dag_id, run_id, task_id, map_index))
    return TaskInstanceHistoryCollectionResponse(task_instances=tries, total_entries=len(tries))


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/tries/{try_number}")
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/tries/{try_number}", name="get_try_of_mapped")
async def get_try(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: _TryNumber,
    map_index: _AnyMapIndex = -1,
) -> TaskInstanceHistoryResponse:
    for each in await _tries(context, _key(dag_id, run_id, task_id, map_index)):
        if each.try_number == try_number:
            return each
    raise NotFound(f"the run {run_id!r} of {dag_id!r} has no try {try_number}")


@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/dependencies")
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/dependencies", name="get_dependencies_of_mapped")
async def get_dependencies(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: _AnyMapIndex = -1
) -> TaskDependencyCollectionResponse:
    """Why a queued one has not been started, in words."""
    task = await _existing(context, _key(dag_id, run_id, task_id, map_index))
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
    map_index: Annotated[_AnyMapIndex, Query()] = -1,
    try_number: Annotated[_TryNumber | None, Query()] = None,
) -> ExtraLinkCollectionResponse:
    """Of the newest try, unless another is named."""
    key = _key(dag_id, run_id, task_id, map_index)
    progress = (await _existing(context, key)).progress
    if try_number is not None:
        async with context.database.reading() as connection:
            tries = await task_instances.tries_of_run(connection, dag_id, run_id, limit=_MOST_TRIES)
        progress = next((each.progress for each in tries if each.try_number == try_number), None)
    link = history_link(context.links.spark_history_url, progress)
    return ExtraLinkCollectionResponse(
        extra_links={"Spark history": link} if link else {}, total_entries=int(bool(link))
    )


# After all that have a word of their own in the place of the map index.
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}")
@router.get("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}", name="get_mapped_task_instance")
async def get_task_instance(
    context: Context, _: Viewer, dag_id: str, run_id: str, task_id: str, map_index: _AnyMapIndex = -1
) -> TaskInstanceResponse:
    return task_instance_response(await _existing(context, _key(dag_id, run_id, task_id, map_index)))


@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}")
@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}", name="patch_mapped_task_instance")
async def patch_task_instance(
    context: Context,
    actor: Operator,
    dag_id: str,
    run_id: str,
    task_id: str,
    body: PatchTaskInstanceBody,
    map_index: _AnyMapIndex = -1,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> TaskInstanceCollectionResponse:
    """`failed` cancels a run that is not over; else the run is marked, `skipped` as a success."""
    key = _key(dag_id, run_id, task_id, map_index)
    await _change(context, actor, key, body, update_mask)
    return all_of([await _existing(context, key)])


@router.post("/clearTaskInstances", responses=MAY_CONFLICT)
async def clear_task_instances(
    context: Context, actor: Operator, dag_id: str, body: ClearTaskInstancesBody
) -> TaskInstanceCollectionResponse:
    """Runs are cleared one after the other, up to the first that cannot be."""
    window = PageRequest(limit=_MOST_RUNS, order_by=["run_after"])
    async with context.database.reading() as connection:
        await jobs.get(connection, dag_id)
        if body.dag_run_id is not None:
            await runs.get(connection, dag_id, body.dag_run_id)
        cleared = await task_instances.listed(connection, body.filter(dag_id), window)
    if not body.dry_run:
        _check_ended(cleared.rows)
        for task in cleared.rows:
            await clear(context, actor, dag_id, task.run_id)
            if body.note is not None:
                await annotate(context, actor, dag_id, task.run_id, body.note)
    return task_collection(cleared)


def _check_ended(tasks: Sequence[TaskInstance]) -> None:
    for task in tasks:
        if task.state in {*ACTIVE, "up_for_retry"}:
            raise Conflict(f"the run {task.run_id!r} is not over; cancel it first, or wait for its end")


def _key(dag_id: str, run_id: str, task_id: str, map_index: int) -> TaskInstanceKey:
    return TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)


def _named(entity: BulkTaskInstanceBody, dag_id: str, run_id: str) -> TaskInstanceKey:
    """Raises 400 where the address and the body do not name one run."""
    job, run = entity.dag_id or dag_id, entity.dag_run_id or run_id
    if ALL in {job, run} or dag_id not in {ALL, job} or run_id not in {ALL, run}:
        raise HTTPException(
            400,
            f"name job and run of {entity.task_id!r}, in the address or, where that has `~`, by dag_id and dag_run_id",
        )
    return _key(job, run, entity.task_id, -1 if entity.map_index is None else entity.map_index)


async def _existing(context: ApiContext, key: TaskInstanceKey) -> TaskInstance:
    async with context.database.reading() as connection:
        return await task_instances.get(connection, key)


async def _tries(context: ApiContext, key: TaskInstanceKey) -> Sequence[TaskInstanceHistoryResponse]:
    async with context.database.reading() as connection:
        task = await task_instances.get(connection, key)
        newest_first = await task_instances.tries_of_run(connection, key.dag_id, key.run_id, limit=_MOST_TRIES)
    return [try_response(task, of_run) for of_run in reversed(newest_first)]


def _changes(body: PatchTaskInstanceBody, mask: Sequence[str] | None) -> dict[str, Any]:
    """What is to be changed: the members that were sent, and of those only what the mask names, if there is one."""
    sent = body.model_dump(include={"new_state", "note"}, exclude_unset=True)
    return {name: value for name, value in sent.items() if not mask or name in mask}


async def _change(
    context: ApiContext, actor: Actor, key: TaskInstanceKey, body: PatchTaskInstanceBody, mask: Sequence[str] | None
) -> None:
    await _existing(context, key)
    changes = _changes(body, mask)
    if "note" in changes:
        await annotate(context, actor, key.dag_id, key.run_id, changes["note"])
    if "new_state" in changes:
        await settle(context, actor, key.dag_id, key.run_id, changes["new_state"])
