"""`/execution/dag-runs` and `/execution/task-instances`: the runs of the job itself, for Airflow's Task SDK.

Airflow lets every task read every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from store.keys import TaskInstanceKey
from store.runs import run_lists, runs
from store.runs.run_lists import RunFilter
from store.runs.tries import task_instances
from store.runs.tries.task_instances import TaskFilter
from watcher.serving.api.context import Context
from watcher.serving.api.execution.identity import Identity, forbidden, reading_as
from watcher.serving.api.parameters import BIGGEST_SMALL, Moment, Text
from watcher.serving.api.shapes.base import Shape

router = APIRouter(prefix="/execution", tags=["Execution: runs"])
_Texts = Annotated[list[Text] | None, Query()]
_Moments = Annotated[list[Moment] | None, Query()]


class DagRunStateResponse(Shape):
    state: str


class TaskStatesResponse(Shape):
    """The states of tasks, by run and then by task."""

    task_states: Mapping[str, Mapping[str, str]]


def _check_own(task: TaskInstanceKey, dag_id: str) -> None:
    if dag_id != task.dag_id:
        raise forbidden(f"the job {task.dag_id} cannot read runs of {dag_id!r}; ask only for runs of the job itself")


@router.get("/dag-runs/count")
async def count_runs(
    context: Context,
    identity: Identity,
    dag_id: str,
    logical_dates: _Moments = None,
    run_ids: _Texts = None,
    states: _Texts = None,
) -> int:
    """Count runs of the job."""
    which = RunFilter(dag_id=dag_id, logical_dates=logical_dates, run_ids=run_ids, states=states)
    async with reading_as(context, identity) as (connection, task):
        _check_own(task, dag_id)
        return await run_lists.count(connection, which)


@router.get("/dag-runs/{dag_id}/{run_id}/state")
async def get_run_state(context: Context, identity: Identity, dag_id: str, run_id: str) -> DagRunStateResponse:
    """Return the state of a run of the job."""
    async with reading_as(context, identity) as (connection, task):
        _check_own(task, dag_id)
        return DagRunStateResponse(state=(await runs.get(connection, dag_id, run_id)).state)


async def _tasks(
    dag_id: str,
    map_index: Annotated[int | None, Query(ge=-1, le=BIGGEST_SMALL)] = None,
    task_ids: _Texts = None,
    task_group_id: str | None = None,
    logical_dates: _Moments = None,
    run_ids: _Texts = None,
) -> TaskFilter:
    """Return the filter. Task groups do not exist here, so a `task_group_id` matches nothing."""
    return TaskFilter(
        dag_ids=[dag_id],
        map_indexes=None if map_index is None else [map_index],
        task_ids=task_ids,
        logical_dates=logical_dates,
        run_ids=run_ids,
        is_impossible=task_group_id is not None,
    )


Tasks = Annotated[TaskFilter, Depends(_tasks)]


@router.get("/task-instances/count")
async def count_task_instances(
    context: Context, identity: Identity, dag_id: str, tasks: Tasks, states: _Texts = None
) -> int:
    """Count task instances of the job."""
    async with reading_as(context, identity) as (connection, task):
        _check_own(task, dag_id)
        of_runs = await task_instances.states(connection, replace(tasks, states=states))
        return sum(map(len, of_runs.values()))


@router.get("/task-instances/states")
async def list_states(context: Context, identity: Identity, dag_id: str, tasks: Tasks) -> TaskStatesResponse:
    """List the states of task instances, by run and then by task."""
    async with reading_as(context, identity) as (connection, task):
        _check_own(task, dag_id)
        return TaskStatesResponse(task_states=await task_instances.states(connection, tasks))
