"""Changes of task instances: notes, states and clearing. Each change applies to the run.

Some routes exist twice, as in Airflow: with and without the map index in the path, where -1 means not mapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field, field_validator, model_validator

from store.database.paging import PageRequest, Range
from store.errors import Conflict
from store.keys import TaskInstanceKey
from store.runs import jobs, runs
from store.runs.queue.queues import ACTIVE
from store.runs.tries import task_instances
from store.runs.tries.task_instances import TaskFilter, TaskInstance
from watcher.serving.api.bulk import BulkBody, BulkResponse, BulkUpdateAction, apply_each
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import LackingItems, Note, annotate, clear, settle
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import AnyMapIndex, Body, Moment, Text, example
from watcher.serving.api.routes.dags import ALL
from watcher.serving.api.routes.task_instances import existing, key_of
from watcher.serving.api.shapes.task_instances import TaskInstanceCollectionResponse, all_of, task_collection
from watcher.serving.api.sign_in.auth import Actor, Operator

router = APIRouter(prefix="/api/v2/dags/{dag_id}", tags=["Task Instance"])
_MOST_RUNS: Final = 1000
"""Runs that one request clears at most."""


class PatchTaskInstanceBody(Body):
    """A change of a task instance. `new_state` is written to its run.

    A job has one task, so there is nothing upstream or downstream. Other runs stay unchanged.
    """

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
            raise ValueError("`new_state` is null; leave it out, or give success, failed or skipped")
        return state.lower() if isinstance(state, str) else state


class BulkTaskInstanceBody(PatchTaskInstanceBody):
    """A task instance to change. `dag_id` and `dag_run_id` are required when the address has `~`."""

    model_config = example(task_id="load", new_state="success")

    task_id: Text
    map_index: AnyMapIndex | None = None
    dag_id: Text | None = None
    dag_run_id: Text | None = None


class BulkTaskInstancesBody(BulkBody[BulkTaskInstanceBody]):
    model_config = example(actions=[{"action": "update", "entities": [{"task_id": "load", "new_state": "success"}]}])


class ClearTaskInstancesBody(LackingItems):
    """A request to clear runs by their task instances, as in Airflow.

    Without `dry_run: false` it only returns what would be cleared. The dates are compared with `logical_date`.
    """

    model_config = example(dry_run=True, dag_run_id="manual__1")

    dry_run: bool = True
    start_date: Moment | None = None
    end_date: Moment | None = None
    only_failed: bool = True
    only_running: bool = False
    reset_dag_runs: Literal[True] = True
    task_ids: (
        Annotated[list[Text | Annotated[tuple[Text, AnyMapIndex], Field(strict=False)]], Field(min_length=1)] | None
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
            raise ValueError("give only one of only_failed and only_running")
        if self.dag_run_id is not None and (self.start_date is not None or self.end_date is not None):
            raise ValueError("give either dag_run_id or dates")
        if self.start_date is not None and self.end_date is not None and self.end_date < self.start_date:
            raise ValueError("end_date is earlier than start_date; swap them")
        return self

    def filter(self, dag_id: str) -> TaskFilter:
        """Return the filter for the task instances of a job.

        Nothing here is mapped, so a task id with another map index than -1 matches nothing.
        """
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


@router.patch("/dagRuns/{run_id}/taskInstances")
async def change_task_instances(
    context: Context, actor: Operator, dag_id: str, run_id: str, body: BulkTaskInstancesBody
) -> BulkResponse:
    """Change task instances, each on its own. They cannot be created or deleted without their runs."""

    async def apply(action: Any, entity: BulkTaskInstanceBody | str) -> str:
        if not isinstance(action, BulkUpdateAction) or isinstance(entity, str):
            raise HTTPException(
                405, f"a task instance cannot be {action.action}d without its run; {action.action} the run"
            )
        key = _named(entity, dag_id, run_id)
        await _change(context, actor, key, entity, action.update_mask)
        return f"{key.dag_id}.{key.run_id}.{key.task_id}[{key.map_index}]"

    return await apply_each(body, apply)


@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}/dry_run")
@router.patch(
    "/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}/dry_run", name="preview_mapped_task_instance"
)
async def preview_task_instance(
    context: Context,
    _: Operator,
    dag_id: str,
    run_id: str,
    task_id: str,
    body: PatchTaskInstanceBody,
    map_index: AnyMapIndex = -1,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> TaskInstanceCollectionResponse:
    """Return the task instances that a change of the state would change now."""
    task = await existing(context, key_of(dag_id, run_id, task_id, map_index))
    new_state = _changes(body, update_mask).get("new_state")
    return all_of([task] if new_state is None or new_state != task.state else [])


@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}")
@router.patch("/dagRuns/{run_id}/taskInstances/{task_id}/{map_index:map_index}", name="patch_mapped_task_instance")
async def patch_task_instance(
    context: Context,
    actor: Operator,
    dag_id: str,
    run_id: str,
    task_id: str,
    body: PatchTaskInstanceBody,
    map_index: AnyMapIndex = -1,
    update_mask: Annotated[list[str] | None, Query()] = None,
) -> TaskInstanceCollectionResponse:
    """Change the note and the state of a task instance's run.

    `failed` cancels a run that is not over. Otherwise the run is marked, and `skipped` marks it as a success.
    """
    key = key_of(dag_id, run_id, task_id, map_index)
    await _change(context, actor, key, body, update_mask)
    return all_of([await existing(context, key)])


@router.post("/clearTaskInstances", responses=MAY_CONFLICT)
async def clear_task_instances(
    context: Context, actor: Operator, dag_id: str, body: ClearTaskInstancesBody
) -> TaskInstanceCollectionResponse:
    """Clear runs one after the other, up to the first that cannot be cleared."""
    window = PageRequest(limit=_MOST_RUNS, order_by=["run_after"])
    async with context.database.reading() as connection:
        await jobs.get(connection, dag_id)
        if body.dag_run_id is not None:
            await runs.get(connection, dag_id, body.dag_run_id)
        cleared = await task_instances.listed(connection, body.filter(dag_id), window)
    if not body.dry_run:
        _check_ended(cleared.rows)
        for task in cleared.rows:
            await clear(context, actor, dag_id, task.run_id, body.include)
            if body.note is not None:
                await annotate(context, actor, dag_id, task.run_id, body.note)
    return task_collection(cleared)


def _check_ended(tasks: Sequence[TaskInstance]) -> None:
    for task in tasks:
        if task.state in {*ACTIVE, "up_for_retry"}:
            raise Conflict(f"the run {task.run_id!r} is not over; cancel it first, or wait until it ends")


def _named(entity: BulkTaskInstanceBody, dag_id: str, run_id: str) -> TaskInstanceKey:
    """Return the task instance. Raise 400 if the address and the body do not name the same run."""
    job, run = entity.dag_id or dag_id, entity.dag_run_id or run_id
    if ALL in {job, run} or dag_id not in {ALL, job} or run_id not in {ALL, run}:
        raise HTTPException(
            400,
            f"the job and run of {entity.task_id!r} are not clear; name them in the address, or use `~` there and give dag_id and dag_run_id",
        )
    return key_of(job, run, entity.task_id, -1 if entity.map_index is None else entity.map_index)


def _changes(body: PatchTaskInstanceBody, mask: Sequence[str] | None) -> dict[str, Any]:
    """Return the changes: the members that were sent, reduced to those that the mask names, if there is one."""
    sent = body.model_dump(include={"new_state", "note"}, exclude_unset=True)
    return {name: value for name, value in sent.items() if not mask or name in mask}


async def _change(
    context: ApiContext, actor: Actor, key: TaskInstanceKey, body: PatchTaskInstanceBody, mask: Sequence[str] | None
) -> None:
    await existing(context, key)
    changes = _changes(body, mask)
    if "note" in changes:
        await annotate(context, actor, key.dag_id, key.run_id, changes["note"])
    if "new_state" in changes:
        await settle(context, actor, key.dag_id, key.run_id, changes["new_state"])
