"""Jobs, as Airflow's dags, their runs and task instances; `reason`, `warning`, `trace_id`, `detail`, `progress`, `exit_code` are ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator

from store.keys import Cron
from store.runs.jobs import Job
from store.runs.runs import Run
from store.runs.task_instances import TaskInstance
from watcher.api.shapes.base import JsonObject, Shape, parsed


class DAGResponse(Shape):
    """What a job has none of is null or empty, but present: Airflow's client insists."""

    dag_id: str
    dag_display_name: str
    is_paused: bool
    is_stale: bool
    last_parsed_time: datetime | None
    last_parse_duration: float | None = None
    last_expired: datetime | None = None
    bundle_name: str | None = None
    bundle_version: str | None = None
    relative_fileloc: str | None
    fileloc: str
    description: str | None = None
    timetable_summary: str | None
    timetable_description: str | None
    timetable_partitioned: bool = False
    timetable_periodic: bool = False
    tags: Sequence[str] = ()
    max_active_tasks: int = 1
    max_active_runs: int
    max_consecutive_failed_dag_runs: int = 0
    has_task_concurrency_limits: bool = False
    has_import_errors: bool = False
    next_dagrun_logical_date: datetime | None = None
    next_dagrun_data_interval_start: datetime | None = None
    next_dagrun_data_interval_end: datetime | None = None
    next_dagrun_run_after: datetime | None = None
    allowed_run_types: Sequence[str] | None = None
    owners: Sequence[str] = ()
    is_backfillable: bool = False
    file_token: str = ""
    unprocessed: int
    """Ours: events that lie in failed runs."""


class DAGCollectionResponse(Shape):
    dags: Sequence[DAGResponse]
    total_entries: int


def dag_response(job: Job, unprocessed: Mapping[str, int]) -> DAGResponse:
    """A job, and how many events each job failed to process."""
    definition = job.definition
    events, cron = schedule_text(definition.schedule), definition.cron
    schedule = " or ".join(part for part in (events, cron and cron.expression) if part) or None
    tick = job.next_tick if cron else None
    return DAGResponse(
        dag_id=job.dag_id,
        dag_display_name=job.dag_id,
        is_paused=job.paused,
        is_stale=not job.active,
        last_parsed_time=job.updated_at,
        relative_fileloc=definition.application,
        fileloc=definition.application,
        timetable_summary=schedule,
        timetable_description=_description(events, cron),
        timetable_periodic=cron is not None,
        max_active_runs=definition.max_active_runs,
        unprocessed=unprocessed.get(job.dag_id, 0),
        next_dagrun_logical_date=tick,
        next_dagrun_data_interval_start=tick,
        next_dagrun_data_interval_end=tick,
        next_dagrun_run_after=tick,
    )


def _description(events: str | None, cron: Cron | None) -> str | None:
    by_time = cron and f"{cron.expression} ({cron.timezone})"
    by_events = events and f"Triggered by assets: {events}"
    return " or ".join(part for part in (by_events, by_time) if part) or None


def schedule_text(condition: Any) -> str | None:
    """A schedule in the words of people: `a & (b | c)`; None where there is none. `condition` is `job.definition`'s."""
    return None if condition is None else _text(condition, top=True)


def _text(condition: Any, *, top: bool = False) -> str:
    match condition:
        case str() as name:
            return name
        case {"asset": str() as name}:
            return name
        case {"alias": str() as name}:
            return f"alias({name})"
        case {"all": parts}:
            joined = " & ".join(map(_text, parts))
        case {"any": parts}:
            joined = " | ".join(map(_text, parts))
        case _:
            return str(condition)
    return joined if top or len(parts) == 1 else f"({joined})"


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
    trace_id: str


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
