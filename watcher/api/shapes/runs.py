"""Runs and task instances, as Airflow's; `reason`, `warning`, `detail`, `progress` and `exit_code` are ours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator

from store.runs.runs import Run
from store.runs.task_instances import TaskInstance
from watcher.api.shapes.base import JsonObject, Shape, parsed


class DAGRunResponse(Shape):
    dag_run_id: str
    dag_id: str
    logical_date: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    last_scheduling_decision: datetime | None = None
    run_type: str
    state: str
    triggered_by: str | None
    triggering_user_name: str | None = None
    conf: JsonObject | None
    note: str | None
    dag_versions: Sequence[str] = ()
    bundle_version: str | None = None
    dag_display_name: str
    partition_key: str | None = None
    partition_date: datetime | None = None
    reason: str | None
    warning: str | None


class DAGRunCollectionResponse(Shape):
    dag_runs: Sequence[DAGRunResponse]
    total_entries: int


class TaskInstanceResponse(Shape):
    id: UUID
    task_id: str
    dag_id: str
    dag_run_id: str
    map_index: int
    logical_date: datetime | None
    run_after: datetime
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    state: str
    try_number: int
    max_tries: int
    task_display_name: str
    dag_display_name: str
    hostname: str | None = None
    unixname: str | None = None
    pool: str = "default_pool"
    pool_slots: int = 1
    queue: str | None = None
    priority_weight: int | None = None
    operator: str = "spark-submit"
    operator_name: str = "spark-submit"
    queued_when: datetime | None
    scheduled_when: datetime | None
    pid: int | None = None
    executor: str | None = None
    executor_config: str = "{}"
    note: str | None = None
    rendered_map_index: str | None = None
    rendered_fields: dict[str, Any] | None = None
    trigger: None = None
    triggerer_job: None = None
    dag_version: None = None
    detail: str | None
    progress: Annotated[dict[str, int], BeforeValidator(parsed)] | None
    exit_code: int | None


class TaskInstanceCollectionResponse(Shape):
    task_instances: Sequence[TaskInstanceResponse]
    total_entries: int


def run_response(run: Run) -> DAGRunResponse:
    """A run under Airflow's names."""
    return DAGRunResponse.of(run, dag_run_id=run.run_id, dag_display_name=run.dag_id, duration=_duration(run))


def task_instance_response(task: TaskInstance) -> TaskInstanceResponse:
    """A task instance under Airflow's names."""
    return TaskInstanceResponse.of(
        task,
        dag_run_id=task.run_id,
        task_display_name=task.task_id,
        dag_display_name=task.dag_id,
        duration=_duration(task),
        max_tries=task.definition.retries,
        queued_when=task.queued_at,
        scheduled_when=task.queued_at,
    )


def _duration(timed: Run | TaskInstance) -> float | None:
    start, end = timed.start_date, timed.end_date
    return None if start is None or end is None else (end - start).total_seconds()
